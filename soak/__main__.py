"""Fit, kill, resume, predict, load, report, at once and again: ``make soak``, or ``python -m soak --quick``.

Each round makes a random table and random settings. A fit that is killed several times and resumed must predict the
same bits as one that was left alone; everything else must hold as well. The summary counts what was tried.
"""

import argparse
import json
import shutil
import tempfile
import threading
import time
import traceback
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd

import tightgp as tgp
from soak.scenarios import Scenario, finish, kill_after, start
from tightgp.app.cli.folder import FitFolder
from tightgp.io.modelfile import ModelFileError

#: What a round tries, in words for the summary.
CHECKS = {
    "fit": "fits left alone that ended well",
    "kill": "processes killed with SIGKILL while they fitted",
    "resume": "killed fits that were resumed to their end",
    "same bits": "resumed fits that predict the same bits as those left alone",
    "second fit": "second fits in a folder in use that were refused",
    "report": "reports written again",
    "escape": "messages and reports without terminal escapes",
    "damage": "damaged or cut model files that were refused",
    "load": "models loaded, with the predictions of the command line",
    "threads": "predictions of four threads at once, equal to the serial ones",
    "clean": "folders with the four files of a fit and nothing else",
}
FILES = {"model.safetensors", "report.html", "report.json", "settings.json"}


class Log:
    """Counts of what was tried and what held, and the failures."""

    def __init__(self, out: Path):
        self.tried: Counter = Counter()
        self.held: Counter = Counter()
        self.failures: list[str] = []
        self.resources: list[tuple[float, int, int]] = []
        self._out, self._started = out, time.monotonic()

    def count(self, what: str, held: bool, story: str = "") -> None:
        """One thing that was tried."""
        self.tried[what] += 1
        self.held[what] += bool(held)
        if not held:
            self.failures.append(f"{what}: {story}")

    def measure(self) -> None:
        """Note the memory and the open files of this process."""
        status = Path("/proc/self/status")
        if status.exists():
            megabytes = int(status.read_text().split("VmRSS:")[1].split()[0]) / 1024
            self.resources.append((megabytes, len(list(Path("/proc/self/fd").iterdir())), threading.active_count()))

    def write(self) -> None:
        """Write the summary."""
        minutes = (time.monotonic() - self._started) / 60
        lines = [f"# Soak: {minutes:.0f} minutes, {self.tried['fit']} rounds, {len(self.failures)} failures", ""]
        lines += ["| | tried | held |", "|---|---|---|"]
        lines += [f"| {text} | {self.tried[what]} | {self.held[what]} |" for what, text in CHECKS.items()]
        if len(self.resources) > 3:
            (early, files, threads), (late, last_files, last_threads) = self.resources[2], self.resources[-1]
            lines += [
                "",
                f"The process that loads and predicts, after round 3 and at the end: {early:.0f} and {late:.0f} MB,",
            ]
            lines += [f"{files} and {last_files} open files, {threads} and {last_threads} threads of Python."]
        lines += ["", "Failures:", "", *(f"- {one}" for one in self.failures)] if self.failures else []
        self._out.parent.mkdir(parents=True, exist_ok=True)
        self._out.write_text("\n".join(lines) + "\n", encoding="utf-8")


def play(rng: np.random.Generator, folder: Path, log: Log) -> None:
    """One round."""
    scenario = Scenario.random(rng, folder)
    story = f"{scenario.table.name} {' '.join(scenario.options)}"
    alone, killed = folder / "alone", folder / "killed"
    begun = time.monotonic()
    process = scenario.fit(alone)
    second = _second_fit(alone, process)
    code, said = finish(process)
    log.count("fit", code == 0, f"{story}: {code} {said}")
    if second is not None:
        log.count("second fit", "in use by process" in second, f"{story}: {second}")
    if code:
        return
    log.count("clean", {path.name for path in alone.iterdir()} == FILES, f"{story}: {sorted(alone.iterdir())}")
    log.count("escape", "\x1b" not in said + (alone / "report.html").read_text(encoding="utf-8"), story)
    _kill_and_resume(rng, scenario, killed, time.monotonic() - begun, log, story)
    answers = [_predictions(scenario, one, folder / f"{one.name}.csv", log, story) for one in (alone, killed)]
    if all(one is not None for one in answers):
        log.count("same bits", answers[0] == answers[1], story)
    process = start("report", alone, "--out", folder / "again.html", "--quiet")
    code, said = finish(process)
    log.count("report", code == 0 and (folder / "again.html").exists(), f"{story}: {code} {said}")
    _damage(rng, alone / "model.safetensors", folder / "damaged.safetensors", log, story)


