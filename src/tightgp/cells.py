"""The cells of one column as numbers, as instants or as words: every dtype of pandas in one of three forms.

Errors name the column and, counted from 0, the row.
"""

import datetime
import decimal
from typing import Any

import numpy as np

#: Times are whole microseconds; a day has so many.
DAY = 86_400_000_000
#: Larger numbers are refused, as infinite ones are: their squares must stay finite.
LARGEST = 1e100
_YEARS = np.array(["0001", "10000"], "M8[us]").astype(np.int64)
_CALLED = {"category": "text", "number": "numbers", "time": "dates", "duration": "durations"}


def kind_of(name: str, cells) -> str:
    """What a column holds: "number", "category", "time", "duration", or "empty" where every cell is missing."""
    if isinstance(cells, np.ndarray):
        return "empty" if cells.dtype.kind == "f" and bool(np.isnan(cells).all()) else "number"
    import pandas as pd

    cells = _plain(cells)
    if bool(cells.isna().all()):
        return "empty"
    if isinstance(cells.dtype, pd.CategoricalDtype) or pd.api.types.infer_dtype(cells) == "string":
        return "category"
    types = set(map(type, cells[cells.notna()])) if cells.dtype.kind == "O" else {cells.dtype.type}
    kinds = {t: _kind_of_type(t) for t in types}
    if strange := sorted(t.__name__ for t, kind in kinds.items() if not kind):
        raise ValueError(f"column {name!r} holds {', '.join(strange)}; use numbers, texts, dates or durations")
    found = set(kinds.values())
    if found <= {"number", "category"}:
        return "number" if found == {"number"} else "category"
    if len(found) > 1:
        mixed = " and ".join(sorted(_CALLED[kind] for kind in found))
        raise ValueError(f"column {name!r} mixes {mixed}; make all of its cells one or the other")
    return found.pop()


def _kind_of_type(kind: type) -> str:
    if issubclass(kind, str):
        return "category"
    if issubclass(kind, datetime.date | np.datetime64):
        return "time"
    # To NumPy a timedelta is a whole number, and to Python a truth is.
    if issubclass(kind, datetime.timedelta | np.timedelta64):
        return "duration"
    real = issubclass(kind, int | float | decimal.Decimal | np.bool_ | np.number)
    return "number" if real and not issubclass(kind, np.complexfloating) else ""


def numbers(name: str, cells) -> np.ndarray:
    """A column of numbers as float64, NaN where a cell is missing; infinities are refused."""
    if isinstance(cells, np.ndarray):
        values = np.ascontiguousarray(cells, np.float64)
    else:
        cells = _of_kind(name, cells, "number")
        try:
            values = np.ascontiguousarray(cells.to_numpy(np.float64, na_value=np.nan))
        except (OverflowError, TypeError, ValueError):
            raise ValueError(f"column {name!r} holds numbers that do not fit a 64-bit float") from None
    if np.any(large := np.abs(values) > LARGEST):
        row = int(np.argmax(large))
        raise ValueError(
            f"column {name!r} has {values[row]:g} in row {row} (counted from 0); numbers must be finite and below "
            f"{LARGEST:g} in size: remove the row, or leave the cell empty if it is missing"
        )
    return values


def ticks(name: str, cells, kind: str) -> tuple[np.ndarray, np.ndarray]:
    """A column of dates (since 1970, UTC) or durations in whole microseconds, and where a cell is missing."""
    import pandas as pd

    cells = _of_kind(name, cells, kind)
    try:
        if kind == "duration":
            values = pd.to_timedelta(cells).dt.as_unit("us").to_numpy("m8[us]")
        else:
            times = pd.to_datetime(cells, utc=True) if cells.dtype.kind == "O" else cells
            times = times if times.dt.tz is None else times.dt.tz_convert("UTC").dt.tz_localize(None)
            values = times.dt.as_unit("us").to_numpy("M8[us]")
    except (ValueError, OverflowError) as error:
        raise ValueError(f"column {name!r} holds {_CALLED[kind]} that cannot be used: {error}") from None
    gone, values = np.isnat(values), values.astype(np.int64)
    if kind == "time" and np.any(far := ~gone & ((values < _YEARS[0]) | (values >= _YEARS[1]))):
        row = int(np.argmax(far))
        raise ValueError(f"column {name!r} has a date outside of the years 1 to 9999 in row {row} (counted from 0)")
    return values, gone


def words(name: str, cells) -> tuple[np.ndarray, list[str]]:
    """A column of categories as codes, -1 where a cell is missing, and the text of each code.

    Whole numbers read the same with and without a decimal point: missing cells make floats of them.
    """
    import pandas as pd

    cells = _of_kind(name, cells, "category")
    if isinstance(cells.dtype, pd.CategoricalDtype):
        return cells.cat.codes.to_numpy().astype(np.intp), [_text(level) for level in cells.cat.categories]
    if cells.dtype.kind == "O" and pd.api.types.infer_dtype(cells) != "string":
        # A factorisation takes True and 1 for the same.
        cells = cells.map(_text, na_action="ignore")
    codes, uniques = pd.factorize(cells)
    return codes, [_text(value) for value in uniques]


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float | np.floating) and float(value).is_integer() else str(value)


def _of_kind(name: str, cells, kind: str):
    """The column, refused where it was learnt as another kind."""
    import pandas as pd

    cells, found = _plain(cells), kind_of(name, cells)
    if found == "empty":
        dtype = {"number": "float64", "category": "object", "time": "M8[us]", "duration": "m8[us]"}[kind]
        return pd.Series(np.full(len(cells), None), dtype=dtype)
    if found == kind or (kind, found) == ("category", "number"):
        return cells
    is_text = cells.map(lambda value: isinstance(value, str)) if found == "category" else cells.notna()
    row = int(np.argmax(is_text.to_numpy(bool)))
    raise ValueError(
        f"column {name!r} was learnt as {_CALLED[kind]} but holds {_CALLED[found]} in row {row} (counted from 0): "
        f"{str(cells.iloc[row])[:40]!r}; make it {_CALLED[kind]} again, or leave the cell empty if it is missing"
    )


def _plain(cells):
    """Periods, sparse cells and Arrow's own types as what pandas otherwise has for them."""
    import pandas as pd

    if isinstance(cells.dtype, pd.PeriodDtype):
        return cells.dt.to_timestamp()
    if isinstance(cells.dtype, pd.SparseDtype):
        return cells.sparse.to_dense()
    if isinstance(cells.dtype, pd.ArrowDtype) and cells.dtype.kind not in "biufMm":
        return cells.astype(object)
    return cells
