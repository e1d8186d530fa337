"""The paper's artificial Poisson example: full variational GP, SVGP with one trained v, and standard SVGP.

50 counts on a grid over [−10, 10] with rate 3.5 + 3 sin x, six inducing points by k-means, all started alike and
trained by L-BFGS. A table over ten seeds, and the paper's figure for one of them.

    python -m experiments.poisson
"""

import argparse
import json
from pathlib import Path

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

import tightgp as tgp
from tightgp import datasets
from tightgp.comparison import COLOURS
from tightgp.files import written_whole

METHODS = {"full GP": COLOURS["exact"], "SVGP": COLOURS["standard"], "SVGP-new": COLOURS["diagonal"]}


def train(seed: int) -> tuple[tgp.Dataset, np.ndarray, dict[str, tgp.FitResult]]:
    data = datasets.counts(50, seed)
    kernel, poisson = tgp.kernels.SquaredExponential(0.69**2, 1.0), tgp.likelihoods.Poisson()
    Z = tgp.inducing.kmeans(data.X, 6, seed=seed)
    models = {
        "full GP": tgp.VGP(kernel, poisson, data.X),
        "SVGP": tgp.SVGP(kernel, poisson, Z, "standard"),
        "SVGP-new": tgp.SVGP(kernel, poisson, Z, "spherical"),
    }
    return data, Z, {name: tgp.fit(model, data, steps=2000, progress=False) for name, model in models.items()}


def figure(data, Z, results, path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    fig = Figure(figsize=(14, 7), layout="constrained")
    FigureCanvasAgg(fig)
    grid = fig.add_gridspec(2, 3, height_ratios=[1, 1.15])
    xs = np.linspace(-11, 11, 500)[:, None]
    predictions = {name: [np.asarray(a) for a in r.model.posterior().predict_y(xs)] for name, r in results.items()}
    top = max(float(data.y.max()) + 1, *(float(np.max(m + 2 * np.sqrt(v))) for m, v in predictions.values()))
    for i, (name, result) in enumerate(results.items()):
        ax, (mean, var) = fig.add_subplot(grid[0, i]), predictions[name]
        ax.fill_between(
            xs[:, 0], mean - 2 * np.sqrt(var), mean + 2 * np.sqrt(var), color=METHODS[name], alpha=0.15, lw=0
        )
        ax.plot(xs[:, 0], mean, color=METHODS[name], lw=1.8)
        ax.plot(xs[:, 0], datasets.count_rate(xs[:, 0]), ":", color="#888888", lw=1.2)
        ax.plot(data.X[:, 0], data.y, ".", color="#333333", ms=5)
        if name != "full GP":
            ends = np.asarray(result.model.Z)[:, 0]
            ax.plot(Z[:, 0], np.full(len(Z), top), "v", color="#999999", ms=6, clip_on=False)
            ax.plot(ends, np.full(len(ends), -2.5), "^", color=METHODS[name], ms=6, clip_on=False)
        scale = f", v = {float(result.model.v[0]):.3f}" if name == "SVGP-new" else ""
        tidy(ax, f"{name}: {result.objective:.2f} nats{scale}")
        ax.set_ylim(-3, top + 0.5)
    ax = fig.add_subplot(grid[1, :2])
    for name, (mean, var) in predictions.items():
        style = "--" if name == "full GP" else "-"
        ax.plot(xs[:, 0], mean, style, color=METHODS[name], lw=1.8, label=name)
        for edge in (mean - 2 * np.sqrt(var), mean + 2 * np.sqrt(var)):
            ax.plot(xs[:, 0], edge, style, color=METHODS[name], lw=1, alpha=0.8)
    ax.plot(data.X[:, 0], data.y, ".", color="#999999", ms=5)
    ax.set_ylim(-3, top + 2.5)
    ax.legend(frameon=False, ncols=3, loc="upper center")
    tidy(ax, "predicted counts superimposed (mean ± 2 sd)")
    ax = fig.add_subplot(grid[1, 2])
    finals = [r.objective for r in results.values()]
    for name, result in results.items():
        ax.plot(result.trace["objective"], color=METHODS[name], lw=1.6, label=name)
    room = max(finals) - min(finals)
    ax.set_ylim(min(finals) - 1.5 * room, max(finals) + 0.3 * room)
    ax.set_xlabel("L-BFGS step")
    ax.legend(frameon=False, loc="lower right")
    tidy(ax, "ELBO (nats)")
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as temporary:
        fig.savefig(temporary, dpi=150, format="png")


def tidy(ax, title):
    ax.set_title(title, loc="left", fontsize=11, fontweight="bold")
    ax.spines[["top", "right"]].set_visible(False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--figure-seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("experiments/results"))
    a = parser.parse_args()
    console, rows = Console(), []
    with console.status("training"):
        for seed in range(a.seeds):
            data, Z, results = train(seed)
            values = {name: r.objective for name, r in results.items()}
            ordered = values["full GP"] >= values["SVGP-new"] >= values["SVGP"]
            rows.append({"seed": seed, **values, "v": float(results["SVGP-new"].model.v[0]), "ordered": ordered})
            if seed == a.figure_seed:
                figure(data, Z, results, a.out / "poisson.png")
    out = Table(title="ELBO in nats, 50 counts, six inducing points", title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("seed", "full GP", "SVGP-new", "SVGP", "v", "in order"):
        out.add_column(column, justify="right")
    for row in rows:
        cells = [f"{row[name]:.2f}" for name in ("full GP", "SVGP-new", "SVGP")]
        out.add_row(str(row["seed"]), *cells, f"{row['v']:.3f}", "yes" if row["ordered"] else "no")
    console.print(out)
    scales = [row["v"] for row in rows]
    console.print(
        f"In order on {sum(row['ordered'] for row in rows)} of {len(rows)} seeds; v from {min(scales):.3f} to "
        f"{max(scales):.3f}, {sum(0.6 <= v <= 0.75 for v in scales)} within 0.6–0.75 (paper: about 0.675)."
    )
    a.out.mkdir(parents=True, exist_ok=True)
    with written_whole(a.out / "poisson.json") as temporary:
        temporary.write_text(json.dumps(rows, indent=1) + "\n")
    console.print(f"Figure and numbers: {a.out}/poisson.png, poisson.json")


if __name__ == "__main__":
    main()
