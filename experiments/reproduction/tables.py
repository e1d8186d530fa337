"""Tables that several experiments share."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from experiments.reproduction.cells import Cell, unbroken
from experiments.reproduction.page import Table, Text
from experiments.reproduction.store import Found, Record


def compared(caption: str, columns: Sequence[str], lines: list[tuple[str, list[Cell]]], digits: int = 3) -> Table:
    """Our numbers, and below them the paper's and the difference in standard errors; more than two are marked."""
    rows = [(label, *(_cell(cell, digits) for cell in cells)) for label, cells in lines if any(c.ours for c in cells)]
    known = any(cell.paper for _, cells in lines for cell in cells)
    below = " Below ours: the paper's, and the difference in standard errors (◆ more than two)." if known else ""
    kept = tuple((label, name, cell) for label, cells in lines for name, cell in zip(columns, cells, strict=True))
    return Table(f"{caption}.{below}", ("", *columns), rows, kept)


def _cell(cell: Cell, digits: int) -> str:
    ours = unbroken(cell.text(digits))
    if cell.paper is None:
        return ours
    difference = f"{cell.difference_text() or '—'}{' ◆' if cell.off else ''}"
    return f"{ours}\n{unbroken(f'paper {cell.paper_text(digits)};')} {unbroken(difference)}"


def beside(found: Found) -> list[Text]:
    """Paragraphs that say on which devices it ran, and whether rows were synthetic."""
    machines = sorted({f"{r['machine']['device']}, JAX {r['machine']['jax']}" for r in found.values()})
    out = [Text(f"{len(found)} runs on: {'; '.join(machines)}.")]
    if any(r.get("made_up") for r in found.values()):
        out.append(Text("The sets' files were not there: these rows are made up, and stand for no real set."))
    return out


def speed(found: Found, labels: Mapping[str, str]) -> Table:
    """Seconds of a training, which may include compilation, of those that shared the device with the fewest others."""
    names = list(dict.fromkeys(run.set for run in found))
    keys = list(dict.fromkeys((run.method, run.inducing) for run in found))
    keys.sort(key=lambda key: (list(labels).index(key[0]) if key[0] in labels else 99, key[1] or 0))
    rows = []
    for method, m in keys:
        cells = [seconds(found.of(set=name, method=method, inducing=m)) or "—" for name in names]
        rows.append((f"{labels.get(method, method)}{'' if m is None else f', M = {m}'}", *cells))
    return Table(
        "Seconds of one training, with compilation where its programs were not kept: median over the splits, without "
        "those that were broken off and gone on with. Side by side: runs that shared the device, or at least those of "
        "one command",
        ("", *names),
        rows,
    )


def seconds(records: Iterable[Record]) -> str:
    """The median over uninterrupted trainings that shared the device with the fewest others."""
    whole = [r for r in records if not r["how"]["resumed"]]
    if not whole:
        return ""
    fewest = min(r["how"]["side_by_side"] for r in whole)
    used = [r for r in whole if r["how"]["side_by_side"] == fewest]
    guess = "≈ " if any(r.get("extrapolated") for r in used) else ""
    shared = "" if fewest == 1 else f" ({fewest} side by side)"
    shared += " on a CPU" if all(r["machine"]["device"] == "cpu" for r in used) else ""
    return f"{guess}{np.median([r['seconds'] for r in used]):.1f} s{shared}"
