"""What is unusual in the columns of a table, what is done about it, and the option that changes it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from tightgp.app.tables.errors import quoted
from tightgp.app.tables.orders import known_order
from tightgp.app.tables.rows import row_number
from tightgp.estimators.reading import dates
from tightgp.estimators.reading.amounts import read_amounts
from tightgp.estimators.reading.texts import MOSTLY, WORDS, Reading, are_amounts, as_text, date_formats, without

#: Fewer rows than these say nothing about identifiers.
FEW_ROWS = 20
#: Larger whole numbers are not told apart by 64-bit floats.
_LARGEST_WHOLE = 2**53
_SENTINELS = (-1, -9, -99, -999, -9999, -99999, -32768, 99, 999, 9999, 99999, 999999)
_ID_NAME = re.compile(
    r"(^|[_\s.-])(id|uuid|guid|key|index|idx|rowid|row|nr|no|number|code|ref|sku|isbn|iban)([_\s.-]|$)|(?<=[a-z])ID$",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Finding:
    """One thing that was noticed.

    Attributes:
        column: the column's name.
        text: what was noticed and what is done about it.
        change: the option that changes it, as it is typed; empty if there is none.
        kind: "read" (read as something else), "left out", "note", or "problem" (the table is refused).
    """

    column: str
    text: str
    change: str = ""
    kind: str = "read"

    def __str__(self):
        return f"{self.column}: {self.text}" + (f" (change: {self.change})" if self.change else "")


@dataclass(frozen=True)
class Choices:
    """What the user decided.

    Attributes:
        kinds: for some columns what they are: "number", "text", "date", "keep", or levels such as "low<mid<high".
        date_format: the format of dates, such as "%d/%m/%Y".
        decimal: "point" or "comma".
        missing: texts or numbers that stand for a missing cell.
    """

    kinds: dict[str, str] = field(default_factory=dict)
    date_format: str = ""
    decimal: str = ""
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Inspected:
    """How one column is to be read, what it holds then, and what was noticed."""

    column: pd.Series
    findings: list[Finding]
    readings: list[Reading]
    left_out: bool = False


def option(name: str, kind: str) -> str:
    """The option ``--as`` for a column, as it is typed."""
    text = f"{name}={kind}"
    return f"--as '{text}'" if re.search(r"[^\w=<%/.-]", text) or "<" in text else f"--as {text}"


def inspect_column(frame: pd.DataFrame, name: str, choices: Choices, is_target: bool = False) -> Inspected:
    """Decide how a column is read, by its cells and the user's choices."""
    column, wanted = frame[name], choices.kinds.get(name, "")
    column = without(column, choices.missing)
    if wanted == "keep" or column.dtype.kind in "mM":
        return Inspected(column, [], [])
    if wanted == "text":
        return Inspected(as_text(column), [], [Reading("text")])
    if "<" in wanted:
        return _read_as(frame, column, Reading("ordered", tuple(map(str.strip, wanted.split("<")))), [])
    if wanted == "date" or (wanted != "number" and column.dtype.kind in "iuf"):
        numbers = _finite(column) if column.dtype.kind in "iuf" else np.zeros(0)
        whole = len(numbers) > 0 and bool(np.all(numbers % 1 == 0))
        if whole and not is_target and (wanted == "date" or dates.are_compact_dates(name, numbers)):
            text = f"whole numbers such as {int(numbers[0])} are dates"
            note = [Finding(name, text, option(name, "number"))] if not wanted else []
            return _read_as(frame, as_text(column), Reading("date", (choices.date_format or "%Y%m%d",)), note)
    if column.dtype.kind in "iuf":
        return _inspect_numbers(column, name, wanted, is_target)
    if column.dtype.kind == "b" or isinstance(column.dtype, pd.CategoricalDtype):
        return Inspected(column, [], [])
    return _inspect_text(frame, column, name, choices, is_target)


def _inspect_text(frame, column: pd.Series, name: str, choices: Choices, is_target: bool) -> Inspected:
    wanted = choices.kinds.get(name, "")
    present = column.dropna()
    if not len(present) or not all(isinstance(value, str) for value in present.head(1000)):
        return Inspected(column, [], [])
    counted = present.value_counts()
    levels, counts = [str(level) for level in counted.index], counted.to_numpy()
    amounts = read_amounts(levels, choices.decimal)
    if wanted == "number" or (wanted != "date" and are_amounts(amounts, counts)):
        return _read_amounts(frame, column, name, amounts, levels)
    if wanted in ("", "date"):
        forms = date_formats(levels, choices.date_format, MOSTLY if not wanted else 0.0)
        if len(forms) > 1:
            change = f"--date-format '{forms[0]}' or --date-format '{forms[1]}'"
            problem = f"dates such as {quoted(levels[0])} could be read with the day or the month first"
            return Inspected(column, [Finding(name, problem, change, "problem")], [])
        if forms:
            note = [Finding(name, f"dates such as {quoted(levels[0])}, read as {forms[0]}", option(name, "text"))]
            return _read_as(frame, column, Reading("date", (forms[0],)), note)
        if wanted == "date":
            change = "--date-format with its format, such as '%d/%m/%Y'"
            return Inspected(column, [Finding(name, f"{quoted(levels[0])} is no date", change, "problem")], [])
    folded = {level.strip().casefold() for level in levels}
    if not is_target and 2 <= len(folded) < len(levels) and any(folded <= set(pair) for pair in WORDS):
        note = [
            Finding(name, f"{' and '.join(sorted(folded))} in several spellings are one each", option(name, "text"))
        ]
        return _read_as(frame, column, Reading("words"), note)
    if not is_target and (order := known_order(folded)):
        listed = "<".join(order)
        note = [Finding(name, f"its levels have an order: {listed}", option(name, "text"))]
        return _read_as(frame, column, Reading("ordered", order), note)
    if not is_target and len(column) >= FEW_ROWS and len(levels) > 0.95 * len(present):
        text = f"{len(levels):,} different texts in {len(present):,} rows, such as {quoted(levels[0])}: an identifier"
        return _leave_out(column, name, text)
    return Inspected(column, [], [])


