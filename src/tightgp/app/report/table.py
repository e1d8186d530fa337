"""Input tables as the report needs them: columns as numbers, cells as text, typical cells."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import is_bool, is_float, is_integer

from tightgp import checks
from tightgp.app.report.numbers import number, shortened, whole
from tightgp.estimators import cells
from tightgp.estimators.encoding import Column

#: Microseconds in the unit of a column's numbers.
UNITS = {"time": 1_000_000, "duration": cells.DAY}


@dataclass(frozen=True, eq=False)
class Table:
    """The columns that an encoding knows, in its order. ``is_array`` says that the estimator takes arrays."""

    frame: pd.DataFrame
    columns: tuple[Column, ...]
    is_array: bool

    @classmethod
    def of(cls, name: str, X, columns: tuple[Column, ...]) -> "Table":
        """The table of inputs ``X``, which errors call ``name``."""
        names, X = [column.name for column in columns], cells.as_table(X)
        if not cells.is_frame(X):
            X = np.asarray(X)
            if X.ndim != 2 or X.shape[1] != len(names):
                raise ValueError(f"{name} must have shape (n, {len(names)}), as in training; got {X.shape}")
            return cls(pd.DataFrame(X, columns=names), columns, True)
        places = {str(label): k for k, label in enumerate(X.columns)}
        if lacking := [name for name in names if name not in places]:
            raise ValueError(f"{name} lacks the column(s) {', '.join(map(repr, lacking[:5]))} of the training rows")
        read = {column.name: column.as_read(X.iloc[:, places[column.name]]) for column in columns}
        return cls(pd.DataFrame(read).reset_index(drop=True), columns, False)

    def rows(self, mask: np.ndarray) -> "Table":
        """The table of some of the rows."""
        return Table(self.frame[mask].reset_index(drop=True), self.columns, self.is_array)

    def as_inputs(self, frame: pd.DataFrame) -> Any:
        """Rows with the columns of this table, as the estimator takes them."""
        return frame.to_numpy() if self.is_array else frame

    def numbers(self, i: int) -> pd.Series:
        """Column ``i`` as floats, NaN where missing: numbers, seconds since 1970, days, or codes of levels."""
        found = self.columns[i].cells(self.frame.iloc[:, i])
        return pd.Series(np.where(found.missing, np.nan, found.values / UNITS.get(found.kind, 1)))

    def typical(self, i: int) -> int:
        """The number of a row that holds the median of column ``i``, or its most frequent level."""
        values = self.numbers(i)
        is_category = self.columns[i].kind == "category"
        value = values.mode().min() if is_category else values.quantile(0.5, interpolation="lower")
        return int((values == value).argmax())

    def typical_row(self) -> pd.DataFrame:
        """One row of typical cells."""
        cells = [self.frame.iloc[[self.typical(i)], [i]].reset_index(drop=True) for i in range(len(self.columns))]
        return pd.concat(cells, axis=1)

    def cell(self, row: int, i: int) -> str:
        """One cell as text."""
        return cell_text(self.frame.iloc[row, i])


def read_targets(name: str, y, table: Table, estimator) -> tuple[np.ndarray, list[str]]:
    """Targets as numbers (n,) or (n, P), or as positions of classes (n,), and the names of the outputs.

    The position of a class that the estimator does not know is -1.
    """
    targets = np.asarray(y)
    if targets.ndim not in (1, 2) or len(targets) != len(table.frame) or not targets.size:
        raise ValueError(f"{name} must have a target for each of {len(table.frame)} row(s), got shape {targets.shape}")
    names = [str(column) for column in getattr(y, "columns", [getattr(y, "name", None) or "the target"])]
    if estimator.task == "classification":
        return pd.Index(estimator.classes_).get_indexer(pd.Index(targets.reshape(len(targets)))), names[:1]
    targets = np.asarray(checks.floats(name, y), float)
    checks.finite(name, targets)
    if targets.ndim == 2 and len(names) != targets.shape[1]:
        names = [f"output {k + 1}" for k in range(targets.shape[1])]
    return targets, names


def cell_text(value: Any) -> str:
    """A cell, or a label of a class, as text."""
    if pd.isna(value):
        return "missing"
    if is_bool(value):
        return str(value)
    if is_integer(value) or (is_float(value) and float(value).is_integer() and abs(value) < 1e9):
        return whole(int(value))
    if is_float(value):
        return number(float(value), 4)
    if isinstance(value, pd.Timestamp):
        return str(value.date()) if value == value.normalize() else value.strftime("%Y-%m-%d %H:%M")
    return shortened(str(value), 80)
