"""Measure the error of mixed precision in value and gradient, from well to badly conditioned problems.

Two kernels, three bounds, five lengthscales, six noise variances; N = 2000, M = 128, D = 3, inputs of unit variance.

    python -m benchmarks.precision --out FILE.json
"""

import argparse
import itertools
import json
import sys
from pathlib import Path

import equinox as eqx
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

import tightgp as tgp
from tightgp import parameters
from tightgp.training.objective import Evaluation, Objective

N, M, D = 2000, 128, 3
KERNELS = (tgp.kernels.SquaredExponential, tgp.kernels.Matern32)
BOUNDS = {"diagonal": "diagonal", "Power EP": tgp.PowerEP(0.5), "blocks of 16": tgp.Block(16)}
LENGTHSCALES = (0.1, 0.5, 1.0, 3.0, 10.0)
NOISES = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the results as JSON")
    a = parser.parse_args()
    console = Console() if sys.stdout.isatty() else Console(width=150)
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D))
    data = tgp.Dataset(X, np.sin(2 * X[:, 0]) * np.cos(X[:, 1]) + 0.1 * rng.normal(size=N))
    Z = tgp.inducing.kmeans(X, M, seed=0)
    found = []
    for kernel, (name, bound) in itertools.product(KERNELS, BOUNDS.items()):
        with console.status(f"{kernel.__name__}, {name}"):
            models = [tgp.SGPR(kernel(1.0, np.ones(D)), Z, 0.1, bound, precision=p) for p in ("full", "mixed")]
            problems = [Objective(*model.prepare(data)) for model in models]
            for length, noise in itertools.product(LENGTHSCALES, NOISES):
                full, mixed = (at(problem, length, noise) for problem in problems)
                value = float(abs(mixed.value - full.value) / (N + abs(full.value)))
                slope = float(np.linalg.norm(mixed.gradient - full.gradient) / np.linalg.norm(full.gradient))
                case = {"kernel": kernel.__name__, "bound": name, "lengthscale": length, "noise": noise}
                found.append(
                    {**case, "value": value, "gradient": slope, "finite": [bool(full.finite), bool(mixed.finite)]}
                )
    show(found, console)
    if a.out:
        settings = {"N": N, "M": M, "D": D, "seed": 0}
        a.out.write_text(json.dumps({"settings": settings, "errors": found}, indent=1) + "\n")
        console.print(f"Results: {a.out}")


def at(problem: Objective, lengthscale: float, noise: float) -> Evaluation:
    """The objective at these hyperparameters."""
    values = {"kernel.lengthscale": np.full(D, lengthscale), "noise_variance": noise}
    model = tgp.assign(problem.model(problem.start), values)
    return problem.at_vector(problem.to_vector(eqx.filter(model, parameters.trainable(model))))


def show(found: list[dict], console: Console) -> None:
    table = Table(title="Worst relative error of value / gradient over the bounds", box=box.SIMPLE_HEAD)
    table.add_column("kernel, lengthscale")
    for noise in NOISES:
        table.add_column(f"noise {noise:g}", justify="right")
    for kernel, length in itertools.product(KERNELS, LENGTHSCALES):
        here = [one for one in found if (one["kernel"], one["lengthscale"]) == (kernel.__name__, length)]
        cells = [[one for one in here if one["noise"] == noise] for noise in NOISES]
        worst = [" / ".join(f"{max(c[what] for c in cell):.0e}" for what in ("value", "gradient")) for cell in cells]
        table.add_row(f"{kernel.__name__}, {length:g}", *worst)
    console.print(table)
    failed = sum(not one["finite"][1] for one in found if one["finite"][0])
    console.print(f"{len(found)} settings; mixed precision failed in {failed} of those in which full did not.")


if __name__ == "__main__":
    main()
