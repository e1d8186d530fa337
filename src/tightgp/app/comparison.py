"""The exact GP and sparse GPs with several bounds on one data set: a table, and the paper's first figure."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from tightgp.app.printing import text_table
from tightgp.bounds.structures import Structure
from tightgp.data import Dataset
from tightgp.io.files import atomic_write
from tightgp.kernels import Kernel
from tightgp.models import SGPR, ExactGP
from tightgp.posterior.posterior import Posterior
from tightgp.training import FitResult, fit

COLOURS = {"exact": "#222222", "standard": "#0072B2", "spherical": "#CC79A7", "diagonal": "#D55E00", "block": "#009E73"}


@dataclass(frozen=True)
class Method:
    """A trained model and its predictions."""

    name: str
    result: FitResult
    posterior: Posterior

    @property
    def label(self) -> str:
        """The name for people."""
        return "exact GP" if self.name == "exact" else self.name

    @property
    def style(self) -> dict[str, Any]:
        """How the method is drawn in every figure."""
        return {"color": COLOURS.get(self.name, "#777777"), "ls": "--" if self.name == "exact" else "-", "lw": 1.6}

    def log_density(self, test: Dataset, exact_conditional: bool = False) -> float:
        """Mean log density of held-out targets, by the trained q(f|u) if ``exact_conditional`` (maths 8.2)."""
        exact_conditional &= self.name != "exact"
        return float(np.mean(self.posterior.log_density(test.X, test.y, exact_conditional=exact_conditional)))


def compare(
    data: Dataset,
    kernel: Kernel,
    Z,
    noise_variance: float,
    bounds: tuple[str | Structure, ...] = ("standard", "spherical", "diagonal", "block"),
    **options,
) -> list[Method]:
    """Train the exact GP, and a sparse GP with each bound, from the same start.

    Args:
        data: the training rows.
        kernel: the kernel at the start.
        Z: inducing inputs (M, D) at the start.
        noise_variance: the noise variance at the start.
        bounds: names or structures, as in ``tgp.SGPR(..., bound=...)``.
        options: further arguments of ``tgp.fit``.

    >>> from tightgp.app.comparison import compare, comparison_table
    >>> data = tgp.Dataset(X[:20], y[:20])
    >>> kernel = tgp.kernels.SquaredExponential()
    >>> methods = compare(data, kernel, X[:3], 0.1, ("standard", "diagonal"), steps=5, progress=False)
    >>> [method.name for method in methods]
    ['exact', 'standard', 'diagonal']
    """
    exact = train(ExactGP(kernel, noise_variance), data, **options)
    methods = [Method("exact", exact, exact.model.posterior(data))]
    for bound in bounds:
        result = train(SGPR(kernel, Z, noise_variance, bound=bound), data, **options)
        methods.append(Method(result.model.bound.name, result, result.model.posterior(data)))
    return methods


def train(model, data: Dataset, **options) -> FitResult:
    """The result of ``tgp.fit``; an interrupted one raises KeyboardInterrupt, because it cannot be compared."""
    result = fit(model, data, **options)
    if result.interrupted:
        raise KeyboardInterrupt
    return result


def comparison_table(methods: list[Method], test: Dataset) -> Table:
    """Objective, nats below the exact GP, hyperparameters, and mean log density of held-out rows.

    The log density is that of the usual predictions (maths 8.1), and with a star of those by the trained q(f|u) (8.2).
    """
    rows = []
    for one in methods:
        result, model = one.result, one.result.model
        numbers = [model.noise_variance, model.kernel.variance, model.kernel.lengthscale]
        cells = [f"[{one.style['color']}]{one.label}[/]"]
        cells += [f"{nats:.2f}" for nats in (result.objective, methods[0].result.objective - result.objective)]
        cells += [f"{float(value):.4f}" for value in numbers]
        cells += [f"{one.log_density(test, exact_conditional):.3f}" for exact_conditional in (False, True)]
        rows.append([*cells, str(len(result.trace["objective"]) - 1)])
    return text_table(["method", "nats", "gap", "σ²", "σ_f²", "ℓ", "test", "test*", "steps"], rows)


def save_figure(methods: list[Method], data: Dataset, start_Z, path: Path) -> None:
    """The paper's first figure for 1-D data: each fit, all predictions together, objective and σ² at each step."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(15, 6.6), layout="constrained")
    grid = figure.add_gridspec(2, 4)
    margin, room = 0.12 * np.ptp(data.X), 0.42 * np.ptp(data.y)
    xs = np.linspace(data.X.min() - margin, data.X.max() + margin, 400)
    axes, together = None, figure.add_subplot(grid[1, :2])
    for i, one in enumerate([one for one in methods if one.name != "spherical"][:4]):
        axes = figure.add_subplot(grid[0, i], sharex=axes, sharey=axes)
        mean, var = (np.asarray(a) for a in one.posterior.predict_y(xs[:, None]))
        low, high = mean - 2 * np.sqrt(var), mean + 2 * np.sqrt(var)
        axes.fill_between(xs, low, high, color=one.style["color"], alpha=0.15, lw=0)
        axes.plot(xs, mean, **one.style)
        axes.plot(data.X, data.y, "x", color="#444444", ms=4.5, mew=1)
        if one.name != "exact":
            top, bottom, Z = data.y.max() + room, data.y.min() - room, one.result.model.Z
            axes.plot(np.ravel(start_Z), np.full(len(start_Z), top), "v", color="#999999", ms=6)
            axes.plot(np.ravel(Z), np.full(len(Z), bottom), "^", color=one.style["color"], ms=6)
        _title(axes, f"{one.label}: {one.result.objective:.2f} nats")
        together.plot(xs, mean, label=one.label, **one.style)
        together.plot(xs, np.stack([low, high], axis=1), **{**one.style, "lw": 1})
    together.plot(data.X, data.y, "x", color="#bbbbbb", ms=4, mew=1, zorder=1)
    together.margins(y=0.12)
    together.legend(frameon=False, ncols=4, fontsize=9, loc="upper center")
    _title(together, "predictions together (mean ± 2 sd)")
    for i, (name, title) in enumerate([("objective", "objective (nats)"), ("noise_variance", "noise variance σ²")]):
        axes = figure.add_subplot(grid[1, 2 + i])
        for one in methods:
            axes.plot(one.result.trace[name], label=one.label, **one.style)
        axes.set_xlabel("L-BFGS step")
        _title(axes, title)
        if name == "objective":
            objectives = [one.result.objective for one in methods]
            axes.set_ylim(min(objectives) - 2.5 * np.ptp(objectives), max(objectives) + 0.6 * np.ptp(objectives))
            axes.legend(frameon=False, fontsize=9, loc="lower right")
    with atomic_write(path) as temporary:
        figure.savefig(temporary, dpi=150, format="png")


def _title(axes, text: str) -> None:
    axes.set_title(text, loc="left", fontsize=11, fontweight="bold")
    axes.spines[["top", "right"]].set_visible(False)
