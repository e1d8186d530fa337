"""Pictures of results: what the experiments' figures share."""

from pathlib import Path

import numpy as np

from experiments.reproduction.store import Record
from tightgp.io.files import atomic_write


def canvas(width: float, height: float):
    """An empty figure that no window is needed for."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure, path: Path) -> str:
    """Write it, and give the name that a page beside it calls it by."""
    with atomic_write(path) as temporary:
        figure.savefig(temporary, dpi=130, format="png")
    return path.name


def tidy(ax, title: str) -> None:
    ax.set_title(title, loc="left", fontsize=11, fontweight="bold")
    ax.spines[["top", "right"]].set_visible(False)


def curves(ax, records: list[Record], column: str, colour: str, label: str, style: str = "-") -> None:
    """The mean over splits of what was followed, and its standard error as a band."""
    traces = [record["trace"] for record in records if column in record["trace"]]
    shortest = min((len(trace["step"]) for trace in traces), default=0)
    if shortest == 0:
        return
    steps = np.asarray(traces[0]["step"][:shortest])
    values = np.asarray([trace[column][:shortest] for trace in traces])
    mean = values.mean(axis=0)
    ax.plot(steps, mean, style, color=colour, lw=1.6, label=label)
    if len(values) > 1:
        error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
        ax.fill_between(steps, mean - error, mean + error, color=colour, alpha=0.25, lw=0)


def level(ax, records: list[Record], key: str, colour: str, label: str) -> None:
    """Where a method ended, as a line across: one that was trained otherwise and has no steps to compare."""
    values = [record[key] for record in records]
    if values:
        ax.axhline(float(np.mean(values)), color=colour, lw=1.4, ls="--", label=label)


def room_for_ends(ax, records: list[Record], key: str = "objective") -> None:
    """Show the part of the curves in which the methods differ: the early climb would hide it."""
    ends = [record[key] for record in records]
    spread = max(max(ends) - min(ends), 0.02 * abs(ends[0])) or 1.0
    ax.set_ylim(min(ends) - 1.2 * spread, max(ends) + 0.25 * spread)


def legend(ax, **options) -> None:
    """Names of the curves, where there are any."""
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, **options)
