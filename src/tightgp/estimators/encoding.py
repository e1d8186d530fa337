"""Encode a table of mixed columns as a standardised matrix of floats.

Texts that are dates, money, percent or other numbers are read as these (`tightgp.estimators.reading`).
Numbers become one feature, as do categories whose levels are ordered. Other categories become one for each level, or,
if they have many levels, the mean target of each and how often it occurs. Dates become the days since the first one
with sine and cosine of the time of day, the day of the week and the time of the year. A missing cell gets the median,
and another feature says that it was missing. What is learnt from the training rows is one `Column` for each column of
the table; each row is encoded independently of the others.
"""

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import jax.numpy as jnp
import numpy as np
import pandas as pd

from tightgp import checks
from tightgp.data.scaling import mean_and_scale
from tightgp.estimators.cells import DAY, Cells, columns_of, first_few, read
from tightgp.estimators.cells import read as read_cells
from tightgp.estimators.levels import level_numbers
from tightgp.estimators.reading.texts import Reading, reading_of

#: Most levels that have a feature each: with more, all rows would be about equally far apart.
MOST_LEVELS = 50
#: A text of which more than this share of the rows have one of their own is no category.
_MOST_DISTINCT = 0.95
#: The level of missing cells in a column of categories.
MISSING = "missing"
#: Periods of time, in microseconds; a year is the mean Gregorian one.
PERIODS = {"time of day": DAY, "day of week": 7 * DAY, "time of year": 31_556_952_000_000}


