"""The page of `beaten`: test scores and time of each step, and what validation rows choose."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np

from docs.figures import style
from experiments.reproduction import figures, medium, paper
from experiments.reproduction.cells import Cell, minus, unbroken
from experiments.reproduction.page import Block, Heading, Page, Picture, Table, Text
from experiments.reproduction.steps import GPYTORCH, PROTOCOL, STEPS_TAKEN, Step
from experiments.reproduction.store import Found, gains
from experiments.reproduction.tables import beside, seconds

SETS = (*medium.SETS, *paper.LARGE_SETS)
PROTOCOL_LABEL = "the paper's protocol, new bound"
#: Rows that show the best way on validation rows: among those that train on a bound, and among all.
CHOSEN_BOUND, CHOSEN = "ours on a bound, chosen on validation rows", "ours, chosen on validation rows"


class Way(NamedTuple):
    """A step, and the number of nearest training rows that it predicts from (None: none)."""

    method: str
    neighbours: int | None = None

    def cell(self, found: Found, name: str, key: str = "log_density") -> Cell:
        return Cell(found.scores(key, self.neighbours, set=name, method=self.method))

    def by_split(self, found: Found, name: str) -> dict[int, float]:
        return found.by_split("log_density", self.neighbours, set=name, method=self.method)

    def time(self, found: Found, name: str) -> str:
        return seconds(found.of(set=name, method=self.method))


class Line(NamedTuple):
    """A row of the tables: its label, and the way that it shows for each set (None: none)."""

    label: str
    way: Callable[[str], Way | None]
    alike: bool = True  # as many inducing points as elsewhere

    def seen(self, found: Found, name: str) -> bool:
        """Whether there is a result to show for a set."""
        way = self.way(name)
        return way is not None and bool(found.of(set=name, method=way.method))


GPYTORCH_LINE = Line("GPyTorch's SVGP, the paper's protocol", lambda _: Way(GPYTORCH))


def page(found: Found, whole: Found, settings: str, folder: Path) -> Page:
    """The page, from the runs of the steps, and from those of the paper's protocol trained to the end (``whole``)."""
    blocks: list[Block] = [
        Text(
            f"{settings} Local prediction conditions a test row also on its nearest training rows: how many (it says "
            "below the time) is chosen on the first split's validation rows, which nothing is trained on, and so is "
            "the way in the last two rows. Power EP and PITC are no bounds. float64; GPyTorch in its own float32. "
            "Times are of one training that has the device to itself and its programs compiled: not in them are "
            "compilation, prediction, the other ways that were tried, and k-means, which all but the greedy choice "
            "begin with (on two cores of a CPU one or two seconds, on HouseElectric 65). ≈: the time of some steps, "
            "multiplied out."
        ),
        *beside(found),
    ]
    names, lines = _shown(found, [GPYTORCH_LINE, *_lines(found, STEPS_TAKEN)])
    if names:
        blocks += [
            Heading("Test log density and seconds of training"),
            _densities(names, lines, found, whole),
            _picture(names, lines, found, whole, folder),
            Heading("Above the paper's protocol, split by split"),
            _above(names, [line for line in lines if line.alike], found, whole),
            Heading("Test RMSE"),
            _errors(names, lines, found, whole),
        ]
    return Page("beaten", "Past the paper", blocks)


def _lines(found: Found, steps: Mapping[str, Step]) -> list[Line]:
    lines = []
    for method, step in steps.items():
        if step.is_bound:
            lines.append(Line(step.label, lambda _, method=method: Way(method), step.times == 1))
        if step.local:
            lines.append(Line(f"{step.label}, local", lambda name, method=method: _nearest(found, name, method)))
    alike = {method: step for method, step in steps.items() if step.times == 1}
    bounds = {method: step for method, step in alike.items() if step.is_bound}
    lines.append(Line(CHOSEN_BOUND, lambda name: _best(_valid(found, name, bounds))))
    return [*lines, Line(CHOSEN, lambda name: _best(_valid(found, name, alike)))]


def _shown(found: Found, lines: list[Line]) -> tuple[list[str], list[Line]]:
    """The sets and the rows that have results."""
    names = [name for name in SETS if any(line.seen(found, name) for line in lines)]
    return names, [line for line in lines if any(line.seen(found, name) for name in names)]


def _valid(found: Found, name: str, methods: Iterable[str]) -> dict[Way, float]:
    """The validation log density of each way on a set, on the first split."""
    scores = {
        Way(method, score["neighbours"]): score
        for method in methods
        for record in found.of(set=name, method=method, split=0)
        for score in record.get("validation", ())
    }
    return {way: score["log_density"] for way, score in scores.items() if "error" not in score}


def _nearest(found: Found, name: str, method: str) -> Way | None:
    """A method with the number of neighbours that is best on validation rows."""
    ways = _valid(found, name, [method])
    return _best({way: score for way, score in ways.items() if way.neighbours is not None})


def _best(ways: dict[Way, float]) -> Way | None:
    return max(ways, key=ways.__getitem__, default=None)


def _protocol(name: str) -> Way:
    return Way("sgpr-new" if name in medium.SETS else "svgp-new")


