"""Predictions along one input at a time, the others at typical cells, and how much each input matters."""

from typing import Any

import numpy as np

from tightgp import cells
from tightgp.report.content import Curve, Named, Relevance, Slice
from tightgp.report.svg import clean
from tightgp.report.table import Table, is_duration, worded

MOST_SLICES, MOST_LEVELS = 6, 12
#: A numeric column with no more values than this is drawn at each of them.
_FEW = 6
_POINTS, _TIME_POINTS, _RUG = 80, 240, 60
LEVEL = 0.95


def relevance(estimator) -> tuple[Relevance, ...]:
    """Columns by relevance, the most relevant first."""
    given = getattr(estimator, "relevance_", None) or {}
    known = [Relevance(clean(str(name)), float(value)) for name, value in given.items() if np.isfinite(value)]
    return tuple(sorted(known, key=lambda one: -one.value))


def slices(estimator, table: Table, classes: list[int]) -> tuple[tuple[Slice, ...], tuple[Named, ...]]:
    """Slices through the most relevant columns, and where the columns stand that do not vary.

    ``classes`` are the numbers of those that get a curve, where there are classes.
    """
    given = getattr(estimator, "relevance_", None) or {}
    order = sorted(range(len(table.columns)), key=lambda i: -float(given.get(table.columns[i].name, 0.0)))
    typical = [table.typical(i) for i in range(len(table.columns))]
    found: list[Slice] = []
    for i in order:
        values = table.numbers(i)
        if len(np.unique(values[~np.isnan(values)])) > 1:
            found.append(_slice(estimator, table, classes, typical, i, values))
        if len(found) == MOST_SLICES:
            break
    fixed = tuple(Named(clean(column.name), table.cell(i, typical[i])) for i, column in enumerate(table.columns))
    return tuple(found), fixed


def _slice(estimator, table: Table, classes: list[int], typical: list[int], i: int, values: np.ndarray) -> Slice:
    column = table.columns[i]
    name = clean(column.name)
    known = values[~np.isnan(values)]
    distinct, counts = np.unique(known, return_counts=True)
    if column.kind == "category" or (column.kind == "number" and len(distinct) <= _FEW):
        common = np.sort(np.argsort(-counts, kind="stable")[:MOST_LEVELS])
        rows = [int(np.argmax(values == value)) for value in distinct[common]]
        places = table.column(i)
        at: Any = places[rows] if table.is_array else places.iloc[rows].reset_index(drop=True)
        labels = tuple(table.cell(i, row) for row in rows)
        if column.kind == "category" and common.size < MOST_LEVELS:
            by_name = sorted(range(len(rows)), key=lambda k: labels[k])
            at = at[by_name] if table.is_array else at.iloc[by_name].reset_index(drop=True)
            labels = tuple(labels[k] for k in by_name)
        curves, level = _curves(estimator, table.varied(typical, i, _filled(at)), len(labels), classes)
        return Slice(name, "category", (), labels, curves, level, ())
    low, high = np.quantile(known, [0.01, 0.99])
    if not high > low:
        low, high = known.min(), known.max()
    grid = np.linspace(low, high, _TIME_POINTS if column.kind == "time" else _POINTS)
    inputs = table.varied(typical, i, _filled(_as_cells(column, grid)))
    curves, level = _curves(estimator, inputs, len(grid), classes)
    rug = np.unique(np.quantile(known, (np.arange(_RUG) + 0.5) / _RUG))
    kind = "time" if column.kind == "time" and not is_duration(column) else "number"
    name = f"{name} (days)" if is_duration(column) else name
    return Slice(name, kind, _floats(grid), (), curves, level, _floats(rug))


def _as_cells(column, grid: np.ndarray) -> Any:
    """A grid of numbers, seconds or days as cells of the column's kind."""
    if column.kind == "number":
        return grid
    import pandas as pd

    if is_duration(column):
        return pd.Series((grid * cells.DAY).astype("int64").astype("m8[us]"))
    return pd.Series((grid * 1e6).astype("int64").astype("M8[us]"))


def _filled(at) -> Any:
    """Cells up to one number for all slices, the last repeated: for each number of rows JAX compiles anew."""
    places = np.minimum(np.arange(_TIME_POINTS), len(at) - 1)
    return at[places] if isinstance(at, np.ndarray) else at.iloc[places].reset_index(drop=True)


def _curves(estimator, X, count: int, classes: list[int]) -> tuple[tuple[Curve, ...], float | None]:
    """The curves over the first ``count`` rows, and the level of their bands."""
    if classes:
        p = np.asarray(estimator.predict_proba(X), float)[:count]
        return tuple(Curve(worded(estimator.classes_[c]), _floats(p[:, c]), (), ()) for c in classes), None
    mean = output(estimator.predict(X))[:count]
    low, high = (output(end)[:count] for end in estimator.predict_interval(X, level=LEVEL))
    return (Curve("", _floats(mean), _floats(low), _floats(high)),), LEVEL


def output(values, k: int = 0) -> np.ndarray:
    """(n,) as it is, or column ``k`` of (n, P)."""
    array = np.asarray(values, float)
    return array if array.ndim == 1 else array[:, k]


def _floats(values) -> tuple[float, ...]:
    return tuple(map(float, values))
