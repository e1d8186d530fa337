"""``python -m benchmarks.large_fit``: a large table through `SparseGPRegressor`, by its defaults, in a fresh process.

For accelerators: import, compilation, fit and predictions of all test rows are timed apart. The split is the paper's.
``--draw`` measures nothing and writes the table of docs/speed.md.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.running import ROOT, machine
from tightgp.io.files import atomic_write

PAGE = ROOT / "docs" / "speed.md"
BEGIN, END = "<!-- large fit -->\n", "<!-- end of large fit -->"
_RESULTS = Path(__file__).with_name("results") / "large-fit.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=["kin40k", "houseelectric"], metavar="SET")
    parser.add_argument("--split", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=200.0, help="end a process after this time")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="JSON lines, one for each set")
    parser.add_argument("--draw", action="store_true", help="only write the table of docs/speed.md")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.draw:
        text = PAGE.read_text(encoding="utf-8")
        before, _, rest = text.partition(BEGIN)
        _, _, after = rest.partition(END)
        with atomic_write(PAGE) as path:
            path.write_text(before + BEGIN + table(stored(options.out)) + "\n" + END + after, encoding="utf-8")
        return
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


def stored(path: Path = _RESULTS) -> list[dict]:
    """The latest measurement of each set."""
    return list({one["set"]: one for one in map(json.loads, path.read_text().splitlines())}.values())


def table(records: list[dict]) -> str:
    """The table of docs/speed.md."""
    heads = ["rows", "inducing points", "import", "fit", "predictions", "all", "test log density", "RMSE", "in 95 %"]
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)]]
    for one in sorted(records, key=lambda one: -one["rows"]):
        seconds = [f"{one[part + '_seconds']:.1f} s" for part in ("import", "fit", "predict", "process")]
        seconds[2] += f" for {one['test_rows']:,}"
        scores = [f"{one['log_density']:.3f}", f"{one['rmse']:.4f}", f"{100 * one['in_95']:.1f} %"]
        lines.append([f"{one['set']}, {one['rows']:,}", str(one["inducing"]), *seconds, *scores])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


if __name__ == "__main__":
    main()