def _densities(names: list[str], lines: list[Line], found: Found, whole: Found) -> Table:
    best = {name: paper.best(name) for name in names}

    def entry(name: str, cell: Cell, *below: str) -> str:
        if not cell.ours:
            return " ".join(filter(None, below)) or "—"
        ahead = " ●" if cell.mean > best[name][0] else ""
        return "\n".join([unbroken(f"{cell.text()}{ahead}"), *filter(None, below)])

    def shown(line: Line, name: str) -> str:
        way = line.way(name)
        if way is None:
            return "—"
        told = "" if way.neighbours is None else f"{way.neighbours} rows"
        named = STEPS_TAKEN[way.method].label if line.label in (CHOSEN, CHOSEN_BOUND) else ""
        return entry(name, way.cell(found, name), way.time(found, name), told, named)

    table: list[tuple[str, ...]] = [
        ("paper's best sparse method", *(minus(f"{best[n][0]:.3f}\n{best[n][1]}") for n in names)),
        (
            PROTOCOL_LABEL,
            *(entry(n, _protocol(n).cell(whole, n), Way(PROTOCOL).time(found, n)) for n in names),
        ),
    ]
    table += [(line.label, *(shown(line, name) for name in names)) for line in lines]
    caption = (
        "Mean test log density (standard error over splits; ● above the paper's best at any M), and seconds of one "
        "training"
    )
    return Table(caption, ("", *names), table)


def _above(names: list[str], lines: list[Line], found: Found, whole: Found) -> Table:
    def cell(way: Way, name: str) -> Cell:
        return Cell(gains(way.by_split(found, name), _protocol(name).by_split(whole, name)))

    caption = (
        "Test log density above that of the paper's protocol under the new bound, trained here on the same rows with "
        "as many inducing points: mean (standard error), which takes out that some splits are harder than others"
    )
    return Table(caption, ("", *names), _rows(names, lines, cell))


def _errors(names: list[str], lines: list[Line], found: Found, whole: Found) -> Table:
    caption = "Test RMSE of standardised targets (standard error over splits)"
    protocol = _rows(names, [Line(PROTOCOL_LABEL, _protocol)], lambda way, name: way.cell(whole, name, "rmse"), 4)
    ours = _rows(names, lines, lambda way, name: way.cell(found, name, "rmse"), 4)
    return Table(caption, ("", *names), protocol + ours)


def _rows(names: list[str], lines: list[Line], cell: Callable[[Way, str], Cell], digits: int = 3) -> list[tuple]:
    def shown(way: Way | None, name: str) -> str:
        return "—" if way is None else unbroken(cell(way, name).text(digits))

    return [(line.label, *(shown(line.way(name), name) for name in names)) for line in lines]


#: What the figure shows of the steps: few, each from further on than the one before.
SHOWN = {
    PROTOCOL_LABEL: "the paper's protocol",
    "ARD: collapsed, L-BFGS": "collapsed, L-BFGS, ARD",
    "ARD: blocks of 64, local": "and blocks, neighbours",
    CHOSEN_BOUND: "chosen, on a bound",
    CHOSEN: "chosen, of all",
}


def _picture(names: list[str], lines: list[Line], found: Found, whole: Found, folder: Path) -> Picture:
    every = {line.label: line for line in [Line(PROTOCOL_LABEL, _protocol), *lines]}
    shown = {label: every[label] for label in SHOWN if label in every}
    across = min(len(names), 4)
    down = -(-len(names) // across)
    figure = figures.canvas(style.WIDTH + 0.8, 0.5 + 2.1 * down)
    for number, name in enumerate(names):
        ax = figure.add_subplot(down, across, number + 1)
        _steps(ax, name, shown, found, whole, named=number % across == 0)
        if number + across >= len(names):
            ax.set_xlabel("test log density")
    return Picture(
        figures.save(figure, folder / "beaten.png"),
        "Test log density (nats a row) with standard errors, step by step; the dashed line is the paper's best sparse "
        "method, at M = 1024 or 2048.",
    )


def _steps(ax, name: str, shown: dict[str, Line], found: Found, whole: Found, named: bool) -> None:
    """One set's panel: a row for each step, the paper's best as a line."""
    limit = paper.best(name)[0]
    cells = {}
    for label, line in shown.items():
        way = line.way(name)
        cell = Cell(()) if way is None else way.cell(whole if label == PROTOCOL_LABEL else found, name)
        if cell.ours:
            cells[label] = cell
    errors = {label: float(np.nan_to_num(cell.error)) for label, cell in cells.items()}
    ends = [limit, *(cells[label].mean + side * errors[label] for label in cells for side in (-1, 1))]
    room = max(max(ends) - min(ends), 1e-3)
    ax.axvline(limit, color=style.GREY, lw=1.2, ls=(0, (4, 3)), zorder=0)
    for place, label in enumerate(shown):
        if label not in cells:
            continue
        cell = cells[label]
        colour = style.ORANGE if cell.mean > limit else style.GREY
        ax.errorbar(cell.mean, place, xerr=errors[label] or None, fmt="o", color=colour, ms=6, lw=1.4)
        box = {"boxstyle": "square,pad=0.05", "fc": "white", "ec": "none", "alpha": 0.9}
        above = {"xytext": (0, 6), "textcoords": "offset points", "ha": "center", "size": 9, "bbox": box, "zorder": 1}
        ax.annotate(minus(f"{cell.mean:.2f}"), (cell.mean, place), color=colour, **above)
    ax.set_xlim(min(ends) - 0.12 * room, max(ends) + 0.12 * room)
    ax.set_ylim(len(shown) - 0.6, -0.8)
    ax.set_yticks(range(len(shown)), [SHOWN[label] for label in shown] if named else [], size=9)
    ax.tick_params(axis="y", length=0)
    ax.locator_params(axis="x", nbins=3)
    ax.spines["left"].set_visible(False)
    figures.tidy(ax, name)