@dataclass(frozen=True)
class Column:
    """How one column of the table is encoded, as learnt from the training rows.

    Attributes:
        name: its name.
        kind: "number", "category" or "time".
        missing: number of missing training cells.
        fill: the median of numbers, or of days, which replaces a missing cell.
        levels: the levels of a category.
        origin: the first time in microseconds since 1970; None for durations.
        periods: the periods of which a time has sine and cosine.
        shift, scale: mean and standard deviation of each feature; the scale of a constant feature is 1.
        ordered: whether the levels are in order, and their positions are the feature.
        reading: how its texts are read as numbers or dates, with what that needs; empty if they are not.
        numbers: of many levels, the features of each, and last of a level that is new; empty if a feature is a level.
    """

    name: str
    kind: str
    missing: int = 0
    fill: float = 0.0
    levels: tuple[str, ...] = ()
    origin: int | None = None
    periods: tuple[str, ...] = ()
    shift: tuple[float, ...] = ()
    scale: tuple[float, ...] = ()
    ordered: bool = False
    numbers: tuple[tuple[float, ...], ...] = ()
    reading: tuple[str, ...] = ()

    def cells(self, values: Any) -> Cells:
        """The cells of its column in a table of other rows."""
        return read(self.name, self.as_read(values), self.cell_kind)

    def as_read(self, values: Any) -> Any:
        """Its column in a table of other rows, with texts read as numbers or dates."""
        return _as_read(self.name, values, self.reading)

    @property
    def cell_kind(self) -> str:
        """The kind of `Cells` that it is read as."""
        return "duration" if self.kind == "time" and self.origin is None else self.kind

    @property
    def encoded_levels(self) -> tuple[str, ...]:
        """The levels that have a feature: all, but only the second of two."""
        return self.levels[1:] if len(self.levels) == 2 else self.levels

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The names of its features, such as "age", "city=Oslo" or "since (days)"."""
        if self.numbers:
            count = len(self.numbers[0]) - 1
            means = [f"{self.name} (mean target{f' {i + 1}' if count > 1 else ''})" for i in range(count)]
            return (*means, f"{self.name} (log count)")
        if self.kind == "category" and not self.ordered:
            return tuple(f"{self.name}={level}" for level in self.encoded_levels)
        if self.ordered:
            return (self.name, *([f"{self.name} is missing"] if self.missing else []))
        first = self.name if self.kind == "number" else f"{self.name} (days)"
        waves = [f"{self.name} ({period}, {wave})" for period in self.periods for wave in ("sin", "cos")]
        return (first, *waves, *([f"{self.name} is missing"] if self.missing else []))

    def standardise(self, features: list[np.ndarray]) -> list[np.ndarray]:
        """Its features minus their shift, divided by their scale."""
        return [(f - shift) / scale for f, shift, scale in zip(features, self.shift, self.scale, strict=True)]

    def of_numbers(self, values: Any, missing: Any) -> list[Any]:
        """The features of a column of numbers (n,), of NumPy or of JAX, before they are standardised."""
        xp: Any = np if isinstance(values, np.ndarray) else jnp
        features = [xp.where(missing, self.fill, values)]
        return [*features, missing.astype(features[0].dtype)] if self.missing else features

    def describe(self) -> str | None:
        """How it is encoded, in one sentence; None for numbers without a missing cell."""
        cells = f"{self.missing} missing cell" + ("s" if self.missing > 1 else "")
        if self.kind == "category":
            unit = "level" if len(self.levels) == 1 else "levels"
            missing = f"; {cells}: a level of their own" if self.missing else ""
            if self.numbers:
                what = "the mean target and the number of rows" if len(self.numbers[0]) > 1 else "the number of rows"
                return f"{self.name}: {len(self.levels)} {unit} by {what} of each{missing}"
            if self.ordered:
                listed = " < ".join(self.levels)
                return f"{self.name}: {len(self.levels)} {unit} in order ({listed}){missing.split(':')[0]}"
            return f"{self.name}: {len(self.levels)} {unit} ({checks.listed(self.levels)}) as 0/1 features{missing}"
        parts = []
        if self.kind == "time":
            since = "" if self.origin is None else f" since {np.datetime64(self.origin, 'us').astype('M8[s]')}"
            waves = f", with sine and cosine of {', '.join(self.periods)}" if self.periods else ""
            parts.append(f"in days{since}{waves}")
        if self.missing:
            parts.append(f"{cells} filled with the median {self._median()}, and a 0/1 feature says where")
        return f"{self.name}: {'; '.join(parts)}" if parts else None

    def _median(self) -> str:
        if self.origin is None:
            return f"{self.fill:.6g}" + (" days" if self.kind == "time" else "")
        return str(np.datetime64(self.origin + round(self.fill * DAY), "us").astype("M8[s]"))


@dataclass(frozen=True)
class Encoding:
    """How a table becomes a matrix of features.

    Over the training rows each feature has mean 0 and standard deviation 1, or is 0 if it is constant there.

    >>> from tightgp.estimators.encoding import Encoding
    >>> encoding = Encoding.fit(np.array([[1.0, 5.0], [3.0, 5.0]]))
    >>> encoding.transform(np.array([[2.0, 6.0]]))
    array([[0., 1.]])
    """

    columns: tuple[Column, ...]

    @classmethod
    def fit(cls, X, read: Callable[[str, Any], Cells] = read) -> "Encoding":
        """Learn the encoding of training rows: a 2-D array of numbers or a pandas DataFrame.

        Where ``X`` has a part of the rows, ``read(name, column)`` gives the cells of all of them. It is called for one
        column at a time.
        """
        return cls(tuple(column for column, _ in _learn_columns(X, read)))

    @classmethod
    def fit_transform(cls, X, targets: np.ndarray | None = None) -> tuple["Encoding", np.ndarray]:
        """Learn the encoding of training rows, and encode them: the encoding, and the features (n, D).

        Levels of a category of many get their mean of ``targets`` (n, P); a training row that of the other rows.
        """
        columns, features = zip(*_learn_columns(X, read, targets), strict=True)
        return cls(columns), np.stack([feature for group in features for feature in group], axis=1)

    def transform(self, X) -> np.ndarray:
        """Encode rows as features (n, D), which are finite.

        Columns of a frame are found by name, those of an array by position. There is a warning for missing cells in
        columns without any in training, and for levels that are new.
        """
        table = self._columns_in(X)
        features, missing, unseen = [], [], []
        for column in self.columns:
            cells = column.cells(table[column.name])
            features += column.standardise(_features(column, cells))
            if (
                column.kind == "category"
                and not column.ordered
                and (new := sorted(_levels_in(cells) - set(column.levels)))
            ):
                like = f", as {column.levels[0]!r} is" if len(column.levels) == 2 else ""
                like = ", as a usual level" if column.numbers else like
                unseen.append(f"{column.name!r}: {first_few(new)}{like}")
            elif (column.kind != "category" or column.ordered) and not column.missing and np.any(cells.missing):
                missing.append(f"{column.name!r} ({np.sum(cells.missing)})")
        if missing:
            filled = "the training rows had none, so the median fills them"
            warnings.warn(f"missing cells in {', '.join(missing)}: {filled}", UserWarning, stacklevel=2)
        if unseen:
            zeros = "levels that the training rows did not have are encoded as zeros"
            warnings.warn(f"{zeros}; {'; '.join(unseen)}", UserWarning, stacklevel=2)
        return np.stack(features, axis=1)

    def traced(self, X: Any) -> Any:
        """Features (n, D) of rows of numbers (n, C) within a JAX transformation; NaN is a missing cell."""
        features: list[Any] = []
        for i, column in enumerate(self.columns):
            features += column.standardise(column.of_numbers(X[:, i], jnp.isnan(X[:, i])))
        return jnp.stack(features, axis=1)

    def check_traceable(self) -> None:
        """Refuse columns that are not numbers: programs have no texts and no dates."""
        if others := [column.name for column in self.columns if column.kind != "number"]:
            raise ValueError(
                f"the column(s) {first_few(others)} are texts, dates or levels, which an exported program cannot read; "
                "encode them as numbers before fitting, or export posterior_, which takes encoded rows"
            )

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The name of each feature, such as "age", "city=Oslo" or "since (days)"."""
        return tuple(name for column in self.columns for name in column.feature_names)

    @property
    def feature_columns(self) -> tuple[int, ...]:
        """The index of the column that each feature comes from."""
        return tuple(i for i, column in enumerate(self.columns) for _ in column.feature_names)

    def describe(self) -> list[str]:
        """A sentence for each column, except for numbers without a missing cell."""
        return [sentence for column in self.columns if (sentence := column.describe())]

    def _columns_in(self, X) -> dict[str, Any]:
        """The columns of ``X``, by their names in the training rows."""
        names, table = [column.name for column in self.columns], columns_of(X)
        if not isinstance(X, np.ndarray):
            if lacking := [name for name in names if name not in table]:
                raise ValueError(f"X lacks the column(s) {first_few(lacking)}; it has {first_few(list(table), 20)}")
            return table
        if others := [column.name for column in self.columns if column.kind != "number"]:
            raise ValueError(
                f"X is an array, but the columns {first_few(others)} of the training rows were not numbers; "
                "pass a pandas DataFrame with the same columns"
            )
        if len(table) != len(names):
            raise ValueError(f"X has {len(table)} column(s) where {len(names)} are expected: {first_few(names)}")
        return dict(zip(names, table.values(), strict=True))


