"""Bicycles on Brooklyn Bridge: Poisson regression on two temperatures, and whether predictions should use v.

The paper's NYBikes: 90 % of the rows train, 10 % test. The file holds 30 days seven times over, so test rows have
twins among the training rows, for every method alike. Training is by natural gradients for q(u) and Adam.

    python -m experiments.nybikes    # its file comes by hand: `tightgp.datasets` says how
"""

import argparse
import json
import warnings
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

import tightgp as tgp
from tightgp import datasets
from tightgp.files import written_whole


def split(seed: int) -> tuple[tgp.Dataset, tgp.Dataset]:
    """90 % of the rows and the rest, inputs standardised by the former, counts as they are."""
    try:
        parts = datasets.split("nybikes", seed, test=0.1, validation=0)
    except datasets.DatasetError as missing:
        raise SystemExit(str(missing)) from None
    return parts.train, parts.test


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--inducing", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--out", type=Path, default=Path("experiments/results"))
    a = parser.parse_args()
    warnings.filterwarnings("ignore", message="only .* inducing points are distinct")  # there are 30 distinct days
    console, rows = Console(), []
    kernel, poisson = tgp.kernels.SquaredExponential(0.69**2, [1.0, 1.0]), tgp.likelihoods.Poisson()
    with console.status("training"):
        for seed in range(a.splits):
            train, test = split(seed)
            for m in a.inducing:
                Z = tgp.inducing.kmeans(train.X, m, seed=seed)
                for bound in ("standard", "spherical"):
                    model = tgp.SVGP(kernel, poisson, Z, bound)
                    result = tgp.fit(model, train, "natural", steps=a.steps, learning_rate=0.02, progress=False)
                    plain, scaled = (
                        float(np.mean(result.model.posterior(scaled=s).log_density(test.X, test.y)))
                        for s in (False, True)
                    )
                    row = {"split": seed, "M": m, "bound": bound, "elbo": result.objective, "plain": plain}
                    rows.append(row | {"scaled": scaled, "v": float(result.model.v[0])})
    title = f"NYBikes, {a.splits} splits: means"
    out = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("M", "bound", "ELBO", "test log density", "with v", "v"):
        out.add_column(column, justify="left" if column == "bound" else "right")
    for m in a.inducing:
        for bound in ("standard", "spherical"):
            mine = [r for r in rows if (r["M"], r["bound"]) == (m, bound)]
            elbo, plain, scaled, v = (np.mean([r[k] for r in mine]) for k in ("elbo", "plain", "scaled", "v"))
            with_v = f"{scaled:.2f}" if bound == "spherical" else ""
            out.add_row(str(m), bound, f"{elbo:.0f}", f"{plain:.2f}", with_v, f"{v:.3g}")
    console.print(out)
    pairs = [(r["plain"], r["scaled"]) for r in rows if r["bound"] == "spherical"]
    console.print(f"Without v the test log density is higher in {sum(p > s for p, s in pairs)} of {len(pairs)} fits.")
    with written_whole(a.out / "nybikes.json") as temporary:
        temporary.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
