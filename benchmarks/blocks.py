"""Time blocks and neighbours: value and gradient of the collapsed objectives, as a ratio to the diagonal bound.

All run in one process and take turns, so that other load on the machine affects all of them.

    python -m benchmarks.blocks --out benchmarks/results/blocks.json
    python -m benchmarks.blocks --rows 25600 --inputs 8 --inducing 128
"""

import argparse
import json
import platform
import time
from pathlib import Path

import jax
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

import tightgp as tgp
from tightgp.io.files import atomic_write
from tightgp.training.objective import Objective

OBJECTIVES = {
    "diagonal": "diagonal",
    "block of 32": tgp.Block(32),
    "block of 64": tgp.Block(64),
    "block of 256": tgp.Block(256),
    "Power EP, block of 64": tgp.PowerEP(0.5, block=64),
    "PITC, block of 64": tgp.PowerEP(1.0, block=64),
    "neighbours, 16": tgp.Neighbours(16),
    "Vecchia, 16": tgp.Vecchia(16),
    "Vecchia, 32": tgp.Vecchia(32),
    "Vecchia, 64": tgp.Vecchia(64),
    "Vecchia, 16 for each row": tgp.Vecchia(16, block=1),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--inputs", type=int, default=26)
    parser.add_argument("--inducing", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--only", nargs="+", choices=OBJECTIVES, default=list(OBJECTIVES), metavar="OBJECTIVE")
    parser.add_argument("--out", type=Path, help="write the results as JSON to this file")
    a = parser.parse_args()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(a.rows, a.inputs))
    data = tgp.Dataset(X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=a.rows))
    kernel = tgp.kernels.SquaredExponential(1.0, np.full(a.inputs, 3.0))
    problems = {
        name: Objective(*tgp.SGPR(kernel, X[: a.inducing].copy(), 0.1, bound=bound).prepare(data))
        for name, bound in OBJECTIVES.items()
        if name == "diagonal" or name in a.only
    }
    compiling = {name: timed(problem) for name, problem in problems.items()}
    seconds = {name: [] for name in problems}
    for _ in range(a.rounds):
        for name, problem in problems.items():
            seconds[name].append(timed(problem))
    median = {name: float(np.median(values)) for name, values in seconds.items()}
    ratios = {
        name: float(np.median(np.array(values) / np.array(seconds["diagonal"]))) for name, values in seconds.items()
    }
    machine = f"{jax.devices()[0].device_kind}, JAX {jax.__version__}, Python {platform.python_version()}"
    table = Table(title=f"N={a.rows}, D={a.inputs}, M={a.inducing}, float64, {machine}", box=box.SIMPLE_HEAD)
    for column in ("objective", "ms (median)", "against diagonal", "first time, s"):
        table.add_column(column, justify="left" if column == "objective" else "right")
    for name in problems:
        table.add_row(name, f"{1e3 * median[name]:.2f}", f"{ratios[name]:.2f}×", f"{compiling[name]:.1f}")
    Console().print(table)
    if a.out:
        record = {"machine": machine, "settings": {k: v for k, v in vars(a).items() if k != "out"}}
        record |= {"median_seconds": median, "ratio_to_diagonal": ratios, "seconds": seconds}
        with atomic_write(a.out) as temporary:
            temporary.write_text(json.dumps(record, indent=1) + "\n")


def timed(problem: Objective) -> float:
    """Seconds of one evaluation."""
    began = time.perf_counter()
    jax.block_until_ready(problem.at_vector(problem.to_vector(problem.start)))
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
