"""Draw docs/figures/architecture.png: what a row of a table becomes on its way to a prediction and a report.

python -m docs.figures.architecture
"""

from pathlib import Path
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

WIDTH, HEIGHT = 15.15, 8.0
BOX_WIDTH, BOX_HEIGHT = 2.1, 1.14
BAND_HEIGHT, BAND_GAP = 1.6, 0.24
INK, GREY = "#222222", "#666666"
#: From top to bottom: names of packages, what they do, colour.
BANDS = (
    ("app", "files, pages,\nterminal", "#0072B2"),
    ("estimators", "columns, units,\nscikit-learn", "#008060"),
    ("models\ntraining\nposterior", "a Gaussian process", "#C04A00"),
    ("data\nkernels\nlikelihoods\nbounds\nnumerics", "arithmetic on rows", "#8E3A8E"),
)
#: The middles of the columns of boxes.
COLUMNS = (2.75, 5.75, 8.7, 11.35, 13.75)


class Box(NamedTuple):
    """A value on the way of a row: where it is drawn, its name, what it looks like, and the place that makes it."""

    column: int
    band: int
    name: str
    looks: str
    place: str
    colour: str | None = None

    def side(self, name: str) -> tuple[float, float]:
        """The middle of a side."""
        x, y = COLUMNS[self.column], middle_of(self.band)
        dx = {"left": -0.5, "right": 0.5}.get(name, 0.0) * BOX_WIDTH
        dy = {"top": 0.5, "bottom": -0.5}.get(name, 0.0) * BOX_HEIGHT
        return x + dx, y + dy


FILE = Box(0, 0, "a row of a file", "52.5, Old Town, 940", "app/tables")
FRAME = Box(1, 0, "pandas frame", "inputs and target", "app/cli/problem.py")
PREDICTIONS = Box(3, 0, "predictions.csv", "mean, sd, interval", "app/cli/prediction.py")
REPORT = Box(4, 0, "report.html", "accuracy, reliability", "app/report")
FEATURES = Box(0, 1, "features", "(n, D), mean 0, sd 1", "estimators/encoding.py")
DISTRIBUTION = Box(4, 1, "distributions", "one for each row", "estimators/\ndistributions.py")
MODEL = Box(0, 2, "data and model", "X, y; kernel, Z, bound", "data/dataset.py\nmodels/")
OBJECTIVE = Box(2, 2, "objective", "total nats, gradient", "bounds/collapsed.py\nbounds/uncollapsed.py")
TRAINED = Box(3, 2, "trained model", "and how it went", "training/fit.py")
POSTERIOR = Box(4, 2, "posterior", "q(u) and its factors", "posterior/posterior.py")
PLACED = Box(0, 3, "placed rows", "device, devices or file", "data/placement.py")
CHUNK = Box(1, 3, "chunk of rows", "A = L⁻¹k, r = d/σ²", "kernels/, numerics/")
SUMS = Box(2, 3, "sums over rows", "AᵀA, Aᵀy, penalty Φ", "bounds/structures.py\nbounds/statistics.py")
SAVED = Box(3, 3, "model file", "arrays, no code", "io/modelfile.py", GREY)
BOXES = tuple(value for value in globals().values() if isinstance(value, Box))

#: From a side of a box to a side of another, by a function; how far the function's name is from the arrow's middle.
ARROWS = (
    (FILE, "right", FRAME, "left", "read_table", (0, 0.13)),
    (FRAME, "bottom", FEATURES, "right", "Encoding.fit_transform", (1.07, 0.3)),
    (FEATURES, "bottom", MODEL, "top", "Dataset(X, y)", (0.1, 0)),
    (MODEL, "bottom", PLACED, "top", "model.prepare", (0.1, 0)),
    (PLACED, "right", CHUNK, "left", "fold", (0, 0.13)),
    (CHUNK, "right", SUMS, "left", "structure", (0, 0.13)),
    (SUMS, "top", OBJECTIVE, "bottom", "lower_bound", (0.1, 0)),
    (OBJECTIVE, "right", TRAINED, "left", "fit", (0, 0.13)),
    (TRAINED, "right", POSTERIOR, "left", "", (0, 0)),
    (TRAINED, "bottom", SAVED, "top", "save", (0.1, 0)),
    (POSTERIOR, "top", DISTRIBUTION, "bottom", "predict_y", (0.1, 0)),
    (DISTRIBUTION, "top", REPORT, "bottom", "gather", (0.1, 0)),
    (DISTRIBUTION, "left", PREDICTIONS, "bottom", "predict", (-0.58, 0.3)),
)


