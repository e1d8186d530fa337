"""Time two versions of tightgp against each other: value and gradient of objectives, and an estimator's predictions.

    git worktree add ../before COMMIT
    python -m benchmarks.versions ../before/src src

One process for each version; they take turns, so that other load on the machine affects both.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

ROWS = ("collapsed", "blocks", "svgp", *(PREDICTIONS := ("one row", "1000 rows", "ten times one row")))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, help="folder that holds the package tightgp")
    parser.add_argument("after", type=Path, help="another one")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=ROWS)
    parser.add_argument("--data", type=int, default=10_000, help="rows of data")
    parser.add_argument("--inducing", type=int, default=1024)
    parser.add_argument("--out", type=Path, help="write the results as JSON to this file")
    a = parser.parse_args()
    workers = [Worker(folder, a.data, a.inducing) for folder in (a.before, a.after)]
    table = Table(title=f"N = {a.data}, D = 26, M = {a.inducing}, float64", box=box.SIMPLE_HEAD)
    for column in ("", "before, ms", "after, ms", "after / before"):
        table.add_column(column, justify="left" if not column else "right")
    results = {}
    for row in a.rows:
        for worker in workers:
            worker.ask(row)  # compiles
        values = [[worker.ask(row) for worker in workers] for _ in range(a.rounds)]
        before, after = np.median(np.array(values), axis=0)
        ratio = float(np.median(np.array(values)[:, 1] / np.array(values)[:, 0]))
        table.add_row(row, f"{1e3 * before:.1f}", f"{1e3 * after:.1f}", f"{ratio:.3f}")
        results[row] = {"before": before, "after": after, "ratio": ratio}
    Console().print(table)
    if a.out:
        settings = {"rounds": a.rounds, "rows": a.data, "inducing": a.inducing}
        a.out.write_text(json.dumps({"settings": settings, "results": results}, indent=1) + "\n")


class Worker:
    """A process that times one version, one row of the table at a time."""

    def __init__(self, folder: Path, data: int, inducing: int):
        environment = os.environ | {"PYTHONPATH": str(folder.resolve()), "OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, __file__, "--worker", str(data), str(inducing)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self._folder = folder

    def ask(self, row: str) -> float:
        """Seconds of one evaluation."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(row, file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"the version in {self._folder} failed; see above")
        return float(answer)


def work(data: int, inducing: int) -> None:
    """Answer each row's name on standard input with the seconds of one evaluation."""
    evaluations = {}
    for line in sys.stdin:
        row = line.strip()
        if row not in evaluations:
            evaluations[row] = evaluation(row, data, inducing)
        began = time.perf_counter()
        evaluations[row]()
        print(time.perf_counter() - began, flush=True)


def prediction(row: str, data: int):
    """A function that predicts from 64 neighbours, with standard deviations, by an estimator."""
    import tightgp as tgp

    rng = np.random.default_rng(0)
    X = rng.normal(size=(data, 8))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=data)
    model = tgp.SparseGPRegressor(n_inducing=64, bound="block", neighbours=64, max_iter=2, random_state=0).fit(X, y)
    asked = np.split(X[:10] + 0.1, 10) if row.startswith("ten") else [X[: 1 if row == "one row" else 1000] + 0.1]
    return lambda: [model.predict(rows, return_std=True) for rows in asked]


def evaluation(row: str, data: int, inducing: int):
    """A function that evaluates an objective and its gradient once, or makes predictions."""
    if row in PREDICTIONS:
        return prediction(row, data)
    import equinox as eqx
    import jax

    import tightgp as tgp

    rng = np.random.default_rng(0)
    X = rng.normal(size=(inducing if row == "svgp" else data, 26))
    rows = tgp.Dataset(X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=len(X)))
    kernel = tgp.kernels.SquaredExponential(1.0, np.full(26, 3.0))
    Z = X[:inducing].copy()
    if row == "svgp":
        model = tgp.SVGP(kernel, tgp.likelihoods.Gaussian(0.1), Z)
    else:
        model = tgp.SGPR(kernel, Z, 0.1, bound="diagonal" if row == "collapsed" else tgp.Block(64))
    made, placed = model.prepare(rows)
    function = eqx.filter_jit(eqx.filter_value_and_grad(lambda made, placed: made.objective(placed)[0]))
    return lambda: jax.block_until_ready(function(made, placed))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--worker"]:
        work(*map(int, sys.argv[2:]))
    else:
        main()