def _read_amounts(frame, column: pd.Series, name: str, amounts, levels: list[str]) -> Inspected:
    if amounts.mixed:
        return _problem(column, name, f"holds {amounts.mixed}, which are not the same unit", option(name, "text"))
    if not amounts.decimal:
        example = next((level for level in levels if "," in level or "." in level), levels[0])
        problem = f"{quoted(example)} may have a decimal mark or thousands"
        return _problem(column, name, problem, "--decimal point or --decimal comma")
    what = {"%": "percent, read as the number before the sign", "": "read as numbers"}.get(amounts.unit)
    what = what or f"money in {amounts.unit}, read as numbers"
    if amounts.decimal == "comma":
        what += " with a decimal comma"
    found = _read_as(frame, column, Reading("amount", (amounts.decimal,)), [], levels)
    if any(one.kind == "problem" for one in found.findings):
        return found
    example = next((level for level in levels if not level.replace(".", "").isdigit()), levels[0])
    note = Finding(name, f"texts such as {quoted(example)} are {what}", option(name, "text"))
    return Inspected(found.column, [note], found.readings)


def _read_as(frame, column: pd.Series, reading: Reading, notes: list[Finding], levels: Sequence[str] = ()) -> Inspected:
    """The column as it is read; a problem where some cells cannot be."""
    name = str(column.name)
    read, lost = reading.apply(column)
    if not lost.any():
        return Inspected(read, notes, [reading])
    position, count = int(np.argmax(lost)), int(lost.sum())
    row = row_number(frame, frame.index[position] if isinstance(frame.index[position], int | np.integer) else position)
    cell = str(column.iloc[position])
    what = {"amount": "no number", "date": f"no date as in {reading.arguments[:1]}"}.get(reading.kind, "no such level")
    text = f"row {row}: {quoted(cell)} is {what}, but {len(column) - count - int(column.isna().sum())} other cells are"
    change = f"--missing {cell.strip()!r} if it stands for a missing cell, or {option(name, 'text')} for categories"
    return _problem(column, name, text, change)


def _inspect_numbers(column: pd.Series, name: str, wanted: str, is_target: bool) -> Inspected:
    values = _finite(column)
    n, whole = len(column), len(values) > 0 and bool(np.all(values % 1 == 0))
    if not wanted and not is_target and whole and n >= FEW_ROWS and len(values) == n:
        if np.all(np.diff(values) == 1) and values[0] in (0, 1):
            return _leave_out(column, name, f"counts the rows from {int(values[0])}: an index")
        distinct = len(np.unique(values))
        if np.abs(values).max() > _LARGEST_WHOLE:
            return _leave_out(column, name, f"whole numbers of {len(str(int(values.max())))} digits: an identifier")
        if distinct == n and _ID_NAME.search(name):
            return _leave_out(column, name, f"{n:,} different whole numbers: an identifier")
    if wanted or len(values) < FEW_ROWS:
        return Inspected(column, [], [])
    found = [value for value in _SENTINELS if _is_sentinel(value, values)]
    if not found:
        return Inspected(column, [], [])
    count = int(np.isin(values, found).sum())
    shown = " and ".join(map(str, found))
    if is_target:
        change = f"--missing {found[0]}"
        note = Finding(name, f"{shown} in {count} rows may stand for a missing cell; it is kept", change, "note")
        return Inspected(column, [note], [])
    reading = Reading("missing", tuple(str(value) for value in found))
    note = Finding(name, f"{shown} in {count} rows is far from the rest: read as missing", option(name, "number"))
    return Inspected(reading.apply(column)[0], [note], [reading])


def _finite(column: pd.Series) -> np.ndarray:
    values = column.to_numpy(np.float64, na_value=np.nan)
    return values[np.isfinite(values)]


def _is_sentinel(value: float, values: np.ndarray) -> bool:
    """Whether a usual word of numbers for "missing" occurs often, and far from all other numbers."""
    here = values == value
    rest = values[~np.isin(values, _SENTINELS)]
    if here.sum() < max(2, 0.002 * len(values)) or len(rest) < 5:
        return False
    low, high = rest.min(), rest.max()
    width = max(high - low, 1e-12)
    if value < 0:
        return bool(low >= 0 and (value <= -99 or width > 20)) or bool(value < low - width)
    return bool(value > high + 2 * width)


def _leave_out(column: pd.Series, name: str, text: str) -> Inspected:
    return Inspected(column, [Finding(name, f"{text}, left out", option(name, "keep"), "left out")], [], True)


def _problem(column: pd.Series, name: str, text: str, change: str) -> Inspected:
    return Inspected(column, [Finding(name, text, change, "problem")], [])
