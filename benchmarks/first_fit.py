"""``python -m benchmarks.first_fit``: seconds of `tightgp fit` for someone who runs it for the first time.

Each size is fitted by the command line with its defaults, in a fresh process that finds no compiled programs: import,
compilation and report are included. Then another fresh process, which finds none either, loads the model and predicts.
Run it on quiet cores: where others use them, the CPU time beside the seconds says more.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.running import ROOT, machine
from tightgp import datasets
from tightgp.io.files import atomic_write

#: The rows of a table, the data set that they are of, and the seconds that a fit should take at most.
CASES = {
    500: ("kin40k", 5.0),
    1_000: ("kin40k", 5.0),
    5_000: ("elevators", 10.0),
    20_000: ("kin40k", 30.0),
    50_000: ("houseelectric", 90.0),
}
#: Seconds that predictions should take at most: the first call with everything, 10 000 rows, and one row.
PREDICTIONS = {"first": 2.0, "ten_thousand": 1.0, "one": 0.010}
_ROWS = 10_000
_RESULTS = Path(__file__).with_name("results") / "first-fit.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(CASES), choices=list(CASES), metavar="ROWS")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="JSON file of the results")
    parser.add_argument("--predict", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.predict:
        print(json.dumps(predictions(*options.predict)))
        return
    record: dict[str, Any] = {"when": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "machine": machine()}
    record["cases"] = []
    for rows in options.sizes:
        record["cases"].append(measure(rows))
        print(line(record["cases"][-1]), flush=True)
        with atomic_write(options.out) as path:
            path.write_text(json.dumps(record, indent=1) + "\n")


def measure(rows: int) -> dict[str, Any]:
    """Fit one table and predict from its model, each in a fresh process with an empty cache of compiled programs."""
    name, bar = CASES[rows]
    with tempfile.TemporaryDirectory() as folder:
        table, model, test = (Path(folder, one) for one in ("table.csv", "model", "test.npy"))
        data = datasets.load(name)
        order = np.random.default_rng(0).permutation(len(data.y))
        frame = pd.DataFrame(data.X, columns=[f"x{i}" for i in range(data.X.shape[1])]).assign(y=data.y)
        frame.iloc[order[:rows]].to_csv(table, index=False)
        np.save(test, data.X[np.resize(order[rows:], _ROWS)])
        command = ["-m", "tightgp", "fit", str(table), "--target", "y", "--out", str(model)]
        seconds, cpu, _ = timed(command, folder)
        case = {"rows": rows, "set": name, "bar": bar, "seconds": seconds, "cpu": cpu}
        command = ["-m", "benchmarks.first_fit", "--predict", str(model / "model.safetensors"), str(test)]
        whole, cpu, printed = timed(command, folder)
        return case | {"prediction": {"whole": whole, "cpu": cpu, **json.loads(printed.splitlines()[-1])}}


def timed(command: list[str], folder: str) -> tuple[float, float, str]:
    """Seconds and CPU seconds of a Python command in a fresh process without compiled programs, and what it prints."""
    with tempfile.TemporaryDirectory(dir=folder) as cache:
        env = {**os.environ, "JAX_COMPILATION_CACHE_DIR": cache}
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        done = subprocess.run([sys.executable, *command], env=env, cwd=ROOT, capture_output=True, text=True)
        seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-3000:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, cpu, done.stdout


def predictions(model: Path, test: Path) -> dict[str, float]:
    """Seconds of predictions from a model that is loaded here."""
    began = time.perf_counter()
    import tightgp as tgp

    estimator: Any = tgp.load(model)
    X = np.load(test)

    def seconds(rows: int) -> float:
        start = time.perf_counter()
        estimator.predict(X[:rows], return_std=True)
        return time.perf_counter() - start

    seconds(1)
    found = {"first": time.perf_counter() - began, "ten_thousand_first": seconds(_ROWS)}
    return found | {"ten_thousand": seconds(_ROWS), "one": float(np.median([seconds(1) for _ in range(20)]))}


def line(case: dict[str, Any]) -> str:
    """One size against its bars."""
    told, took = case["prediction"], f"{case['seconds']:.1f} s (at most {case['bar']:g}; CPU {case['cpu']:.1f} s)"
    fit = f"{case['rows']:,} rows of {case['set']}: {took}"
    parts = [f"{name.replace('_', ' ')} {told[name]:.3g} s (at most {bar:g})" for name, bar in PREDICTIONS.items()]
    return f"{fit}; predictions: {', '.join(parts)}"


if __name__ == "__main__":
    main()