def _second_fit(out: Path, first) -> str | None:
    """What a second fit is told in a folder where another one runs; None if the first was done too early."""
    while first.poll() is None and not (out / ".lock").exists():
        time.sleep(0.01)
    folder = FitFolder(out)
    try:
        folder.lock()
    except ValueError as error:
        return str(error)
    folder.unlock()
    return None if first.poll() is not None else "it was let in"


def _kill_and_resume(rng, scenario: Scenario, out: Path, seconds: float, log: Log, story: str) -> None:
    for _ in range(int(rng.integers(1, 4))):
        more = ["--resume"] if (out / "settings.json").exists() else []
        if kill_after(scenario.fit(out, *more), seconds * rng.uniform(0.1, 0.8)):
            log.count("kill", True)
    more = ["--resume"] if (out / "settings.json").exists() else []
    code, said = finish(scenario.fit(out, *more))
    log.count("resume", code == 0, f"{story}: {code} {said}")
    if code == 0:
        log.count("clean", {path.name for path in out.iterdir()} == FILES, f"{story}: {sorted(out.iterdir())}")


def _predictions(scenario: Scenario, model: Path, out: Path, log: Log, story: str) -> bytes | None:
    code, said = finish(scenario.predict(model, out))
    if code:
        log.count("same bits", False, f"{story}: {code} {said}")
        return None
    return out.read_bytes()


def _damage(rng, model: Path, damaged: Path, log: Log, story: str) -> None:
    """Cut the file, and change single bytes of it."""
    content = model.read_bytes()
    for i in range(5):
        place = int(rng.integers(len(content)))
        changed = content[:place] + (b"" if i == 0 else bytes([content[place] ^ int(rng.integers(1, 256))]))
        damaged.write_bytes(changed if i == 0 else changed + content[place + 1 :])
        try:
            tgp.load(damaged)
        except ModelFileError:
            log.count("damage", True)
        else:
            log.count("damage", False, f"{story}: byte {place}")


class Resident:
    """A model in this process, with which the same work is done in every round: its memory must not grow."""

    def __init__(self, folder: Path):
        rng = np.random.default_rng(0)
        self.table, self.model = folder / "resident.csv", folder / "resident"
        frame = pd.DataFrame(rng.normal(size=(400, 3)), columns=["a", "b", "y"])
        frame["y"] = np.sin(frame["a"]) + 0.1 * frame["y"]
        frame.to_csv(self.table, index=False)
        self.X = frame[["a", "b"]]
        scenario = Scenario(self.table, ("--inducing", "16", "--max-iter", "20"), "y")
        code, said = finish(scenario.fit(self.model))
        if code:
            raise SystemExit(f"the first fit failed: {said}")
        finish(scenario.predict(self.model, folder / "resident-predictions.csv"))
        self.expected = pd.read_csv(folder / "resident-predictions.csv")["mean"].to_numpy()

    def play(self, log: Log) -> None:
        """Load the model, predict, and predict from four threads at once."""
        estimator = tgp.load(self.model / "model.safetensors")
        mean, sd = estimator.predict(self.X, return_std=True)
        log.count("load", np.array_equal(mean, self.expected), "other predictions than those of the command line")
        answers: list = [None] * 4

        def ask(i: int) -> None:
            answers[i] = estimator.predict(self.X, return_std=True)

        threads = [threading.Thread(target=ask, args=(i,), daemon=True) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        for answer in answers:
            same = answer is not None and np.array_equal(answer[0], mean) and np.array_equal(answer[1], sd)
            log.count("threads", same, "other predictions, or none")
        log.measure()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--quick", action="store_true", help="five minutes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("soak/results/soak.md"))
    options = parser.parse_args()
    end = time.monotonic() + 60 * (5.0 if options.quick else options.minutes)
    rng, log = np.random.default_rng(options.seed), Log(options.out)
    folder = Path(tempfile.mkdtemp(prefix="tightgp-soak-"))
    try:
        resident = Resident(folder)
        while time.monotonic() < end:
            own = Path(tempfile.mkdtemp(dir=folder))
            try:
                play(rng, own, log)
                resident.play(log)
            except Exception:
                log.failures.append("the soak itself: " + json.dumps(traceback.format_exc()))
            shutil.rmtree(own, ignore_errors=True)
            log.write()
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        log.write()
    print(options.out.read_text(encoding="utf-8"))
    raise SystemExit(bool(log.failures) or not log.tried["fit"])


if __name__ == "__main__":
    main()
