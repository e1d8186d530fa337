"""The paper's minibatch setting on Kin40k: SVGP, standard and diagonal bound, on some splits.

Matérn-3/2 with one lengthscale, Adam 0.01, batches of 1024, 100 epochs, whitened, float64; 80/20 split, of whose
first part 20 % are validation and 64 % of all rows train; inputs and targets standardised by the training part.

    python -m experiments.kin40k --inducing 1024 --out experiments/results
"""

import argparse
import json
import platform
from pathlib import Path

import jax
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

import tightgp as tgp
from tightgp import datasets
from tightgp.files import written_whole

PAPER = {1024: {"standard": 0.108, "diagonal": 0.152}, 2048: {"standard": None, "diagonal": 0.286}}


def split(seed: int) -> tuple[tgp.Dataset, tgp.Dataset]:
    """Training (64 %) and test (20 %) rows, standardised by the training part."""
    try:
        parts = datasets.split("kin40k", seed)
    except datasets.DatasetError as missing:
        raise SystemExit(str(missing)) from None
    return parts.train, parts.test


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inducing", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--bounds", nargs="+", default=["standard", "diagonal"])
    parser.add_argument("--method", default="adam", choices=["adam", "natural"])
    parser.add_argument("--natural-rate", type=float)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--out", type=Path, help="write the results as JSON into this folder")
    a = parser.parse_args()
    console = Console()
    rows: list[dict] = []
    for seed in range(a.splits):
        rows += run(a, seed, console)
    report(a, rows, console)


def run(a, seed: int, console: Console) -> list[dict]:
    """Every bound on one split, from the same start."""
    train, test = split(seed)
    Z, rows = tgp.inducing.kmeans(train.X, a.inducing, seed=seed), []
    for bound in a.bounds:
        kernel = tgp.kernels.Matern32(0.69**2, 1.0)
        model = tgp.SVGP(kernel, tgp.likelihoods.Gaussian(0.51**2), Z, bound)
        result = tgp.fit(
            model,
            train,
            a.method,
            batch_size=a.batch_size,
            epochs=a.epochs,
            learning_rate=0.01,
            natural_rate=a.natural_rate,
            seed=seed,
        )
        post = result.model.posterior()
        mean, _ = post.predict_f(test.X)
        rows.append(
            {
                "bound": bound,
                "split": seed,
                "test_log_density": float(np.mean(post.log_density(test.X, test.y))),
                "rmse": float(np.sqrt(np.mean((np.asarray(mean) - test.y) ** 2))),
                "elbo": float(result.model.elbo(train)),
                "noise_variance": float(result.model.likelihood.noise_variance),
                "lengthscale": float(result.model.kernel.lengthscale),
                "seconds": result.seconds,
                "ms_per_step": float(1e3 / np.median(result.trace["steps_per_second"])),
                "rejected": result.rejected,
            }
        )
        console.print(f"split {seed}, {bound}: {rows[-1]['test_log_density']:.3f} ({result.message})")
    return rows


def report(a, rows: list[dict], console: Console) -> None:
    """Means over the splits, beside the paper's."""
    title = f"Kin40k, M={a.inducing}, batch {a.batch_size}, {a.epochs} epochs, {a.method}, {a.splits} split(s), float64"
    out = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("bound", "test log density", "paper", "RMSE", "σ²", "ℓ", "ms a step"):
        out.add_column(column, justify="left" if column == "bound" else "right")
    for bound in a.bounds:
        mine = [row for row in rows if row["bound"] == bound]
        means = {name: np.mean([row[name] for row in mine]) for name in mine[0] if name != "bound"}
        spread = np.std([row["test_log_density"] for row in mine])
        paper = PAPER.get(a.inducing, {}).get(bound)
        cells = [bound, f"{means['test_log_density']:.3f} ± {spread:.3f}", "" if paper is None else f"{paper:.3f}"]
        cells += [f"{means['rmse']:.3f}", f"{means['noise_variance']:.4f}", f"{means['lengthscale']:.3f}"]
        out.add_row(*cells, f"{means['ms_per_step']:.2f}")
    console.print(out)
    if a.out:
        a.out.mkdir(parents=True, exist_ok=True)
        settings = {k: v for k, v in vars(a).items() if k not in ("out", "bounds")}
        machine = f"{jax.devices()[0].device_kind}, JAX {jax.__version__}, Python {platform.python_version()}"
        path = a.out / f"kin40k-{a.method}-{a.inducing}.json"
        record = {"machine": machine, "settings": settings, "results": rows}
        with written_whole(path) as temporary:
            temporary.write_text(json.dumps(record, indent=1) + "\n")
        console.print(f"Results: {path}")


if __name__ == "__main__":
    main()
