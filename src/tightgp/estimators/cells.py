"""Read the columns of a table: any dtype of NumPy or pandas as numbers, times, durations or categories.

Errors name the column and, counted from 0, the row.
"""

import datetime
import decimal
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.sparse import issparse

#: A day in microseconds, the unit of times and durations.
DAY = 86_400_000_000
#: Larger numbers are refused, as infinite ones are: their squares must stay finite.
LARGEST = 1e100
_YEARS = np.array(["0001", "10000"], "M8[us]").astype(np.int64)
#: The kinds of cells, and their names in messages.
KIND_NAMES = {"category": "text", "number": "numbers", "time": "dates", "duration": "durations"}
#: The types of the cells of each kind. The first kind that fits counts: NumPy's timedelta is one of its integers too.
_TYPES: dict[str, tuple[type, ...]] = {
    "category": (str,),
    "time": (datetime.date, np.datetime64),
    "duration": (datetime.timedelta, np.timedelta64),
    "number": (int, float, decimal.Decimal, np.bool_, np.integer, np.floating),
}


class Cells(NamedTuple):
    """The cells of one column.

    Attributes:
        kind: "number", "category", "time" or "duration"; "empty" if every cell is missing.
        values: (n,) numbers; positions in ``levels`` for categories; microseconds for times (since 1970, UTC) and
            durations. A missing number is NaN; other missing cells have any value, but categories -1.
        missing: (n,) whether a cell is missing.
        levels: the text of each category; several may have the same.
        ordered: whether the levels are in order, lowest first.
    """

    kind: str
    values: np.ndarray
    missing: np.ndarray
    levels: Sequence[str] = ()
    ordered: bool = False


#: A sparse matrix of more numbers than this is refused: it would be made dense.
_MOST_DENSE = 2 * 10**8


def as_table(X: Any) -> Any:
    """A polars, pyarrow or other frame as a pandas one, a sparse matrix as an array; anything else as it is."""
    if isinstance(X, pd.DataFrame | np.ndarray | list | tuple):
        return X
    if issparse(X):
        if np.prod(X.shape, dtype=float) > _MOST_DENSE:
            raise ValueError(f"X is a sparse matrix of shape {X.shape}, too large to be made dense; pass fewer columns")
        return X.toarray()
    if hasattr(X, "__dataframe__") or hasattr(X, "__arrow_c_stream__"):
        import narwhals as nw

        frame = nw.from_native(X, eager_only=True, pass_through=True)
        return frame.to_pandas() if isinstance(frame, nw.DataFrame) else X
    return X


def is_frame(X) -> bool:
    """Whether ``X`` is a table with named columns."""
    return hasattr(X, "iloc") and hasattr(X, "columns")


def columns_of(X) -> dict[str, Any]:
    """The columns of a table by name: the series of a pandas DataFrame, or those of a 2-D array as x0, x1, ..."""
    if not is_frame(X):
        is_array = isinstance(X, np.ndarray)
        if not is_array or X.ndim != 2 or X.dtype.kind not in "biuf":
            given = f"shape {X.shape} of {X.dtype}" if is_array else type(X).__name__
            raise ValueError(f"X must be a 2-D array of numbers or a pandas DataFrame, got {given}")
        return {f"x{i}": X[:, i] for i in range(X.shape[1])}
    names = X.columns.map(str)
    if names.has_duplicates:
        repeated = sorted(set(names[names.duplicated()]))
        raise ValueError(f"X has more than one column called {first_few(repeated)}; rename or drop all but one")
    return {name: X.iloc[:, i] for i, name in enumerate(names)}


def first_few(values, count: int = 5) -> str:
    """The first few values, for a message."""
    return ", ".join(map(repr, values[:count])) + (", ..." if len(values) > count else "")


def read(name: str, column, kind: str | None = None) -> Cells:
    """Read a column of an array or frame.

    Args:
        name: the column's name, for messages.
        column: an array of numbers, or a pandas Series.
        kind: the kind that the training rows had; a column of another kind is refused. None takes any kind.
    """
    column = _as_plain(pd.Series(column, copy=False))
    found = _kind_of(name, column)
    kind = kind or found
    if found == "empty":
        filler = np.nan if kind in ("number", "empty") else -1
        return Cells(kind, np.full(len(column), filler), np.ones(len(column), bool))
    if found != kind and (kind, found) != ("category", "number"):
        raise _changed_kind(name, column, kind, found)
    if kind == "category":
        return _read_categories(column)
    if kind == "number":
        return _read_numbers(name, column)
    return _read_times(name, column, kind)


