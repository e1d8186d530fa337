"""Random tables and settings, and the command line run on them in processes of its own."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

TIMEOUT_SECONDS = 900


@dataclass(frozen=True)
class Scenario:
    """A table, the options of its fit, and the column to predict."""

    table: Path
    options: tuple[str, ...]
    target: str

    @classmethod
    def random(cls, rng: np.random.Generator, folder: Path) -> "Scenario":
        """A table of numbers, texts, dates and holes, and settings that go with its target."""
        rows = int(rng.integers(40, 300))
        x = rng.normal(size=(rows, int(rng.integers(1, 5))))
        f = np.sin(2 * x[:, 0]) + 0.1 * rng.normal(size=rows)
        frame = pd.DataFrame(x, columns=[f"x{i}" for i in range(x.shape[1])])
        if rng.random() < 0.5:
            frame["city"] = rng.choice(["Oslo", "Rome", "=SUM(A1)", "\x1b[31mred"], rows)
        if rng.random() < 0.3:
            frame["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 99, rows), "D")
        frame = frame.mask(rng.random(frame.shape) < 0.02)
        kind = str(rng.choice(["gaussian", "gaussian", "poisson", "classes"]))
        frame["y"] = {
            "gaussian": 10.0 ** rng.integers(-5, 6) * f,
            "poisson": rng.poisson(np.exp(f)),
            "classes": np.where(f > 0, "high", "low"),
        }[kind]
        options = ["--likelihood", kind, "--inducing", str(rng.integers(3, 24)), "--seed", str(rng.integers(9))]
        options += ["--max-iter", str(rng.integers(5, 60)), "--kernel", str(rng.choice(["matern32", "matern52"]))]
        if kind == "gaussian":
            options += ["--bound", str(rng.choice(["vecchia", "neighbours", "block", "diagonal", "standard"]))]
        path = folder / f"table{rng.choice(['.csv', '.csv.gz', '.parquet', '.tsv'])}"
        if path.suffix == ".parquet":
            frame.to_parquet(path, index=False)
        else:
            frame.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
        return cls(path, tuple(options), "y")

    def fit(self, out: Path, *more: str) -> subprocess.Popen:
        """Start a fit."""
        return start("fit", self.table, "--target", self.target, "--out", out, "--quiet", *self.options, *more)

    def predict(self, model: Path, out: Path) -> subprocess.Popen:
        """Start a prediction of the table that was fitted."""
        return start("predict", model, self.table, "--out", out, "--overwrite", "--quiet")


def start(*arguments) -> subprocess.Popen:
    """Start a command."""
    command = [sys.executable, "-m", "tightgp", *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))


def finish(process: subprocess.Popen) -> tuple[int, str]:
    """The exit code of a command and what it said; a command that hangs is killed."""
    try:
        _, said = process.communicate(timeout=TIMEOUT_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return -1, "it hung"
    return process.returncode, said


def kill_after(process: subprocess.Popen, seconds: float) -> bool:
    """Kill a command after some time; whether it was still running then."""
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    running = process.poll() is None
    if running:
        process.send_signal(signal.SIGKILL)
    process.communicate()
    return running
