"""``python -m benchmarks.large_fit``: a large table through `SparseGPRegressor`, by its defaults, in a fresh process.

For accelerators: import, compilation, fit and predictions of all test rows are timed apart. The split is the paper's.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.running import ROOT, machine

_RESULTS = Path(__file__).with_name("results") / "large-fit.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=["kin40k", "houseelectric"], metavar="SET")
    parser.add_argument("--split", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=200.0, help="end a process after this time")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="JSON lines, one for each set")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measured(options.one, options.split)))
        return
    for name in options.sets:
        # A cache of compiled programs would hide what a first user waits for.
        command = [sys.executable, "-m", "benchmarks.large_fit", "--one", name, "--split", str(options.split)]
        began, there = time.perf_counter(), os.environ | {"TIGHTGP_COMPILATION_CACHE": "0"}
        done = subprocess.run(
            command, cwd=ROOT, env=there, stdout=subprocess.PIPE, text=True, check=True, timeout=options.seconds
        )
        record = json.loads(done.stdout.splitlines()[-1]) | {"process_seconds": time.perf_counter() - began}
        print(json.dumps(record), flush=True)
        with options.out.open("a") as file:
            file.write(json.dumps(record | {"machine": machine()}) + "\n")


def measured(name: str, split: int) -> dict:
    """Seconds of each stage, and scores on all test rows."""
    began = time.perf_counter()
    import jax
    import numpy as np

    from tightgp import datasets
    from tightgp.estimators import SparseGPRegressor

    jax.devices()
    imported = time.perf_counter()
    parts = datasets.split(name, split)
    loaded = time.perf_counter()
    model = SparseGPRegressor().fit(parts.train.X, parts.train.y.ravel())
    fitted = time.perf_counter()
    mean = model.predict(parts.test.X)
    predicted = time.perf_counter()
    y = parts.test.y.ravel()
    low, high = model.predict_interval(parts.test.X, 0.95)
    return {
        "set": name,
        "split": split,
        "rows": parts.train.num_data,
        "test_rows": parts.test.num_data,
        "import_seconds": imported - began,
        "fit_seconds": fitted - loaded,
        "predict_seconds": predicted - fitted,
        "inducing": model.n_inducing_,
        "training": model.training_,
        "iterations": model.n_iter_,
        "message": model.message_,
        "rmse": float(np.sqrt(np.mean((y - mean) ** 2))),
        "log_density": float(np.mean(model.log_density(parts.test.X, y))),
        "in_95": float(np.mean((low <= y) & (y <= high))),
    }


if __name__ == "__main__":
    main()
