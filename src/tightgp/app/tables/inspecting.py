"""A whole table inspected: every finding at once, the columns as they are read, and how to read other rows alike."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from tightgp.app.tables.errors import TableError
from tightgp.app.tables.findings import FEW_ROWS, Choices, Finding, inspect_column, option
from tightgp.app.tables.readings import ANY, with_columns
from tightgp.estimators.reading.texts import Reading

#: More problems than these are not listed in one line.
_MOST_PROBLEMS = 6
#: A column with as many values as the target, up to this number, and one for each of them is the target in other words.
_MOST_KINDS = 50


@dataclass(frozen=True, eq=False)
class Inspection:
    """A table as it is read.

    Attributes:
        frame: the columns that are used, read as what they are.
        findings: all that was noticed, in the order of the columns.
        readings: how columns of other rows are read alike.
        times: the names of columns that hold dates.
    """

    frame: pd.DataFrame
    findings: tuple[Finding, ...]
    readings: dict[str, Reading]
    times: tuple[str, ...]

    @property
    def problems(self) -> list[Finding]:
        """The findings for which the table is refused."""
        return [one for one in self.findings if one.kind == "problem"]

    def check(self, path) -> None:
        """Refuse the table if there are problems: all of them in one line."""
        if self.problems:
            shown = "; ".join(map(str, self.problems[:_MOST_PROBLEMS]))
            more = len(self.problems) - _MOST_PROBLEMS
            raise TableError(path, shown + (f"; and {more} more: see `tightgp inspect`" if more > 0 else ""))


def inspect_table(frame: pd.DataFrame, target: str | None = None, choices: Choices | None = None) -> Inspection:
    """Inspect every column of a table; ``target`` is the name of the column to predict.

    >>> import pandas as pd
    >>> from tightgp.app.tables import inspect_table
    >>> found = inspect_table(pd.DataFrame({"price": ["$1,250", "$980.50"], "share": ["5%", "12%"]}))
    >>> found.frame["price"].tolist()
    [1250.0, 980.5]
    >>> print(*found.findings, sep="\\n")
    price: texts such as '$1,250' are money in $, read as numbers (change: --as price=text)
    share: texts such as '5%' are percent, read as the number before the sign (change: --as share=text)
    """
    choices = choices or Choices()
    findings, read, left_out = [], {}, []
    readings = {ANY: Reading("missing", choices.missing)} if choices.missing else {}
    names = [str(name) for name in frame.columns]
    if unknown := [name for name in choices.kinds if name not in names]:
        raise TableError(None, f"--as: there is no column {unknown[0]!r}; the columns are {', '.join(names[:20])}")
    for name in frame.columns:
        found = inspect_column(frame, name, choices, is_target=name == target)
        read[name] = found.column
        findings += found.findings
        if found.readings:
            readings[str(name)] = found.readings[0]
        is_open = not found.left_out and name != target and choices.kinds.get(str(name)) != "keep"
        useless = _useless(read[name], str(name), None if target is None else frame[target]) if is_open else None
        findings += [useless] if useless else []
        if found.left_out or useless:
            left_out.append(name)
    inputs = [name for name in frame.columns if name != target]
    if set(inputs) <= set(left_out):
        # Better than nothing: what looks like an index or an identifier, if it is of numbers.
        kept = [name for name in inputs if read[name].dtype.kind in "iuf" and read[name].nunique() > 1]
        left_out = [name for name in left_out if name not in kept]
        findings = [one for one in findings if one.column not in map(str, kept)]
    if inputs and set(inputs) <= set(left_out):
        findings.append(Finding("all columns", "nothing is left to predict from", option(inputs[0], "keep"), "problem"))
    made = with_columns(frame, read).drop(columns=left_out)
    made.attrs = dict(frame.attrs)
    times = tuple(str(name) for name in made.columns if made[name].dtype.kind == "M")
    return Inspection(made, tuple(findings), readings, times)


def _useless(column: pd.Series, name: str, target: pd.Series | None) -> Finding | None:
    """Why a column is left out: it has no cells, one value, or is the target itself."""
    present = column.dropna()
    if not len(present):
        return Finding(name, "has no value in any row, left out", "", "left out")
    if len(column) < 2:
        return None
    if not column.isna().any() and len(column) >= FEW_ROWS and bool((present == present.iloc[0]).all()):
        return Finding(name, f"is {str(present.iloc[0])[:40]!r} in every row, left out", "", "left out")
    if target is None or len(column) < FEW_ROWS:
        return None
    numbers = {column.dtype.kind, target.dtype.kind} <= set("iuf")
    if numbers and np.array_equal(column.to_numpy(float), target.to_numpy(float)):
        return Finding(name, "is the target itself, left out", option(name, "keep"), "left out")
    kinds = target.nunique()
    few = kinds <= min(_MOST_KINDS, len(column) / 5)
    if few and kinds == column.nunique() == len(pd.concat([column, target], axis=1).drop_duplicates()):
        return Finding(name, "says the target in other words, left out", option(name, "keep"), "left out")
    return None