def _learn_columns(
    X, read: Callable[[str, Any], Cells], targets: np.ndarray | None = None
) -> Iterator[tuple[Column, list[np.ndarray]]]:
    """Each column as learnt from its training cells, and its standardised features there."""
    table, here = columns_of(X), read is read_cells
    if not table:
        raise ValueError("X has no columns; it needs at least one")
    if not len(X):
        raise ValueError("X has no rows; it needs at least one")
    for name, values in table.items():
        # Where only a part of the rows is here, it cannot tell how the texts of all are read.
        found = reading_of(name, values) if here and isinstance(values, pd.Series) else None
        reading = () if found is None else (found.kind, *found.arguments)
        cells = read(name, _as_read(name, values, reading))
        column = replace(_learn(name, cells), reading=reading)
        if column.kind == "category" and not column.ordered and len(column.levels) > MOST_LEVELS:
            learnt = level_numbers(_level_positions(column, cells), len(column.levels), targets)
            column = replace(column, numbers=tuple(map(tuple, [*learnt.of_levels.tolist(), learnt.usual.tolist()])))
            features = list(learnt.of_rows.T)
        else:
            features = _features(column, cells)
        shift, scale = zip(*(map(float, mean_and_scale(feature)) for feature in features), strict=True)
        column = replace(column, shift=shift, scale=scale)
        yield column, column.standardise(features)


