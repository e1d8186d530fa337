"""What the figures of the experiments share."""

from pathlib import Path

import numpy as np

from docs.figures import style
from docs.figures.style import canvas
from experiments.reproduction.store import Record

__all__ = ["canvas", "curves", "legend", "level", "room_for_ends", "save", "tidy"]


def save(figure, path: Path) -> str:
    """Write a figure, and return its file name for the page."""
    return style.save(figure, path).name


def tidy(ax, title: str) -> None:
    ax.set_title(title)


def curves(ax, records: list[Record], column: str, colour: str, label: str, style: str = "-") -> None:
    """Draw the mean of a column of the traces over the splits, with its standard error as a band."""
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
    """Draw the end of a method as a horizontal line, where its steps do not compare with the others'."""
    values = [record[key] for record in records]
    if values:
        ax.axhline(float(np.mean(values)), color=colour, lw=1.4, ls="--", label=label)


def room_for_ends(ax, records: list[Record], key: str = "objective") -> None:
    """Limit the axis to where the methods differ; the early climb would hide it."""
    ends = [record[key] for record in records]
    spread = max(max(ends) - min(ends), 0.02 * abs(ends[0])) or 1.0
    ax.set_ylim(min(ends) - 1.2 * spread, max(ends) + 0.25 * spread)


def legend(ax, **options) -> None:
    """Add a legend if there are curves."""
    if ax.get_legend_handles_labels()[0]:
        ax.legend(frameon=False, **options)