def middle_of(band: int) -> float:
    """The height of the middle of a band."""
    return HEIGHT - 0.85 - BAND_HEIGHT / 2 - band * (BAND_HEIGHT + BAND_GAP)


def draw_band(ax: Axes, band: int) -> None:
    """A pale stripe behind the boxes of some packages, and their names."""
    names, purpose, colour = BANDS[band]
    y = middle_of(band)
    stripe = FancyBboxPatch((0.15, y - BAND_HEIGHT / 2), WIDTH - 0.3, BAND_HEIGHT, "round,pad=0,rounding_size=0.12")
    stripe.set(facecolor=colour, edgecolor="none", alpha=0.09)
    ax.add_patch(stripe)
    ax.text(0.35, y + 0.68, names, color=colour, fontsize=11, fontweight="bold", va="top", linespacing=1.15)
    ax.text(0.35, y - 0.7, purpose, color=GREY, fontsize=9.5, va="bottom", linespacing=1.15)


def draw_box(ax: Axes, box: Box) -> None:
    """A value: its name, what it looks like, where it is made."""
    colour = box.colour or BANDS[box.band][2]
    x, y = COLUMNS[box.column], middle_of(box.band)
    corner = (x - BOX_WIDTH / 2, y - BOX_HEIGHT / 2)
    frame = FancyBboxPatch(corner, BOX_WIDTH, BOX_HEIGHT, "round,pad=0,rounding_size=0.1", zorder=3)
    frame.set(facecolor="white", edgecolor=colour, linewidth=1.6)
    ax.add_patch(frame)
    two_lines = "\n" in box.place
    centred = {"ha": "center", "va": "center", "zorder": 4}
    ax.text(x, y + 0.36, box.name, fontsize=12, fontweight="bold", color=INK, **centred)
    ax.text(x, y + 0.08, box.looks, fontsize=10, color=INK, **centred)
    height = -0.32 if two_lines else -0.27
    ax.text(x, y + height, box.place, fontsize=8.8, color=colour, family="monospace", linespacing=1.1, **centred)


def draw_arrow(ax: Axes, start: Box, start_side: str, end: Box, end_side: str, function: str, offset) -> None:
    """An arrow with the name of the function that makes the next value."""
    a, b = start.side(start_side), end.side(end_side)
    upright = {"top", "bottom"}
    turns = (start_side in upright) != (end_side in upright)
    angles = "angleA=90,angleB=0" if start_side in upright else "angleA=0,angleB=90"
    style = f"angle,{angles},rad=9" if turns else "arc3"
    look = {"arrowstyle": "-|>", "color": INK, "lw": 1.5, "shrinkA": 1, "shrinkB": 1}
    ax.annotate("", b, a, arrowprops={**look, "connectionstyle": style}, zorder=2)
    x, y = (a[0] + b[0]) / 2 + offset[0], (a[1] + b[1]) / 2 + offset[1]
    across = "center" if a[1] == b[1] else "left"
    ax.text(x, y, function, fontsize=9, family="monospace", color=INK, ha=across, va="center", zorder=5)


def draw_loop(ax: Axes) -> None:
    """The arrow by which an optimiser comes back with other parameters."""
    a, b = OBJECTIVE.side("left"), MODEL.side("right")
    look = {"arrowstyle": "-|>", "color": INK, "lw": 1.5, "ls": (0, (4, 3)), "shrinkA": 1, "shrinkB": 1}
    ax.annotate("", b, a, arrowprops=look, zorder=2)
    x, y = (a[0] + b[0]) / 2, a[1]
    ax.text(x, y + 0.15, "the next parameters", fontsize=10, color=INK, ha="center", va="center")
    ax.text(
        x, y - 0.16, "training/lbfgs.py", fontsize=8.8, color=BANDS[2][2], family="monospace", ha="center", va="center"
    )
    ax.text(
        x,
        y - 0.36,
        "training/first_order.py",
        fontsize=8.8,
        color=BANDS[2][2],
        family="monospace",
        ha="center",
        va="center",
    )


def main() -> None:
    """Write the figure beside this file."""
    figure = Figure(figsize=(WIDTH, HEIGHT), facecolor="white")
    ax = figure.add_axes((0, 0, 1, 1))
    ax.set(xlim=(0, WIDTH), ylim=(0, HEIGHT))
    ax.axis("off")
    title = "From a row of a table to a prediction and a report"
    ax.text(0.2, HEIGHT - 0.42, title, fontsize=17, fontweight="bold", color=INK, va="center")
    for band in range(len(BANDS)):
        draw_band(ax, band)
    for box in BOXES:
        draw_box(ax, box)
    for arrow in ARROWS:
        draw_arrow(ax, *arrow)
    draw_loop(ax)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=120)


if __name__ == "__main__":
    main()
