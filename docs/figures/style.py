"""One style for all figures: size, fonts, colours that the colour-blind can tell apart, labels beside lines.

Every figure of the documentation is drawn with it; `python -m docs.figures` redraws all that come from stored results.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tightgp.app.comparison import COLOURS as BOUNDS
from tightgp.io.files import atomic_write

#: Inches: the width of a page's text, and of a figure with one panel.
WIDTH, NARROW = 9.0, 6.0
INK, GREY, PALE = "#222222", "#6b6f76", "#e8e8e8"
ORANGE, BLUE, GREEN, PINK, SKY, YELLOW = "#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"
#: What a colour stands for, in every figure.
COLOURS = {**BOUNDS, "vecchia": PINK, "ours": ORANGE, "peer": BLUE}
SETTINGS: dict[str, Any] = {
    "figure.figsize": (NARROW, 3.4),
    "figure.constrained_layout.use": True,
    "figure.facecolor": "white",
    "savefig.dpi": 144,
    "savefig.facecolor": "white",
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "axes.axisbelow": True,
    "axes.prop_cycle": f"cycler('color', {[ORANGE, BLUE, GREEN, PINK, SKY, YELLOW]})",
    "axes.unicode_minus": True,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": PALE,
    "lines.linewidth": 1.8,
    "lines.markersize": 5,
    "legend.frameon": False,
}


def use() -> None:
    """Draw in this style from now on."""
    import matplotlib

    matplotlib.rcParams.update(SETTINGS)


def canvas(width: float = WIDTH, height: float = 3.4):
    """An empty figure in this style that needs no window."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    use()
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def save(figure, path: Path) -> Path:
    """Write a figure whole or not at all."""
    with atomic_write(path) as temporary:
        figure.savefig(temporary, format="png")
    return path


def minus(text: str) -> str:
    """Numbers with a real minus sign."""
    return text.replace("-", "−")


def label_ends(ax, ends: Sequence[tuple[float, float, str, str]], apart: float = 0.06, size: float = 9.5) -> None:
    """Write a name in its colour at the right end ``(x, y, name, colour)`` of each line, moved apart where they touch.

    ``apart`` is the least distance of two names as a share of the axis' height. Call it when the axis has its limits.
    """
    logarithmic = ax.get_yscale() == "log"
    there, back = (np.log, np.exp) if logarithmic else (np.asarray, np.asarray)
    low, high = (float(there(edge)) for edge in ax.get_ylim())
    step = apart * (high - low)
    ordered = sorted(ends, key=lambda end: end[1])
    wanted = np.array([float(there(end[1])) for end in ordered])
    places = wanted.copy()
    for i in range(1, len(places)):
        places[i] = max(places[i], places[i - 1] + step)
    places -= (places - wanted).mean() if len(places) else 0.0  # up and down alike
    for (x, _, name, colour), place in zip(ordered, places, strict=True):
        box = {"boxstyle": "square,pad=0.05", "fc": "white", "ec": "none", "alpha": 0.85}
        beside = {"xytext": (8, 0), "textcoords": "offset points", "va": "center", "bbox": box, "zorder": 6}
        ax.annotate(name, (x, float(back(place))), color=colour, size=size, **beside)
