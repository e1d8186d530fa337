"""The exact GP and the ladder of bounds on one data set, side by side: a table and the paper's first figure."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich import box
from rich.table import Table

from tightgp.conditionals import Conditional
from tightgp.data import Dataset
from tightgp.files import written_whole
from tightgp.kernels import Kernel
from tightgp.models import SGPR, ExactGP
from tightgp.posterior import Posterior
from tightgp.training import FitResult, fit

COLOURS = {
    "exact": "#222222",
    "standard": "#0072B2",
    "spherical": "#CC79A7",
    "diagonal": "#D55E00",
    "block": "#009E73",
}


@dataclass(frozen=True)
class Entry:
    """One method: how it was trained and what it predicts."""

    name: str
    result: FitResult
    posterior: Posterior

    @property
    def colour(self) -> str:
        """The colour that stands for this method in every picture."""
        return COLOURS.get(self.name, "#777777")

    def test_log_density(self, test: Dataset, consistent: bool) -> float:
        """Mean log density of held-out targets; ``consistent`` uses the trained V for them too (maths 8.2)."""
        exact_conditional = consistent and self.name != "exact"
        return float(np.mean(self.posterior.log_density(test.X, test.y, exact_conditional=exact_conditional)))

    @property
    def label(self) -> str:
        """The method's name for people."""
        return "exact GP" if self.name == "exact" else self.name


def compare(
    data: Dataset,
    kernel: Kernel,
    Z,
    noise_variance: float,
    bounds: tuple[str | Conditional, ...] = ("standard", "spherical", "diagonal", "block"),
    **fit_options,
) -> list[Entry]:
    """Train the exact GP and a sparse one for each bound, all from the same start."""
    exact = _whole(fit(ExactGP(kernel, noise_variance), data, **fit_options))
    entries = [Entry("exact", exact, exact.model.posterior(data))]
    for bound in bounds:
        result = _whole(fit(SGPR(kernel, Z, noise_variance, bound=bound), data, **fit_options))
        entries.append(Entry(result.model.bound.name, result, result.model.posterior(data)))
    return entries


def _whole(result: FitResult) -> FitResult:
    """``result``, unless it was broken off: half-trained methods do not compare."""
    if result.message == "interrupted":
        raise KeyboardInterrupt
    return result


def table(entries: list[Entry], test: Dataset | None = None, title: str | None = None) -> Table:
    """Objective, nats below the exact GP, hyperparameters and, given held-out rows, mean test log density: by
    the cheap predictive (maths 8.1), and with a star by the consistent one (8.2)."""
    out = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)
    out.add_column("method", no_wrap=True)
    columns = ["nats", "gap", "σ²", "σ_f²", "ℓ"] + (["test", "test*"] if test else [])
    for column in [*columns, "steps"]:
        out.add_column(column, justify="right", no_wrap=True)
    best = entries[0].result.objective
    for entry in entries:
        model = entry.result.model
        cells = [f"{entry.result.objective:.2f}", f"{best - entry.result.objective:.2f}"]
        cells += [f"{float(v):.4f}" for v in (model.noise_variance, model.kernel.variance, model.kernel.lengthscale)]
        if test:
            cells += [f"{entry.test_log_density(test, consistent):.3f}" for consistent in (False, True)]
        cells.append(str(len(entry.result.trace["objective"]) - 1))
        out.add_row(f"[{entry.colour}]{entry.label}[/]", *cells)
    return out


def figure(entries: list[Entry], data: Dataset, start_Z, path: Path) -> Path:
    """The paper's first figure for 1-D data: fits, superimposed predictions, objective and σ² across steps."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    fig = Figure(figsize=(15, 6.6), layout="constrained")
    FigureCanvasAgg(fig)
    grid = fig.add_gridspec(2, 4)
    span = float(np.ptp(data.X))
    xs = np.linspace(data.X.min() - 0.12 * span, data.X.max() + 0.12 * span, 400)[:, None]
    shown = [e for e in entries if e.name != "spherical"][:4]
    first = None
    for i, entry in enumerate(shown):
        first = ax = fig.add_subplot(grid[0, i], sharex=first, sharey=first)
        _fit_panel(ax, entry, data, start_Z, xs)
    _superimposed(fig.add_subplot(grid[1, :2]), shown, data, xs)
    _traces(fig.add_subplot(grid[1, 2]), entries, "objective", "objective (nats)")
    _traces(fig.add_subplot(grid[1, 3]), entries, "noise_variance", "noise variance σ²")
    with written_whole(path) as temporary:
        fig.savefig(temporary, dpi=150, format="png")
    return path


def _tidy(ax, title):
    ax.set_title(title, loc="left", fontsize=11, fontweight="bold")
    ax.spines[["top", "right"]].set_visible(False)


def _fit_panel(ax, entry, data, start_Z, xs):
    mean, var = (np.asarray(a) for a in entry.posterior.predict_y(xs))
    sd = np.sqrt(var)
    ax.fill_between(xs[:, 0], mean - 2 * sd, mean + 2 * sd, color=entry.colour, alpha=0.15, lw=0)
    ax.plot(xs[:, 0], mean, color=entry.colour, lw=1.8)
    ax.plot(data.X[:, 0], data.y, "x", color="#444444", ms=4.5, mew=1)
    if entry.name != "exact":
        low, high = float(data.y.min()), float(data.y.max())
        floor, ceiling = low - 0.42 * (high - low), high + 0.42 * (high - low)
        Z = np.asarray(entry.result.model.Z)[:, 0]
        ax.plot(np.asarray(start_Z)[:, 0], np.full(len(Z), ceiling), "v", color="#999999", ms=6)
        ax.plot(Z, np.full(len(Z), floor), "^", color=entry.colour, ms=6)
    _tidy(ax, f"{entry.label}: {entry.result.objective:.2f} nats")


def _superimposed(ax, entries, data, xs):
    for entry in entries:
        mean, var = (np.asarray(a) for a in entry.posterior.predict_y(xs))
        sd = np.sqrt(var)
        style = "--" if entry.name == "exact" else "-"
        z = 5 if entry.name == "exact" else 3
        ax.plot(xs[:, 0], mean, style, color=entry.colour, lw=1.6, label=entry.label, zorder=z)
        for edge in (mean - 2 * sd, mean + 2 * sd):
            ax.plot(xs[:, 0], edge, style, color=entry.colour, lw=1, alpha=0.8, zorder=z)
    ax.plot(data.X[:, 0], data.y, "x", color="#bbbbbb", ms=4, mew=1, zorder=1)
    ax.legend(frameon=False, ncols=4, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, 1.02))
    low, high = ax.get_ylim()
    ax.set_ylim(low, high + 0.12 * (high - low))
    _tidy(ax, "predictions superimposed (mean ± 2 sd)")


def _traces(ax, entries, column, title):
    for entry in entries:
        values = entry.result.trace[column]
        ax.plot(np.arange(len(values)), values, color=entry.colour, lw=1.6, label=entry.label)
    if column == "objective":
        finals = [e.result.objective for e in entries]
        room = max(finals) - min(finals)
        ax.set_ylim(min(finals) - 2.5 * room, max(finals) + 0.6 * room)
        ax.legend(frameon=False, fontsize=9, loc="lower right")
    ax.set_xlabel("L-BFGS step")
    _tidy(ax, title)
