"""Draw runs of the suite: how many times longer than tightgp each library takes, and cost against N and M.

python -m benchmarks.picture benchmarks/results/suite.json [MORE.json] --out docs/figures/speed.png
"""

import argparse
import json
from pathlib import Path
from typing import NamedTuple

from benchmarks import summaries
from benchmarks.rows import BASE, COLUMNS, spaced
from benchmarks.summaries import Record
from benchmarks.tables import UNITS
from docs.figures import style

#: What is drawn: tightgp's default beside the others. Its other settings are in the tables.
COLOURS = {BASE: style.ORANGE, "gpytorch": style.BLUE, "gpflow": style.GREEN, "gpjax": "#AA4499", "limit": style.GREY}
ROWS = {"collapsed": "collapsed bound", "svgp": "SVGP step", "fit": "whole fit", "predict": "prediction"}
#: Ratios beyond these lie at the edge.
_FEWEST, _MOST = 0.3, 9.0


class Line(NamedTuple):
    """One line of dots: the label of a case, and seconds by library."""

    row: str
    label: str
    seconds: dict[str, float]


def dot_lines(record: Record) -> list[Line]:
    """The cases that tightgp and another library have a time for."""
    out = []
    for case in record["cases"]:
        if case["row"] not in ROWS:
            continue
        take = summaries.usual if case["row"] == "fit" else summaries.best
        found = {name: summaries.summary(case, name, take) for name in case["answers"] if name in COLOURS}
        seconds = {name: s.middle for name, s in found.items() if s is not None}
        if BASE in seconds and len(seconds) > 1:
            out.append(Line(case["row"], case["title"], seconds))
    return out


def where(record: Record) -> str:
    """The machine in a few words."""
    device = record["libraries"]["tightgp"].get("device", "cpu")
    m = record["machine"]
    cores = {1: "one core", 2: "two cores"}.get(m["cores"], f"{m['cores']} cores")
    return f"{cores} of an {m['processor']}" if device == "cpu" else device


def picture(records: list[Record], path: Path) -> Path:
    """For each run a panel of ratios, above two of cost against size."""
    lines = [dot_lines(record) for record in records]
    heights = [0.3 * (len(mine) + 0.9 * len({line.row for line in mine})) + 0.9 for mine in lines]
    fig = style.canvas(style.WIDTH, sum(heights) + 3.0 * len(records))
    grid = fig.add_gridspec(2 * len(records), 2, height_ratios=[h for one in heights for h in (one, 3.0)])
    for number, (record, mine) in enumerate(zip(records, lines, strict=True)):
        _ratios(fig.add_subplot(grid[2 * number, :]), mine, where(record))
        for place, along in enumerate(("N", "M")):
            _curves(fig.add_subplot(grid[2 * number + 1, place]), record, along)
    return style.save(fig, path)


def _title(name: str) -> str:
    return "arithmetic alone" if name == "limit" else COLUMNS[name].title.split(",")[0]


def _ratios(ax, lines: list[Line], title: str) -> None:
    """A line for each case, a dot for each other library where its time is that many times tightgp's."""
    y, previous = 0.0, None
    ticks: list[tuple[float, str]] = []
    for line in lines:
        if line.row != previous:
            y += 0.9
            across = ax.get_yaxis_transform()
            ax.text(-0.01, y - 0.75, ROWS[line.row], transform=across, ha="right", weight="bold", size=9, va="center")
            previous = line.row
        own = line.seconds[BASE]
        ratios = {name: seconds / own for name, seconds in line.seconds.items() if name != BASE}
        ax.plot([1, min(max([1, *ratios.values()]), _MOST)], [y, y], color=style.PALE, lw=1.4, zorder=1)
        for name, ratio in ratios.items():
            ax.plot(min(max(ratio, _FEWEST), _MOST), y, "o", ms=7, color=COLOURS[name], mec="white", zorder=3)
        ax.plot(1, y, "o", ms=7, color=COLOURS[BASE], mec="white", zorder=4)
        ax.text(1.01, y, duration(own), transform=ax.get_yaxis_transform(), size=9, color=COLOURS[BASE], va="center")
        ticks.append((y, line.label))
        y += 1
    _name_libraries(ax, lines)
    ax.set_yticks([place for place, _ in ticks], [label for _, label in ticks], size=9)
    ax.set_ylim(y - 0.4, -0.6)
    ax.set_xscale("log")
    ax.set_xlim(_FEWEST * 0.93, _MOST * 1.08)
    ax.set_xticks([0.5, 1, 2, 4, 8], ["half", "as long as tightgp", "2 times", "4 times", "8 times"])
    ax.minorticks_off()
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x")
    ax.spines["left"].set_visible(False)
    ax.set_title(f"{title}: how long others take; right, what tightgp takes")


def _name_libraries(ax, lines: list[Line]) -> None:
    """Each library's name in its colour, in a line above the dots."""
    seen = [name for name in COLOURS if any(name in line.seconds for line in lines)]
    for number, name in enumerate(seen):
        ax.text(
            0.32 + 0.15 * number,
            1.0,
            "● " + _title(name),
            transform=ax.transAxes,
            color=COLOURS[name],
            size=9.5,
            va="top",
        )


def _curves(ax, record: Record, along: str) -> None:
    """Value and gradient of the collapsed bound against one size, with the exponent at the end of each line."""
    mine = [c for c in record["cases"] if c["row"] == "scaling" and c["title"].startswith(f"along {along}")]
    other = {c["sizes"]["m" if along == "N" else "n"] for c in mine}
    places = sorted(c["sizes"][along.lower()] for c in mine)
    ends: list[tuple[float, float, str, str]] = []
    for name in COLOURS:
        limit = name == "limit"
        sizes, seconds = summaries.curve(record, along, name)
        if limit:
            pairs = [(float(c["sizes"][along.lower()]), summaries.limit(record, c)) for c in mine]
            sizes, seconds = [s for s, t in pairs if t], [t for _, t in pairs if t]
        if not sizes:
            continue
        look = {"ls": (0, (4, 2)), "lw": 1.2} if limit else {"marker": "o", "ms": 4.5}
        ax.plot(sizes, seconds, color=COLOURS[name], zorder=4 if name == BASE else 3, **look)
        slope = summaries.exponent(sizes, seconds)
        power = "" if slope is None or limit else f"  {along}$^{{{slope:.1f}}}$"
        ends.append((sizes[-1], seconds[-1], _title(name) + power, COLOURS[name]))
    fixed = f"D = 8, {'M' if along == 'N' else 'N'} = {spaced(min(other))}" if other else ""
    ax.set_xscale("log", base=2 if along == "M" else 10)
    ax.set_yscale("log")
    ax.set_xlabel(f"{along}   ({fixed})" if fixed else along)
    if places:
        ax.set_xticks(places, [_short(place) for place in places])
        ax.set_xlim(places[0] / 1.15, places[-1] * (places[-1] / places[0]) ** 0.6)
    style.label_ends(ax, ends, apart=0.08)
    ax.minorticks_off()
    ax.yaxis.set_major_formatter(lambda seconds, _: duration(seconds))
    ax.grid()
    ax.set_title(f"collapsed bound, against {along}")


def duration(seconds: float) -> str:
    """Seconds in a unit in which the number is readable.

    >>> duration(0.0012), duration(3.2)
    ('1.2 ms', '3.2 s')
    """
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
