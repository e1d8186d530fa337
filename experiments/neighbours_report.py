"""The tables of docs/neighbours.md and its figure, from the results of `experiments.neighbours`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from docs.figures import style
from tightgp.app.comparison import COLOURS
from tightgp.io.files import atomic_write

Record = dict[str, Any]


class Method(NamedTuple):
    """What training saw, and how many nearest rows predictions used; "chosen": as many as training rows chose."""

    bound: str
    neighbours: int | str | None
    title: str
    colour: str


LADDER = (
    Method("standard", None, "standard", COLOURS["standard"]),
    Method("diagonal", None, "diagonal", COLOURS["diagonal"]),
    Method("block:64", 64, "block 64", COLOURS["block"]),
    Method("vecchia:16:1@1", "chosen", "Vecchia (no bound)", style.COLOURS["vecchia"]),
)
EXACT = Method("exact", None, "exact GP", COLOURS["exact"])
VECCHIA = LADDER[-1]
#: What the grid crosses: numbers of inducing points, and of neighbours and rows in a block.
GRID_POINTS = (64, 128, 256, 512)
GRID_SHAPES = {
    "8 neighbours, block 16": "vecchia:8:16@1",
    "16, block 16": "vecchia:16:16@1",
    "32, block 16": "vecchia:32:16@1",
    "64, block 16": "vecchia:64:16@1",
    "16, block 1": "vecchia:16:1@1",
}


def scores(records: Sequence[Record], name: str, method: Method) -> dict[int, Record]:
    """The scores of a method on a set by split, with the most inducing points it was trained with; the latest."""
    mine = [
        r
        for r in records
        if r["set"] == name and r["bound"] == method.bound and "predictions" in r and "error" not in r
    ]
    most = max((r["inducing"] or 0 for r in mine), default=0)
    found = {}
    for record in mine:
        wanted = record["chosen_neighbours"] if method.neighbours == "chosen" else method.neighbours
        for prediction in record["predictions"]:
            same = (prediction["neighbours"] or None) == wanted
            if same and (record["inducing"] or 0) == most and "error" not in prediction:
                found[record["split"]] = record | prediction
    return found


def ladder(records: Sequence[Record]) -> dict[str, dict[str, float]]:
    """For each set, mean test log densities of the methods, on the splits that all sparse ones have."""
    out = {}
    for name in dict.fromkeys(r["set"] for r in records):
        found = {method.title: scores(records, name, method) for method in LADDER}
        exact = scores(records, name, EXACT)
        splits = set.intersection(*(set(one) for one in found.values()))
        if not splits:
            continue
        row = {title: _mean(one, splits) for title, one in found.items()}
        if splits <= set(exact):
            row[EXACT.title] = _mean(exact, splits)
        out[name] = row | {"splits": float(len(splits))}
    return out


def _mean(found: dict[int, Record], splits: set[int]) -> float:
    return float(np.mean([found[split]["log_density"] for split in splits]))


def ladder_table(records: Sequence[Record]) -> str:
    """`ladder` in Markdown."""
    titles = [*(method.title for method in LADDER), EXACT.title]
    rows = [
        [f"{name} ({row['splits']:.0f})", *(_number(row[title], 3) if title in row else "–" for title in titles)]
        for name, row in ladder(records).items()
    ]
    return _markdown(["set (splits)", *titles], rows)


def vecchia_table(records: Sequence[Record]) -> str:
    """Vecchia on all its splits: scores and calibration, and the exact GP's log density on the same splits."""
    rows = []
    for name in dict.fromkeys(r["set"] for r in records):
        found, exact = scores(records, name, VECCHIA), scores(records, name, EXACT)
        if not found:
            continue
        density = [one["log_density"] for one in found.values()]
        error = np.std(density, ddof=1) / np.sqrt(len(density)) if len(density) > 1 else np.nan
        spread = "" if np.isnan(error) else f" ± {error:.3f}"
        rows.append(
            [
                f"{name} ({len(found)})",
                f"{_number(float(np.mean(density)), 3)}{spread}",
                _of_exact(exact, set(found)),
                f"{np.mean([one['rmse'] for one in found.values()]):.4f}",
                f"{np.mean([one['crps'] for one in found.values()]):.4f}",
                f"{100 * np.mean([one['coverage']['95'] for one in found.values()]):.1f} %",
            ]
        )
    return _markdown(["set (splits)", "log density", "exact GP", "RMSE", "CRPS", "in 95 % intervals"], rows)


