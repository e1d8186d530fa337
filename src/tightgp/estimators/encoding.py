"""Encode a table of mixed columns as a standardised matrix of floats.

Numbers become one feature, categories one for each level, and dates the days since the first one with sine and cosine
of the time of day, the day of the week and the time of the year. A missing cell gets the median, and another feature
says that it was missing. What is learnt from the training rows is one `Column` for each column of the table; each row
is encoded independently of the others.
"""

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tightgp import checks
from tightgp.data.scaling import mean_and_scale
from tightgp.estimators.cells import DAY, Cells, columns_of, first_few, read

#: Most levels of a category: with more features all rows would be about equally far apart.
MOST_LEVELS = 50
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
        if self.kind == "category":
            return tuple(f"{self.name}={level}" for level in self.encoded_levels)
        first = self.name if self.kind == "number" else f"{self.name} (days)"
        waves = [f"{self.name} ({period}, {wave})" for period in self.periods for wave in ("sin", "cos")]
        return (first, *waves, *([f"{self.name} is missing"] if self.missing else []))

    def standardise(self, features: list[np.ndarray]) -> list[np.ndarray]:
        """Its features minus their shift, divided by their scale."""
        return [(f - shift) / scale for f, shift, scale in zip(features, self.shift, self.scale, strict=True)]

    def describe(self) -> str | None:
        """How it is encoded, in one sentence; None for numbers without a missing cell."""
        cells = f"{self.missing} missing cell" + ("s" if self.missing > 1 else "")
        if self.kind == "category":
            unit = "level" if len(self.levels) == 1 else "levels"
            missing = f"; {cells}: a level of their own" if self.missing else ""
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
    def fit_transform(cls, X) -> tuple["Encoding", np.ndarray]:
        """Learn the encoding of training rows, and encode them: the encoding, and the features (n, D)."""
        columns, features = zip(*_learn_columns(X, read), strict=True)
        return cls(columns), np.stack([feature for group in features for feature in group], axis=1)

    def transform(self, X) -> np.ndarray:
        """Encode rows as features (n, D), which are finite.

        Columns of a frame are found by name, those of an array by position. There is a warning for missing cells in
        columns without any in training, and for levels that are new.
        """
        table = self._columns_in(X)
        features, missing, unseen = [], [], []
        for column in self.columns:
            cells = read(column.name, table[column.name], column.cell_kind)
            features += column.standardise(_features(column, cells))
            if column.kind == "category" and (new := sorted(_levels_in(cells) - set(column.levels))):
                like = f", as {column.levels[0]!r} is" if len(column.levels) == 2 else ""
                unseen.append(f"{column.name!r}: {first_few(new)}{like}")
            elif column.kind != "category" and not column.missing and np.any(cells.missing):
                missing.append(f"{column.name!r} ({np.sum(cells.missing)})")
        if missing:
            filled = "the training rows had none, so the median fills them"
            warnings.warn(f"missing cells in {', '.join(missing)}: {filled}", UserWarning, stacklevel=2)
        if unseen:
            zeros = "levels that the training rows did not have are encoded as zeros"
            warnings.warn(f"{zeros}; {'; '.join(unseen)}", UserWarning, stacklevel=2)
        return np.stack(features, axis=1)

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


def _learn_columns(X, read: Callable[[str, Any], Cells]) -> Iterator[tuple[Column, list[np.ndarray]]]:
    """Each column as learnt from its training cells, and its standardised features there."""
    table = columns_of(X)
    if not table:
        raise ValueError("X has no columns; it needs at least one")
    if not len(X):
        raise ValueError("X has no rows; it needs at least one")
    for name, values in table.items():
        cells = read(name, values)
        column = _learn(name, cells)
        features = _features(column, cells)
        shift, scale = zip(*(map(float, mean_and_scale(feature)) for feature in features), strict=True)
        column = replace(column, shift=shift, scale=scale)
        yield column, column.standardise(features)


def _learn(name: str, cells: Cells) -> Column:
    """A column without shift and scale."""
    if cells.kind == "empty":
        raise ValueError(f"column {name!r} has no values at all in the training rows; drop it")
    missing, present = int(np.sum(cells.missing)), cells.values[~cells.missing]
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
    if len(levels) > MOST_LEVELS:
        if all(re.match(r"\d{1,4}[-/. ]\w{1,9}[-/. ]\d{1,4}", level) for level in levels[:20]):
            hint = "write the dates as YYYY-MM-DD (or convert them with pandas.to_datetime)"
        elif any(re.fullmatch(r"\s*[-+]?\d+([.,]\d+)?\s*", level) for level in levels[:20]):
            hint = "convert the texts to numbers if that is what they are, drop the column, or group its levels"
        else:
            hint = "drop the column, or group its levels into fewer"
        shown = first_few(levels, 3)
        raise ValueError(f"column {name!r} is text with {len(levels)} levels ({shown}), at most {MOST_LEVELS}; {hint}")
    return (*levels, MISSING) if MISSING in found else tuple(levels)


def _levels_in(cells: Cells) -> set[str]:
    """The levels that occur, `MISSING` among them if a cell is missing."""
    texts = [*cells.levels, MISSING]  # the code of a missing cell is -1, the last of these
    return {texts[code] for code in np.unique(cells.values)}


def _features(column: Column, cells: Cells) -> list[np.ndarray]:
    """The features of a column before they are standardised."""
    if column.kind == "category":
        index = {level: i for i, level in enumerate(column.levels)}
        levels = np.array([index.get(text, -1) for text in [*cells.levels, MISSING]])[cells.values]
        return [(levels == index[level]).astype(np.float64) for level in column.encoded_levels]
    if column.kind == "number":
        features = [np.where(cells.missing, column.fill, cells.values)]
    else:
        origin = column.origin or 0
        times = np.where(cells.missing, origin + round(column.fill * DAY), cells.values)
        features = [np.where(cells.missing, column.fill, (times - origin) / DAY)]
        for period in column.periods:
            phase = 2 * np.pi * ((times % PERIODS[period]) / PERIODS[period])
            features += [np.sin(phase), np.cos(phase)]
    return [*features, cells.missing.astype(np.float64)] if column.missing else features
