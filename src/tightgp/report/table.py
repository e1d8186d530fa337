"""The training inputs as the report needs them: cells in words, typical cells, and rows that vary in one column."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tightgp import cells
from tightgp.report.numbers import number, whole
from tightgp.report.svg import clean, shortened


@dataclass(frozen=True, eq=False)
class Table:
    """A frame or an array ``X`` with the columns that an encoding knows."""

    X: Any
    columns: tuple[Any, ...]

    @property
    def is_array(self) -> bool:
        """Whether the estimator was given an array, and wants one again."""
        return isinstance(self.X, np.ndarray)

    def column(self, i: int) -> Any:
        """Column ``i`` of the encoding."""
        if self.is_array:
            return self.X[:, i]
        return self.X.iloc[:, self._places[i]]

    @property
    def _places(self) -> list[int]:
        places = {str(name): k for k, name in enumerate(self.X.columns)}
        return [places[column.name] for column in self.columns]

    def numbers(self, i: int) -> np.ndarray:
        """Column ``i`` as floats, NaN where missing: numbers, seconds since 1970, days, or codes of levels."""
        column, values = self.columns[i], self.column(i)
        if column.kind == "number":
            return cells.numbers(column.name, values)
        if column.kind == "category":
            codes, _ = cells.words(column.name, values)
            return np.where(codes < 0, np.nan, codes)
        instants, gone = cells.ticks(column.name, values, "duration" if is_duration(column) else "time")
        return np.where(gone, np.nan, instants / (cells.DAY if is_duration(column) else 1e6))

    def typical(self, i: int) -> int:
        """The row that holds the median of column ``i``, or its most frequent level."""
        values = self.numbers(i)
        known = np.flatnonzero(~np.isnan(values))
        if not len(known):
            return 0
        if self.columns[i].kind == "category":
            found, counts = np.unique(values[known], return_counts=True)
            return int(known[np.argmax(values[known] == found[np.argmax(counts)])])
        order = known[np.argsort(values[known], kind="stable")]
        return int(order[(len(order) - 1) // 2])

    def cell(self, i: int, row: int) -> str:
        """One cell in words."""
        column = self.column(i)
        return worded(column[row] if self.is_array else column.iloc[row])

    def repeated(self, rows: list[int], count: int) -> Any:
        """``count`` equal rows: column ``i`` has its cell of row ``rows[i]``."""
        if self.is_array:
            return np.tile(np.array([self.X[row, i] for i, row in enumerate(rows)]), (count, 1))
        import pandas as pd

        places = self._places
        parts = [self.column(i).iloc[[row] * count].reset_index(drop=True) for i, row in enumerate(rows)]
        frame = pd.concat(parts, axis=1)
        frame.columns = [self.X.columns[k] for k in places]
        return frame

    def varied(self, rows: list[int], i: int, values) -> Any:
        """Rows like those of `repeated`, but with ``values`` in column ``i``."""
        out = self.repeated(rows, len(values))
        if self.is_array:
            out[:, i] = values
            return out
        out.isetitem(i, values)
        return out


def is_duration(column) -> bool:
    """Whether a column of times holds durations: these have no origin."""
    return column.kind == "time" and getattr(column, "origin", 0) is None


def worded(value: Any) -> str:
    """A cell as a reader wants it."""
    import pandas as pd

    if value is None or value is pd.NaT or value is pd.NA:
        return "missing"
    if isinstance(value, bool | np.bool_):
        return str(bool(value))
    if isinstance(value, int | np.integer):
        return whole(int(value))
    if isinstance(value, float | np.floating):
        plain = float(value)
        if np.isnan(plain):
            return "missing"
        return whole(int(plain)) if plain.is_integer() and abs(plain) < 1e9 else number(plain, 4)
    if isinstance(value, pd.Timestamp):
        midnight = value == value.normalize()
        return str(value.date()) if midnight else value.strftime("%Y-%m-%d %H:%M")
    return shortened(clean(str(value)), 80)
