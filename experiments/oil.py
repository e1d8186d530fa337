"""Oil flow: a Bayesian GP-LVM of twelve readings in seven latent inputs, under three bounds.

All 1000 rows, every column with mean zero and standard deviation one. Each bound is trained by L-BFGS from principal
components, with lengthscales by the components' variances and with equal lengthscales; and once more from the end of
the best fit of all, so that no bound is only lucky. All three bounds are evaluated at the parameters of each fit.
The labels are not trained on: they count how many rows have a nearest neighbour of another class in the two most
relevant latent inputs, among all other rows (leave-one-out), and among the other nine of ten folds.

    python -m experiments.oil    # its file comes by hand: `tightgp.datasets` says how
"""

import argparse
import json
import platform
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

import tightgp as tgp
from tightgp import datasets
from tightgp.app.comparison import COLOURS
from tightgp.io.files import atomic_write
from tightgp.numerics.components import principal

Q = 7
BOUNDS = ("standard", "spherical", "diagonal")
#: A latent input is in use if its relevance is at least this share of the largest.
ON = 0.05
CLASSES = (("#0072B2", "o"), ("#E69F00", "^"), ("#009E73", "s"))


def readings(rows: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The readings, standardised column by column, and the flow of each row."""
    try:
        data = datasets.load("oil").dataset
    except datasets.DatasetError as missing:
        raise SystemExit(str(missing)) from None
    Y, labels = np.asarray(data.X)[:rows], np.asarray(data.y)[:rows].astype(int)
    return (Y - Y.mean(axis=0)) / Y.std(axis=0), labels


def components(Y: np.ndarray) -> np.ndarray:
    """Scores of the first two principal components."""
    return principal(Y).scores[:, :2] * np.sqrt(len(Y))


def under(model: tgp.GPLVM, bound: str) -> tgp.GPLVM:
    """The same parameters under another bound."""
    inner = model.model
    assert isinstance(inner, tgp.SGPR)
    changed = tgp.SGPR(inner.kernel, inner.Z, inner.noise_variance, bound)
    return tgp.GPLVM(changed, model.inputs.mean, model.inputs.variance)


def errors(where: np.ndarray, labels: np.ndarray, seed: int = 0) -> dict[str, int]:
    """Numbers of rows whose nearest neighbour is of another class, leave-one-out and over ten folds."""
    distance = np.sum((where[:, None, :] - where[None, :, :]) ** 2, axis=-1)
    fold = np.random.default_rng(seed).permutation(len(where)) % 10
    found = {}
    for name, barred in (("one out", np.eye(len(where), dtype=bool)), ("ten folds", fold[:, None] == fold[None, :])):
        nearest = np.argmin(np.where(barred, np.inf, distance), axis=1)
        found[name] = int(np.sum(labels[nearest] != labels))
    return found


class Trained:
    """One fit and its results."""

    def __init__(self, bound: str, start: str, model: tgp.GPLVM, data: tgp.Dataset, steps: int):
        began = time.perf_counter()
        # Single steps gain little long before an optimum, so the tolerance must not end training.
        result = tgp.fit(model, data, steps=steps, tolerance=1e-13, progress=False)
        self.seconds = time.perf_counter() - began
        self.bound, self.start, self.model, self.value = bound, start, result.model, result.objective
        self.trace = np.asarray(result.trace["objective"])
        self.converged, self.message, self.evaluations = result.converged, result.message, result.evaluations

    @property
    def top(self) -> np.ndarray:
        """The two most relevant latent inputs."""
        return np.argsort(np.asarray(self.model.relevance))[::-1][:2]

    def account(self, data: tgp.Dataset, labels: np.ndarray) -> dict[str, Any]:
        relevance, inner = np.asarray(self.model.relevance), self.model.model
        assert isinstance(inner, tgp.SGPR)
        assert isinstance(inner.kernel, tgp.kernels.SquaredExponential)
        kept = 10 ** np.arange(len(str(len(self.trace))))
        return {
            "bound": self.bound,
            "start": self.start,
            "value": self.value,
            "at its parameters": {bound: float(under(self.model, bound).elbo(data)) for bound in BOUNDS},
            "noise variance": float(inner.noise_variance),
            "kernel variance": float(inner.kernel.variance),
            "relevance": relevance.tolist(),
            "mean variance of q": np.mean(np.asarray(self.model.inputs.variance), axis=0).tolist(),
            "on": int(np.sum(relevance >= ON * relevance.max())),
            "errors": errors(np.asarray(self.model.inputs.mean)[:, self.top], labels),
            "seconds": self.seconds,
            "steps": len(self.trace) - 1,
            "evaluations": self.evaluations,
            "converged": self.converged,
            "message": self.message,
            "gain of the last tenth of the steps": float(self.trace[-1] - self.trace[-1 - len(self.trace) // 10]),
            "trace": {int(i): float(self.trace[i]) for i in [*kept, len(self.trace) - 1] if i < len(self.trace)},
        }


def starts(Y, inducing: int, bound: str, seed: int) -> dict[str, tgp.GPLVM]:
    """Starts by principal components, with lengthscales by the components' variances or all equal."""
    alike = tgp.kernels.SquaredExponential(1.0, np.ones(Q))
    return {
        f"by variances, seed {seed}": tgp.GPLVM.start(Y, Q, inducing, bound=bound, seed=seed),
        f"alike, seed {seed}": tgp.GPLVM.start(Y, Q, inducing, bound=bound, seed=seed, kernel=alike),
    }


def train(Y, inducing: int, steps: int, seeds: int, status) -> list[Trained]:
    """Train each bound from every start, then from the end of the best fit of all."""
    data, found = tgp.Dataset.latent(Y, Q), []
    for seed in range(seeds):
        for bound in BOUNDS:
            for name, start in starts(Y, inducing, bound, seed).items():
                status.update(f"M = {inducing}: {bound}, {name}")
                found.append(Trained(bound, name, start, data, steps))
    best = max(found, key=lambda one: one.value)
    for bound in BOUNDS:
        status.update(f"M = {inducing}: {bound}, from the best end")
        found.append(Trained(bound, f"end of {best.bound}", under(best.model, bound), data, steps))
    return found


def best_of(found: list[Trained], bound: str) -> Trained:
    return max((one for one in found if one.bound == bound), key=lambda one: one.value)


def show(accounts: list[dict], inducing: int, console: Console) -> None:
    table = Table(title=f"Oil flow, Q = {Q}, M = {inducing}: nats", title_justify="left", box=box.SIMPLE_HEAD)
    table.add_column("trained")
    for column in ("reached", *(f"{bound} there" for bound in BOUNDS), "σ²", "on", "1-NN", "10-fold", "steps", "s"):
        table.add_column(column, justify="right")
    for row in accounts:
        ladder = [f"{row['at its parameters'][bound]:.0f}" for bound in BOUNDS]
        wrong = [str(row["errors"][name]) for name in ("one out", "ten folds")]
        cells = [f"{row['noise variance']:.2g}", str(row["on"]), *wrong, str(row["steps"]), f"{row['seconds']:.0f}"]
        table.add_row(f"{row['bound']}, {row['start']}", f"{row['value']:.1f}", *ladder, *cells)
    console.print(table)


def figure(Y, labels, found: list[Trained], inducing: int, path: Path) -> None:
    """Latent inputs by principal components and under two bounds, and the relevances of all seven."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    fig = Figure(figsize=(17, 4.6), layout="constrained")
    FigureCanvasAgg(fig)
    axes = fig.subplots(1, 4, width_ratios=[1, 1, 1, 0.85])
    wrong = errors(components(Y), labels)["one out"]
    scatter(axes[0], components(Y), None, labels, f"Principal components: {count_errors(wrong)}")
    axes[0].set_xlabel("first component")
    axes[0].set_ylabel("second component")
    shown = [best_of(found, bound) for bound in ("standard", "diagonal")]
    for ax, one in zip(axes[1:], shown, strict=False):
        mean, sd = np.asarray(one.model.inputs.mean)[:, one.top], np.sqrt(one.model.inputs.variance)[:, one.top]
        wrong = errors(mean, labels)["one out"]
        scatter(ax, mean, np.asarray(sd), labels, f"{one.bound.capitalize()} bound: {count_errors(wrong)}")
        ax.set_xlabel(f"latent input {one.top[0] + 1}, the most relevant")
        ax.set_ylabel(f"latent input {one.top[1] + 1}, the second")
    handles, names = axes[0].get_legend_handles_labels()
    axes[0].legend(handles, names, frameon=False, loc="best", fontsize=9, handletextpad=0.2)
    for i, one in enumerate(shown):
        height = np.sort(np.asarray(one.model.relevance))[::-1]
        axes[3].bar(np.arange(Q) + 0.4 * i - 0.2, height, 0.36, color=COLOURS[one.bound], label=one.bound)
    axes[3].set_xticks(range(Q), [str(i + 1) for i in range(Q)])
    axes[3].set_xlabel("latent inputs, most relevant first")
    axes[3].legend(frameon=False)
    tidy(axes[3], f"Relevance, 1 / lengthscale (M = {inducing})")
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        fig.savefig(temporary, dpi=150, format="png")


def count_errors(wrong: int) -> str:
    return f"{wrong} {'error' if wrong == 1 else 'errors'}"


def scatter(ax, where, sd, labels, title) -> None:
    if sd is not None:
        ax.errorbar(*where.T, xerr=sd[:, 0], yerr=sd[:, 1], fmt="none", ecolor="#999999", elinewidth=0.5, alpha=0.35)
    for flow, (colour, marker) in enumerate(CLASSES):
        here = where[labels == flow]
        ax.plot(*here.T, marker, color=colour, ms=4, mec="white", mew=0.3, label=f"flow {flow}")
    tidy(ax, title)


def tidy(ax, title) -> None:
    ax.set_title(title, loc="left", fontsize=11, fontweight="bold")
    ax.spines[["top", "right"]].set_visible(False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inducing", type=int, nargs="+", default=[30, 100], help="the figure shows the last")
    parser.add_argument("--steps", type=int, default=1500, help="most iterations of L-BFGS for each fit")
    parser.add_argument("--seeds", type=int, default=1, help="k-means starts of the inducing inputs")
    parser.add_argument("--rows", type=int, help="only so many rows")
    parser.add_argument("--out", type=Path, default=Path("experiments/results"))
    a = parser.parse_args()
    console = Console(width=150)
    Y, labels = readings(a.rows)
    data, path = tgp.Dataset.latent(Y, Q), a.out / "oil.json"
    a.out.mkdir(parents=True, exist_ok=True)
    record = json.loads(path.read_text()) if path.exists() else {}
    record["machine"] = f"{jax.devices()[0].device_kind}, JAX {jax.__version__}, Python {platform.python_version()}"
    console.print(f"Principal components: {errors(components(Y), labels)}")
    for m in a.inducing:
        with console.status("") as status:
            found = train(Y, m, a.steps, a.seeds, status)
        accounts = [one.account(data, labels) for one in found]
        show(accounts, m, console)
        settings = {"rows": len(Y), "steps": a.steps, "seeds": a.seeds, "on": ON}
        record |= {"components": errors(components(Y), labels), f"M = {m}": {"settings": settings, "fits": accounts}}
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps(record, indent=1) + "\n")
        figure(Y, labels, found, m, a.out / "oil.png")
    console.print(f"Figure and numbers: {a.out}/oil.png, oil.json")


if __name__ == "__main__":
    main()
