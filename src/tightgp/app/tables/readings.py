"""How columns of a file are read as something else than they look: chosen once for training, then used for all rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tightgp.app.tables import dates
from tightgp.app.tables.amounts import MISSING_WORDS, read_amounts
from tightgp.app.tables.errors import TableError, quoted
from tightgp.app.tables.rows import row_number

#: What a column may be read as.
KINDS = ("amount", "date", "text", "words", "ordered", "missing")
#: Stands for every column.
ANY = "*"
#: Pairs of words for false and true.
WORDS = (("no", "yes"), ("n", "y"), ("false", "true"), ("f", "t"), ("off", "on"), ("nein", "ja"), ("non", "oui"))


@dataclass(frozen=True)
class Reading:
    """How one column is read.

    Attributes:
        kind: "amount" (numbers with units, the decimal mark in ``arguments``), "date" (a format), "words" (for false
            and true), "ordered" (levels, lowest first), "text", or "missing" (what stands for a missing cell).
        arguments: what the kind needs.
    """

    kind: str
    arguments: tuple[str, ...] = ()

    def apply(self, column: pd.Series) -> tuple[pd.Series, np.ndarray]:
        """The column as it is read, and which cells could not be; those are missing in the column."""
        lost = np.zeros(len(column), bool)
        if self.kind == "missing":
            return without(column, self.arguments), lost
        if self.kind == "text":
            return as_text(column), lost
        if self.kind == "date" and column.dtype.kind in "M":
            return column, lost
        if self.kind == "amount" and column.dtype.kind in "biuf":
            return column, lost
        texts = as_text(column)
        codes, levels = pd.factorize(texts)
        if self.kind == "amount":
            found = read_amounts([str(level) for level in levels], *self.arguments)
            values, strays = found.values, found.strays
        elif self.kind == "date":
            parsed = dates.parse(list(levels), self.arguments[0])
            strays = np.array([level.strip().casefold() not in MISSING_WORDS for level in levels], bool)
            values, strays = parsed.to_numpy(), strays & parsed.isna().to_numpy()
        else:
            return self._as_levels(texts)
        missing = np.datetime64("NaT") if self.kind == "date" else np.nan
        read = pd.Series(np.append(values, np.array([missing], values.dtype))[codes], index=column.index)
        return read.rename(column.name), np.append(strays, False)[codes]

    def _as_levels(self, texts: pd.Series) -> tuple[pd.Series, np.ndarray]:
        folded = texts.map(lambda text: text.strip().casefold(), na_action="ignore")
        if self.kind == "words":
            return folded, np.zeros(len(texts), bool)
        known = {level.strip().casefold(): level for level in self.arguments}
        read = folded.map(lambda text: known.get(text, text), na_action="ignore")
        lost = (~read.isin(self.arguments) & read.notna()).to_numpy(bool)
        return pd.Series(pd.Categorical(read, self.arguments, ordered=True), index=texts.index, name=texts.name), lost


def as_text(column: pd.Series) -> pd.Series:
    """A column as text; whole numbers have no decimal point."""
    if column.dtype.kind == "f" and (column.dropna() % 1 == 0).all():
        column = column.astype("Int64")
    if column.dtype.kind == "b":
        column = column.map({True: "true", False: "false"})
    return column.astype("str").where(column.notna(), None)


def apply_readings(frame: pd.DataFrame, readings: Mapping[str, Reading], path) -> pd.DataFrame:
    """A frame whose columns are read as in training; a cell that cannot be is an error that names it."""
    words = readings[ANY].arguments if ANY in readings else ()
    frame = with_columns(frame, {name: without(frame[name], words) for name in frame.columns}) if words else frame
    changed = {}
    for name, reading in readings.items():
        if name in frame:
            changed[name], lost = reading.apply(frame[name])
            if lost.any():
                position = int(np.argmax(lost))
                what = {"amount": "a number", "date": f"a date as in {reading.arguments}"}.get(reading.kind, "a level")
                cell, row = quoted(str(frame[name].iloc[position])), row_number(frame, position)
                remedy = "correct the cell, or leave it empty if it is missing"
                raise TableError(path, f"row {row}, column {quoted(name)}: {cell} is not {what}; {remedy}")
    return with_columns(frame, changed)


def without(column: pd.Series, words: Sequence[str]) -> pd.Series:
    """The column with some texts or numbers as missing cells."""
    if not words or column.dtype.kind in "mMb":
        return column
    if column.dtype.kind in "iuf":
        return column.mask(column.isin([number for word in words if (number := _number(word)) is not None]))
    return column.mask(column.map(lambda cell: isinstance(cell, str) and cell.strip() in words).astype(bool))


def _number(word: str) -> float | None:
    try:
        return float(word)
    except ValueError:
        return None


def with_columns(frame: pd.DataFrame, changed: Mapping[str, pd.Series]) -> pd.DataFrame:
    """The frame with other columns in place of some of its own; it keeps what is known of its rows."""
    columns = {name: changed.get(name, frame[name]) for name in frame.columns}
    made = pd.DataFrame(columns, index=frame.index)
    made.attrs = dict(frame.attrs)
    return made


def to_plain(readings: Mapping[str, Reading]) -> dict[str, list[str]]:
    """Readings as plain values, which a model file can hold."""
    return {name: [reading.kind, *reading.arguments] for name, reading in readings.items()}


def from_plain(stored: Mapping[str, list[str]]) -> dict[str, Reading]:
    """What `to_plain` made of readings."""
    return {name: Reading(kind, tuple(arguments)) for name, (kind, *arguments) in stored.items()}
