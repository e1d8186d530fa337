"""Where predictions fail: the parts of the inputs' ranges in which held-out errors are largest."""

from itertools import pairwise

import numpy as np

from tightgp.app.report.content import Region
from tightgp.app.report.numbers import interval
from tightgp.app.report.table import UNITS, Table

#: Parts of a column: of numbers that many with equally many rows, and levels; each has at least so many rows.
_PARTS, _LEAST_ROWS = 5, 15
#: How many are shown, and how much larger than elsewhere errors must be there: in standard errors, and as a ratio.
_MOST, _STANDARD_ERRORS, _RATIO = 5, 3.5, 1.15
#: A loss this many times its usual size counts no more than that: one row is no region.
_CLIPPED = 25.0


def worst_regions(table: Table, columns: list[int], losses: np.ndarray, inside: np.ndarray) -> tuple[Region, ...]:
    """Parts of single columns in which the mean of ``losses`` (n,) is larger than chance explains, the largest first.

    ``inside`` (n,) says which rows are inside their widest interval, or predicted correctly.
    """
    usual = float(np.mean(losses))
    if not usual > 0:
        return ()
    bounded = np.minimum(losses, _CLIPPED * usual)
    centre, spread = float(np.mean(bounded)), float(np.std(bounded))
    found = []
    for i in columns:
        for text, mask in _parts(table, i):
            count = int(mask.sum())
            if not _LEAST_ROWS <= count <= 0.7 * len(mask):
                continue
            mean = float(np.mean(bounded[mask]))
            far = (mean - centre) * np.sqrt(count) / max(spread, 1e-300)
            if far > _STANDARD_ERRORS and mean > _RATIO**2 * centre:
                there, share = float(np.mean(losses[mask])), float(np.mean(inside[mask]))
                found.append((far, Region(table.columns[i].name, text, count, there / usual, share)))
    # The clearest of each column.
    best: dict[str, tuple[float, Region]] = {}
    for far, region in found:
        if far > best.get(region.column, (0.0, None))[0]:
            best[region.column] = far, region
    return tuple(region for _, region in sorted(best.values(), key=lambda one: -one[0])[:_MOST])


def _parts(table: Table, i: int):
    """Parts of a column as a text and a mask (n,) of rows."""
    values, kind = table.numbers(i), table.columns[i].cell_kind
    if values.isna().any():
        yield "missing", values.isna().to_numpy()
    if kind == "category" or values.nunique() <= _PARTS:
        for value in values.value_counts().index[:20]:
            mask = (values == value).to_numpy()
            yield table.cell(int(mask.argmax()), i), mask
        return
    edges = np.unique(values.quantile(np.arange(_PARTS + 1) / _PARTS))
    for k, (low, high) in enumerate(pairwise(edges)):
        mask = ((values >= low) if k == 0 else (values > low)) & (values <= high)
        yield _range(low, high, kind), mask.to_numpy()


def _range(low: float, high: float, kind: str) -> str:
    if kind == "time":
        days = (np.datetime64(int(edge * UNITS["time"]), "us").astype("M8[D]") for edge in (low, high))
        return " to ".join(map(str, days))
    return interval(low, high) + (" days" if kind == "duration" else "")
