"""A column read as something else than it looks: decided once for training, then applied to all rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from tightgp.estimators.reading import dates
from tightgp.estimators.reading.amounts import MISSING_WORDS, Amounts, read_amounts

#: What a column may be read as.
KINDS = ("amount", "date", "text", "words", "ordered", "missing")
#: A column of text is meant to be numbers or dates if this share of its cells are.
MOSTLY = 0.9
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
        fits = (column.dropna().abs() < 2**63).all()
        column = column.astype("Int64") if fits else column.map(lambda cell: str(int(cell)), na_action="ignore")
    if column.dtype.kind == "b":
        column = column.map({True: "true", False: "false"})
    return column.astype("str").where(column.notna(), None)


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


def are_amounts(amounts: Amounts, counts: np.ndarray) -> bool:
    """Whether texts, each in ``counts`` cells, are meant to be numbers."""
    words = np.isnan(amounts.values) & ~amounts.strays
    numbers = (~amounts.strays & ~words) @ counts
    return bool(numbers and numbers >= MOSTLY * max(1, (~words) @ counts))


def date_formats(levels: list[str], form: str = "", share: float = MOSTLY) -> list[str]:
    """The formats in which texts are dates, or ``form`` if they are in that; several if they give other dates."""
    forms = [form] if form else dates.fitting_formats(levels, MOSTLY)
    forms = [form for form in forms if dates.parse(levels, form).notna().mean() >= share]
    if len(forms) > 1:
        first = dates.parse(levels, forms[0])
        if all(dates.parse(levels, form).equals(first) for form in forms[1:]):
            return forms[:1]
    return forms


def reading_of(name: str, column: pd.Series) -> Reading | None:
    """How a column of text is read if its texts are dates, money, percent or other numbers; None if it stays text.

    Texts that are whole numbers without anything else stay levels: whoever made them texts meant them to be. A text
    that could be two dates or two numbers is refused.

    >>> from tightgp.estimators.reading.texts import reading_of
    >>> reading_of("day", pd.Series(["2024-01-31", "2024-02-01"]))
    Reading(kind='date', arguments=('%Y-%m-%d',))
    """
    if isinstance(column.dtype, pd.CategoricalDtype) or pd.api.types.infer_dtype(column, skipna=True) != "string":
        return None
    counted = column.dropna().value_counts()
    levels, counts = [str(level) for level in counted.index], counted.to_numpy()
    if not levels or all(level.strip().isdecimal() for level in levels):
        return None
    amounts = read_amounts(levels)
    if are_amounts(amounts, counts):
        if amounts.mixed:
            raise ValueError(f"column {name!r} holds {amounts.mixed}, which are not the same unit; make them numbers")
        if not amounts.decimal:
            raise ValueError(
                f"column {name!r} has {levels[0]!r}, which may have a decimal mark or thousands; make its cells numbers"
            )
        return None if amounts.strays.any() else Reading("amount", (amounts.decimal,))
    forms = date_formats(levels)
    if len(forms) > 1:
        raise ValueError(
            f"column {name!r} has dates such as {levels[0]!r} with the day or the month first; convert them with "
            f"pandas.to_datetime(..., format={forms[0]!r}) or {forms[1]!r}"
        )
    reading = Reading("date", tuple(forms))
    return reading if forms and not reading.apply(column)[1].any() else None
