"""Draw one run of the suite, or several: the time of each library, and cost against N and against M.

python -m benchmarks.picture benchmarks/results/suite.json [MORE.json] --out docs/figures/speed.png
"""

import argparse
import json
import math
from pathlib import Path
from typing import NamedTuple

from benchmarks import summaries
from benchmarks.rows import COLUMNS, spaced
from benchmarks.summaries import Record
from benchmarks.tables import UNITS
from tightgp.io.files import atomic_write

#: Colours that the colour-blind can tell apart. tightgp's stand out; its standard bound is hollow.
COLOURS = {
    "diagonal": "#D55E00",
    "standard": "#D55E00",
    "mixed": "#E69F00",
    "gpytorch": "#0072B2",
    "gpflow": "#009E73",
    "gpjax": "#AA4499",
    "limit": "#222222",
}
ROWS = {"collapsed": "collapsed bound", "svgp": "SVGP step", "fit": "whole fit", "predict": "prediction"}


class Line(NamedTuple):
    """One line of dots: the label of a case, and seconds by library."""

    row: str
    label: str
    seconds: dict[str, float]
    limit: float | None


def dot_lines(record: Record) -> list[Line]:
    """The cases that any library has a time for."""
    out = []
    for case in record["cases"]:
        if case["row"] not in ROWS:
            continue
        take = summaries.usual if case["row"] == "fit" else summaries.best
        found = {name: summaries.summary(case, name, take) for name in case["answers"]}
        seconds = {name: s.middle for name, s in found.items() if s is not None}
        if seconds:
            out.append(Line(case["row"], case["title"], seconds, summaries.limit(record, case)))
    return out


def where(record: Record) -> str:
    """The machine in a few words."""
    device = record["libraries"]["tightgp"].get("device", "cpu")
    m = record["machine"]
    cores = {1: "one core", 2: "two cores"}.get(m["cores"], f"{m['cores']} cores")
    return f"{cores} of an {m['processor']}" if device == "cpu" else device