def _kind_of(name: str, column) -> str:
    if bool(column.isna().all()):
        return "empty"
    if isinstance(column.dtype, pd.CategoricalDtype) or pd.api.types.infer_dtype(column) == "string":
        return "category"
    types = set(map(type, column[column.notna()])) if column.dtype.kind == "O" else {column.dtype.type}
    kinds = {t: next((kind for kind in _TYPES if issubclass(t, _TYPES[kind])), "") for t in types}
    if unknown := sorted(t.__name__ for t, kind in kinds.items() if not kind):
        raise ValueError(f"column {name!r} holds {', '.join(unknown)}; use numbers, texts, dates or durations")
    found = set(kinds.values())
    if found == {"number", "category"}:
        return "category"
    if len(found) > 1:
        mixed = " and ".join(sorted(KIND_NAMES[kind] for kind in found))
        raise ValueError(f"column {name!r} mixes {mixed}; make all of its cells one or the other")
    return found.pop()


def _changed_kind(name: str, column, kind: str, found: str) -> ValueError:
    is_text = column.map(lambda value: isinstance(value, str)) if found == "category" else column.notna()
    row = int(np.argmax(is_text.to_numpy(bool)))
    return ValueError(
        f"column {name!r} was learnt as {KIND_NAMES[kind]} but holds {KIND_NAMES[found]} in row {row} (counted from 0):"
        f" {str(column.iloc[row])[:40]!r}; make it {KIND_NAMES[kind]} again, or leave the cell empty if it is missing"
    )


def _read_numbers(name: str, column) -> Cells:
    try:
        values = np.ascontiguousarray(column.to_numpy(np.float64, na_value=np.nan))
    except (OverflowError, TypeError, ValueError):
        raise ValueError(f"column {name!r} holds numbers that do not fit a 64-bit float") from None
    if np.any(large := np.abs(values) > LARGEST):
        row = int(np.argmax(large))
        raise ValueError(
            f"column {name!r} has {values[row]:g} in row {row} (counted from 0); numbers must be finite and below "
            f"{LARGEST:g} in size: remove the row, or leave the cell empty if it is missing"
        )
    return Cells("number", values, np.isnan(values))


def _read_times(name: str, column, kind: str) -> Cells:
    try:
        if kind == "duration":
            values = pd.to_timedelta(column).dt.as_unit("us").to_numpy("m8[us]")
        else:
            times = pd.to_datetime(column, utc=True) if column.dtype.kind == "O" else column
            times = times if times.dt.tz is None else times.dt.tz_convert("UTC").dt.tz_localize(None)
            values = times.dt.as_unit("us").to_numpy("M8[us]")
    except (ValueError, OverflowError) as error:
        raise ValueError(f"column {name!r} holds {KIND_NAMES[kind]} that cannot be used: {error}") from None
    missing, values = np.isnat(values), values.astype(np.int64)
    if kind == "time" and np.any(far := ~missing & ((values < _YEARS[0]) | (values >= _YEARS[1]))):
        row = int(np.argmax(far))
        raise ValueError(f"column {name!r} has a date outside of the years 1 to 9999 in row {row} (counted from 0)")
    return Cells(kind, values, missing)


def _read_categories(column) -> Cells:
    if isinstance(column.dtype, pd.CategoricalDtype):
        codes, values = column.cat.codes.to_numpy().astype(np.intp), column.cat.categories
    else:
        if column.dtype.kind == "O" and pd.api.types.infer_dtype(column) != "string":
            column = column.map(_text, na_action="ignore")  # to factorize, True and 1 are the same
        codes, values = pd.factorize(column)
    ordered = isinstance(column.dtype, pd.CategoricalDtype) and bool(column.cat.ordered) and len(values) > 2
    return Cells("category", codes, codes < 0, [_text(value) for value in values], ordered)


def _text(value: Any) -> str:
    """The text of a cell. Whole numbers have no decimal point: missing cells turn integers into floats."""
    return str(int(value)) if isinstance(value, float | np.floating) and float(value).is_integer() else str(value)


def _as_plain(column):
    """Replace periods, sparse cells and Arrow's own types by what pandas otherwise has for them."""
    if isinstance(column.dtype, pd.PeriodDtype):
        return column.dt.to_timestamp()
    if isinstance(column.dtype, pd.SparseDtype):
        return column.sparse.to_dense()
    if isinstance(column.dtype, pd.ArrowDtype) and column.dtype.kind not in "biufMm":
        return column.astype(object)
    return column
