"""Predictions along one input at a time, the others held at typical values."""

import warnings
from typing import Any

import numpy as np
import pandas as pd

from tightgp.app.report.content import Curve, Slice
from tightgp.app.report.support import Support, inverse_lengthscales
from tightgp.app.report.table import UNITS, Table, cell_text
from tightgp.app.scores import midpoints

LEVEL = 0.95
_MOST_SLICES, _MOST_LEVELS, _MOST_CLASSES = 6, 12, 4
#: A numeric column with no more distinct values than this is shown at each of them.
_FEW_VALUES = 6
#: A column of times with no more distinct ones than this is shown at these alone.
_FEW_TIMES = 60
_NUM_POINTS, _NUM_TIMES, _NUM_STROKES = 80, 240, 60
#: Training rows that tell where there are some.
_NUM_SUPPORT = 2000


def vary_inputs(estimator, table: Table, targets: np.ndarray) -> tuple[tuple[Slice, ...], tuple[tuple[str, str], ...]]:
    """Slices through the most relevant columns, and the typical value of every column.

    Of classes there is a curve for the second of two, or for each of those with the most ``targets``.
    """
    typical = [table.typical(i) for i in range(len(table.columns))]
    fixed = tuple((column.name, table.cell(typical[i], i)) for i, column in enumerate(table.columns))
    varying = [i for i in by_relevance(estimator) if table.numbers(i).nunique() > 1][:_MOST_SLICES]
    if not varying:
        return (), fixed
    grids = [_grid(table, i) for i in varying]
    typical_row, frames = table.typical_row(), []
    for i, (_, column) in zip(varying, grids, strict=True):
        frames.append(typical_row.iloc[np.zeros(len(column), int)].reset_index(drop=True))
        frames[-1].isetitem(i, column)
    together = pd.concat(frames, ignore_index=True)
    known = _known(estimator, table, together)
    prediction = estimator.predict_distribution(table.as_inputs(together))
    level = None if estimator.task == "classification" else LEVEL
    if level is None:
        frequent = np.argsort(-np.bincount(targets), kind="stable")[:_MOST_CLASSES]
        shown = np.sort(frequent) if len(estimator.classes_) > 2 else [1]
        lines = [(cell_text(estimator.classes_[c]), [prediction.probability[:, c]]) for c in shown]
    else:
        lines = [("", [first_output(values) for values in (prediction.mean, *prediction.interval(LEVEL))])]
    found, start = [], 0
    for fields, column in grids:
        part = slice(start, start := start + len(column))
        curves = tuple(Curve(label, *(_floats(v[part]) for v in values)) for label, values in lines)
        here = () if known[part].all() else tuple(known[part].tolist())
        found.append(Slice(**fields, curves=curves, level=level, known=here))
    return tuple(found), fixed


def _known(estimator, table: Table, frame: pd.DataFrame) -> np.ndarray:
    """Which rows of a frame are like training rows: where inputs go together, one cannot be varied far by itself."""
    rows = np.sort(np.random.default_rng(0).permutation(len(table.frame))[:_NUM_SUPPORT])
    inverse = inverse_lengthscales(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # they were given when the rows were predicted
        training = estimator.encoding_.transform(table.as_inputs(table.frame.iloc[rows].reset_index(drop=True)))
        return Support.of(training * inverse).holds(estimator.encoding_.transform(table.as_inputs(frame)) * inverse)


def by_relevance(estimator) -> list[int]:
    """The positions of the columns, the most relevant first."""
    given = estimator.relevance_ or {}
    columns = estimator.encoding_.columns
    return sorted(range(len(columns)), key=lambda i: -given.get(columns[i].name, 0.0))


def first_output(values) -> np.ndarray:
    """The values (n,) of the first output, given (n,) or (n, P)."""
    return np.asarray(values, float).reshape(len(values), -1)[:, 0]


def _grid(table: Table, i: int) -> tuple[dict[str, Any], pd.Series]:
    """The fields of a slice through column ``i``, and the cells along it."""
    name, kind, column = table.columns[i].name, table.columns[i].cell_kind, table.frame.iloc[:, i]
    values = table.numbers(i)
    if kind == "category" or (kind == "number" and values.nunique() <= _FEW_VALUES):
        rows = [int((values == value).argmax()) for value in sorted(values.value_counts().index[:_MOST_LEVELS])]
        if kind == "category":
            rows = sorted(rows, key=lambda row: table.cell(row, i))
        labels = tuple(table.cell(row, i) for row in rows)
        return {"column": name, "kind": "category", "labels": labels}, column.iloc[rows].reset_index(drop=True)
    low, high = values.quantile([0.01, 0.99])
    if low == high:
        low, high = values.min(), values.max()
    grid = np.linspace(low, high, _NUM_TIMES if kind == "time" else _NUM_POINTS)
    if kind == "time" and values.nunique() <= _FEW_TIMES:
        grid = np.sort(values.dropna().unique())  # between them, the time of the year would be like no other row's
    rug = values.quantile(midpoints(_NUM_STROKES)).unique()
    fields: dict[str, Any] = {"column": name, "kind": kind, "at": _floats(grid), "rug": _floats(rug)}
    if kind == "duration":
        fields |= {"column": f"{name} (days)", "kind": "number"}
    return fields, as_cells(grid, kind, column.dtype)


def as_cells(grid: np.ndarray, kind: str, dtype) -> pd.Series:
    """Numbers of a column as its cells."""
    if kind == "number":
        return pd.Series(grid)
    ticks = pd.Series((grid * UNITS[kind]).astype("int64").astype("m8[us]" if kind == "duration" else "M8[us]"))
    return ticks.dt.to_period(dtype.freq) if isinstance(dtype, pd.PeriodDtype) else ticks


def _floats(values) -> tuple[float, ...]:
    return tuple(map(float, values))