def picture(records: list[Record], path: Path) -> Path:
    """A row of three panels for each run."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    lines = [dot_lines(record) for record in records]
    heights = [0.34 * max(len(mine) + 0.8 * len({line.row for line in mine}), 6) + 0.9 for mine in lines]
    fig = Figure(figsize=(12.5, 1.0 + sum(heights)))
    fig.set_layout_engine("constrained", wspace=0.05, hspace=0.06)
    FigureCanvasAgg(fig)
    grid = fig.add_gridspec(len(records), 3, height_ratios=heights, width_ratios=(1.75, 1, 1))
    for number, (record, mine) in enumerate(zip(records, lines, strict=True)):
        _dots(fig.add_subplot(grid[number, 0]), mine, where(record))
        for place, along in enumerate(("N", "M")):
            _curves(fig.add_subplot(grid[number, 1 + place]), record, along)
    fig.suptitle(
        "What an evaluation, a step, a fit and a prediction take", x=0.01, ha="left", fontsize=13, weight="bold"
    )
    fig.legend(handles=_legend(records), loc="outside lower left", ncols=6, frameon=False, fontsize=9)
    with atomic_write(path) as temporary:
        fig.savefig(temporary, dpi=150, format="png")
    return path


def _marker(name: str) -> dict:
    if name == "limit":
        return {"marker": "|", "ms": 12, "mew": 1.6, "mec": COLOURS[name], "ls": "none"}
    hollow = name == "standard"
    colour = COLOURS[name]
    return {"marker": "o", "ms": 7, "mew": 1.6, "mec": colour, "mfc": "white" if hollow else colour, "ls": "none"}


def _legend(records: list[Record]) -> list:
    from matplotlib.lines import Line2D

    seen = [name for name in COLOURS if any(name in c["answers"] for r in records for c in r["cases"])]
    seen = [n for n in seen if any(n in line.seconds for r in records for line in dot_lines(r))] + ["limit"]
    titles = {name: COLUMNS[name].title if name in COLUMNS else "the arithmetic alone" for name in seen}
    return [Line2D([], [], label=titles[name], **_marker(name)) for name in seen]


def _dots(ax, lines: list[Line], title: str) -> None:
    """Time of each library, a line for each case; a grey line joins the fastest to the slowest."""
    y, previous = 0.0, None
    ticks: list[tuple[float, str]] = []
    for line in lines:
        if line.row != previous:
            y += 0.8
            ax.text(
                0.0,
                y - 0.72,
                ROWS[line.row],
                transform=ax.get_yaxis_transform(),
                fontsize=9,
                weight="bold",
                va="center",
            )
            previous = line.row
        ax.plot([min(line.seconds.values()), max(line.seconds.values())], [y, y], color="#cccccc", lw=1.2, zorder=1)
        if line.limit is not None:
            ax.plot(line.limit, y, **_marker("limit"), zorder=2)
        # tightgp is drawn last, so that nothing hides it.
        for name in sorted(line.seconds, key=lambda name: name == "diagonal"):
            ax.plot(line.seconds[name], y, **_marker(name), zorder=4 if name == "diagonal" else 3)
        ticks.append((y, line.label))
        y += 1
    ax.set_yticks([place for place, _ in ticks], [label for _, label in ticks])
    ax.set_ylim(y - 0.3, -0.35)
    ax.set_xscale("log")
    ax.xaxis.set_major_formatter(lambda seconds, _: duration(seconds))
    ax.minorticks_off()
    ax.tick_params(axis="y", length=0, labelsize=8.5)
    ax.tick_params(axis="x", labelsize=8)
    ax.grid(axis="x", color="#eeeeee", lw=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right", "left"]].set_visible(False)
    ax.set_title(title, loc="left", fontsize=11, fontweight="bold")


def _curves(ax, record: Record, along: str) -> None:
    """Value and gradient of the collapsed bound against one size, with the exponent at the end of each line."""
    mine = [c for c in record["cases"] if c["row"] == "scaling" and c["title"].startswith(f"along {along}")]
    other = {c["sizes"]["m" if along == "N" else "n"] for c in mine}
    ends: list[tuple[float, float, str, str]] = []
    for name in COLOURS:
        limit = name == "limit"
        if limit:
            pairs = [(float(c["sizes"][along.lower()]), summaries.limit(record, c)) for c in mine]
            sizes, seconds = [s for s, t in pairs if t], [t for _, t in pairs if t]
        else:
            sizes, seconds = summaries.curve(record, along, name)
        if not sizes:
            continue
        style = {"ls": (0, (4, 2)), "lw": 1.2} if limit else {"marker": "o", "ms": 5, "lw": 1.8}
        ax.plot(sizes, seconds, color=COLOURS[name], zorder=4 if name == "diagonal" else 3, **style)
        slope = summaries.exponent(sizes, seconds)
        label = "arithmetic" if limit else COLUMNS[name].title.split(",")[0]
        power = "" if slope is None or limit else f"  {along}$^{{{slope:.2f}}}$"
        ends.append((sizes[-1], seconds[-1], label + power, COLOURS[name]))
    fixed = f"D = 8, {'M' if along == 'N' else 'N'} = {spaced(min(other))}" if other else ""
    ax.set_xscale("log", base=2 if along == "M" else 10)
    ax.set_yscale("log")
    ax.set_xlabel(f"{along}   ({fixed})" if fixed else along, fontsize=9)
    if mine:
        places = sorted(c["sizes"][along.lower()] for c in mine)
        ax.set_xticks(places, [_short(place) for place in places])
        ax.set_xlim(places[0] / 1.15, places[-1] * (places[-1] / places[0]) ** 0.55)
    _name_ends(ax, ends)
    ax.minorticks_off()
    ax.yaxis.set_major_formatter(lambda seconds, _: duration(seconds))
    ax.tick_params(labelsize=8)
    ax.grid(color="#eeeeee", lw=0.8)
    ax.set_axisbelow(True)
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title(f"collapsed bound against {along}", loc="left", fontsize=10, fontweight="bold")


def _name_ends(ax, ends: list[tuple[float, float, str, str]]) -> None:
    """Label the end of each line, and move labels apart that would touch."""
    low, high = (math.log(edge) for edge in ax.get_ylim())
    apart, floor = 0.05 * (high - low), -math.inf
    for size, seconds, label, colour in sorted(ends, key=lambda end: end[1]):
        floor = max(math.log(seconds), floor + apart)
        place = (size, math.exp(floor))
        ax.annotate(label, place, xytext=(8, 0), textcoords="offset points", fontsize=8.5, color=colour, va="center")


def duration(seconds: float) -> str:
    """A power of ten of a second, as 1, 10 or 100 of a unit."""
    unit, factor = next((u for u in UNITS if seconds * u[1] > 0.9), UNITS[-1])
    return f"{seconds * factor:.3g} {unit}"


def _short(size: int) -> str:
    return f"{size // 1000}k" if size >= 10_000 and size % 1000 == 0 else str(size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, nargs="+", help="files that `python -m benchmarks --out` wrote")
    parser.add_argument("--out", type=Path, default=Path("docs/figures/speed.png"))
    arguments = parser.parse_args()
    print(picture([json.loads(path.read_text()) for path in arguments.results], arguments.out))


if __name__ == "__main__":
    main()