def _as_read(name: str, values: Any, reading: tuple[str, ...]) -> Any:
    """A column whose texts are read as numbers or dates; a cell that cannot be is an error that names it."""
    if not reading or not isinstance(values, pd.Series):
        return values
    kind, *arguments = reading
    found, lost = Reading(kind, tuple(arguments)).apply(values)
    if lost.any():
        row = int(np.argmax(lost))
        learnt, what = ("numbers", "a number") if kind == "amount" else ("dates", f"a date as in {arguments[0]}")
        raise ValueError(
            f"column {name!r} was learnt as {learnt} but row {row} (counted from 0) is not {what}: "
            f"{str(values.iloc[row])[:40]!r}; correct it, or leave the cell empty if it is missing"
        )
    return found


def _learn(name: str, cells: Cells) -> Column:
    """A column without shift and scale."""
    if cells.kind == "empty":
        raise ValueError(f"column {name!r} has no values at all in the training rows; drop it")
    missing, present = int(np.sum(cells.missing)), cells.values[~cells.missing]
    if cells.ordered:
        return Column(name, "category", missing, float(np.median(present)), levels=tuple(cells.levels), ordered=True)
    if cells.kind == "category":
        return Column(name, "category", missing, levels=_levels(name, cells))
    if cells.kind == "number":
        return Column(name, "number", missing, float(np.median(present)))
    if cells.kind == "duration":
        return Column(name, "time", missing, float(np.median(present / DAY)))
    origin, span = int(present.min()), int(np.ptp(present))
    fill = float(np.median((present - origin) / DAY))
    # A period needs two of its lengths to be learnt, and times that differ within it.
    periods = (p for p, length in PERIODS.items() if span >= 2 * length and len(np.unique(present % length)) > 1)
    return Column(name, "time", missing, fill, origin=origin, periods=tuple(periods))


def _levels(name: str, cells: Cells) -> tuple[str, ...]:
    found = _levels_in(cells)
    levels = sorted(found - {MISSING})
    if len(levels) > max(MOST_LEVELS, _MOST_DISTINCT * np.sum(~cells.missing)):
        if any(re.fullmatch(r"\s*[-+]?\d+([.,]\d+)?\s*", level) for level in levels[:20]):
            hint = "convert the texts to numbers if that is what they are, drop the column, or group its levels"
        else:
            hint = "drop the column, or group its levels into fewer"
        shown = first_few(levels, 3)
        raise ValueError(f"column {name!r} is text with {len(levels)} levels ({shown}), nearly one a row; {hint}")
    return (*levels, MISSING) if MISSING in found else tuple(levels)


def _levels_in(cells: Cells) -> set[str]:
    """The levels that occur, `MISSING` among them if a cell is missing."""
    texts = [*cells.levels, MISSING]  # the code of a missing cell is -1, the last of these
    return {texts[code] for code in np.unique(cells.values)}


def _level_positions(column: Column, cells: Cells) -> np.ndarray:
    """The position (n,) of each cell's level among those of the column; -1 for a level that is new."""
    index = {level: i for i, level in enumerate(column.levels)}
    return np.array([index.get(text, -1) for text in [*cells.levels, MISSING]])[cells.values]


def _features(column: Column, cells: Cells) -> list[np.ndarray]:
    """The features of a column before they are standardised."""
    if column.kind == "category":
        levels = _level_positions(column, cells)
        if column.numbers:
            return list(np.array(column.numbers)[levels].T)
        if column.ordered:
            features = [np.where(levels < 0, column.fill, levels).astype(np.float64)]
            return [*features, cells.missing.astype(np.float64)] if column.missing else features
        return [(levels == column.levels.index(level)).astype(np.float64) for level in column.encoded_levels]
    if column.kind == "number":
        return column.of_numbers(cells.values, cells.missing)
    origin = column.origin or 0
    times = np.where(cells.missing, origin + round(column.fill * DAY), cells.values)
    features = [np.where(cells.missing, column.fill, (times - origin) / DAY)]
    for period in column.periods:
        phase = 2 * np.pi * ((times % PERIODS[period]) / PERIODS[period])
        features += [np.sin(phase), np.cos(phase)]
    return [*features, cells.missing.astype(np.float64)] if column.missing else features