def _of_exact(exact: dict[int, Record], splits: set[int]) -> str:
    """The exact GP's mean log density on these splits, and on how many if it was not trained on all."""
    shared = splits & set(exact)
    if not shared:
        return "–"
    return _number(_mean(exact, shared), 3) + (f" ({len(shared)})" if shared < splits else "")


def grid_table(records: Sequence[Record]) -> str:
    """Validation log density of each number of inducing points and shape, less the set's best, as a mean over sets."""
    found: dict[str, dict[tuple[int, str], float]] = {}
    for r in records:
        if "predictions" in r or "error" in r or r["split"] != 0:
            continue
        (one,) = [p for p in r["validation"] if (p["neighbours"] or None) == r["chosen_neighbours"]]
        found.setdefault(r["set"], {})[r["inducing"], r["bound"]] = one["log_density"]
    wanted = {(count, bound) for count in GRID_POINTS for bound in GRID_SHAPES.values()}
    whole = [one for one in found.values() if wanted <= set(one)]
    if not whole:
        return ""
    best = [max(one[key] for key in wanted) for one in whole]
    rows = []
    for count in GRID_POINTS:
        below = [
            np.mean([one[count, b] - top for one, top in zip(whole, best, strict=True)]) for b in GRID_SHAPES.values()
        ]
        rows.append([str(count), *(_number(float(value), 3) for value in below)])
    return _markdown(["M", *GRID_SHAPES], rows)


def _number(value: float, digits: int) -> str:
    return f"{value:.{digits}f}".replace("-", "−")


def _markdown(header: list[str], rows: list[list[str]]) -> str:
    lines = [header, ["---", *["---:"] * (len(header) - 1)], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write(records: Sequence[Record], pages: Sequence[Path], figure: Path) -> None:
    """Put the tables into the pages, where these have marks for them, and write the figure."""
    tables = {"ladder": ladder_table(records), "vecchia": vecchia_table(records), "grid": grid_table(records)}
    for page in pages:
        text = page.read_text()
        marked = [name for name in tables if f"<!-- {name} -->" in text and f"<!-- end of {name} -->" in text]
        if not marked:
            raise SystemExit(f"{page} has no place for a table: lines with <!-- ladder --> and <!-- end of ladder -->")
        for name in marked:
            begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
            before, rest = text.split(begin, 1)
            text = f"{before}{begin}{tables[name]}\n{end}{rest.split(end, 1)[1]}"
        with atomic_write(page) as temporary:
            temporary.write_text(text)
    picture(ladder(records), figure)


def picture(found: dict[str, dict[str, float]], path: Path) -> None:
    """A panel for each set: the test log density of each method, and the exact GP's as a line."""
    across = 4
    down = -(-len(found) // across)
    fig = style.canvas(style.WIDTH + 0.8, 0.6 + 1.75 * down)
    for number, (name, row) in enumerate(found.items()):
        ax = fig.add_subplot(down, across, number + 1)
        _panel(ax, name, row, named=number % across == 0)
        if number + across >= len(found):
            ax.set_xlabel("test log density")
    style.save(fig, path)


def _panel(ax, name: str, row: dict[str, float], named: bool) -> None:
    values = [row[method.title] for method in LADDER]
    exact = row.get(EXACT.title)
    ends = [*values, *([exact] if exact is not None else [])]
    room = max(max(ends) - min(ends), 1e-3)
    for place, (method, value) in enumerate(zip(LADDER, values, strict=True)):
        ax.plot([min(ends) - 0.06 * room, value], [place, place], color=method.colour, lw=2, alpha=0.35)
        ax.plot(value, place, "o", ms=8, color=method.colour)
        left = value > min(ends) + 0.55 * room
        ax.annotate(
            _number(value, 2),
            (value, place),
            xytext=(-8 if left else 8, 0),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            fontsize=9,
            color=method.colour,
            bbox={"boxstyle": "square,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.85},
        )
    if exact is not None:
        ax.axvline(exact, color=EXACT.colour, lw=1.2, ls=(0, (4, 2)), zorder=0)
        ax.annotate(
            f"exact {_number(exact, 2)}",
            (exact, -0.75),
            xytext=(-3, 0),
            textcoords="offset points",
            ha="right",
            va="center",
            fontsize=8.5,
            color=EXACT.colour,
        )
    ax.set_xlim(min(ends) - 0.08 * room, max(ends) + 0.12 * room)
    ax.set_ylim(len(LADDER) - 0.5, -1.1)
    ax.set_yticks(range(len(LADDER)), [method.title for method in LADDER] if named else [], fontsize=9)
    ax.tick_params(axis="y", length=0)
    ax.locator_params(axis="x", nbins=4)
    ax.spines["left"].set_visible(False)
    ax.set_title(name)
