"""Compare deep GPs with SVGP at the same number of inducing points: ARD kernels, Gaussian noise, Adam, float64.

Squared exponential kernels; one hidden layer as wide as the inputs (at most 30), one draw for each row and step;
splits as in the paper (64 % train, standardised). Predictions of the deep models average 100 draws.

    python -m experiments.deep --sets kin40k protein --splits 3 --out benchmarks/results/deep-h200.json
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
from tightgp.io.files import atomic_write

MODELS = ("SVGP", "DeepGP")
BOUNDS = ("standard", "diagonal")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["kin40k", "protein"])
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--inducing", type=int, default=256)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--out", type=Path, help="write the results as JSON to this file")
    a = parser.parse_args()
    console, rows = Console(), []
    for name in a.sets:
        for seed in range(a.splits):
            try:
                parts = datasets.split(name, seed)
            except datasets.DatasetError as missing:
                raise SystemExit(str(missing)) from None
            for kind in MODELS:
                for bound in BOUNDS:
                    rows.append(run(a, name, seed, kind, bound, parts.train, parts.test))
                    shown = f"{name}, split {seed}, {kind}, {bound}: "
                    console.print(f"{shown}{rows[-1]['test_log_density']:.3f}, {rows[-1]['seconds']:.0f} s")
    report(a, rows, console)


def start(a, kind: str, bound: str, X: np.ndarray, seed: int):
    """A model to train."""
    noise = tgp.likelihoods.Gaussian(0.1)
    if kind == "DeepGP":
        hidden = "standard" if bound == "standard" else "spherical"
        return tgp.DeepGP.start(X, noise, num_inducing=a.inducing, bound=bound, hidden_bound=hidden, seed=seed)
    kernel = tgp.kernels.SquaredExponential(1.0, np.full(X.shape[1], np.sqrt(X.shape[1])))
    return tgp.SVGP(kernel, noise, tgp.inducing.kmeans(X, a.inducing, seed=seed), bound)


def run(a, name: str, seed: int, kind: str, bound: str, train: tgp.Dataset, test: tgp.Dataset) -> dict:
    """Train one model, and score it on held-out rows."""
    model = start(a, kind, bound, np.asarray(train.X), seed)
    result = tgp.fit(model, train, "adam", steps=a.steps, batch_size=a.batch_size, learning_rate=0.01, seed=seed)
    post = result.model.posterior()
    mean, _ = post.predict_f(test.X)
    last = result.trace["objective"][-max(1, len(result.trace["objective"]) // 20) :]
    return {
        "set": name,
        "split": seed,
        "model": kind,
        "bound": bound,
        "elbo": float(np.mean(last)),
        "test_log_density": float(np.mean(post.log_density(test.X, test.y))),
        "rmse": float(np.sqrt(np.mean((np.asarray(mean) - test.y) ** 2))),
        "noise_variance": float(post.noise_variance),
        "seconds": result.seconds,
    }


def report(a, rows: list[dict], console: Console) -> None:
    """Means over the splits."""
    title = f"M={a.inducing}, batch {a.batch_size}, {a.steps} steps, {a.splits} split(s), float64"
    out = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("set", "model", "bound", "bound reached", "test log density", "RMSE", "seconds"):
        out.add_column(column, justify="left" if column in ("set", "model", "bound") else "right")
    for name in a.sets:
        for kind in MODELS:
            for bound in BOUNDS:
                mine = [r for r in rows if (r["set"], r["model"], r["bound"]) == (name, kind, bound)]
                mean = {key: np.mean([r[key] for r in mine]) for key in ("elbo", "test_log_density", "rmse", "seconds")}
                density = f"{mean['test_log_density']:.3f} ± {np.std([r['test_log_density'] for r in mine]):.3f}"
                cells = (f"{mean['elbo']:.0f}", density, f"{mean['rmse']:.4f}", f"{mean['seconds']:.1f}")
                out.add_row(name, kind, bound, *cells)
    console.print(out)
    if a.out:
        settings = {k: v for k, v in vars(a).items() if k != "out"}
        machine = f"{jax.devices()[0].device_kind}, JAX {jax.__version__}, Python {platform.python_version()}"
        with atomic_write(a.out) as temporary:
            temporary.write_text(
                json.dumps({"machine": machine, "settings": settings, "results": rows}, indent=1) + "\n"
            )
        console.print(f"Results: {a.out}")


if __name__ == "__main__":
    main()
