"""A table of mixed columns as a standardised matrix of floats.

What is learnt from the training rows is one `Column` for each column of the table: plain values, so that it can be
stored. Numbers keep one feature, categories get one for each level, dates become days and the phases of day, week
and year; missing cells take the median, and a feature says where. Each row is encoded on its own.
"""

import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from tightgp.cells import DAY, kind_of, numbers, ticks, words

#: One feature a level: with more of them the distances that a kernel sees are all alike.
MOST_LEVELS = 50
#: The level of a missing cell in a column of categories.
MISSING = "missing"
#: Phases of a date, in microseconds; a year is the mean Gregorian one.
PERIODS = {"time of day": DAY, "day of week": 7 * DAY, "time of year": 31_556_952_000_000}
#: Features that vary less than this vary by rounding alone.
_ROUNDING = 8 * np.finfo(np.float64).eps
_SMALLEST = 1e-100


@dataclass(frozen=True)
class Column:
    """One column of the table, as learnt from the training rows.

    ``kind`` is "number", "category" or "time". ``missing`` counts the empty training cells, ``fill`` is the
    median that stands for them, ``levels`` are a category's, ``origin`` is the first instant in microseconds
    since 1970 (None for durations), ``periods`` are the phases that a date's features tell.
    """

    name: str
    kind: str
    missing: int = 0
    fill: float = 0.0
    levels: tuple[str, ...] = ()
    origin: int | None = None
    periods: tuple[str, ...] = ()

    @property
    def had_missing(self) -> bool:
        """Whether training cells were empty."""
        return self.missing > 0

    @property
    def feature_names(self) -> tuple[str, ...]:
        """What its features are called."""
        if self.kind == "category":
            return tuple(f"{self.name}={level}" for level in self.told)
        first = self.name if self.kind == "number" else f"{self.name} (days)"
        phases = [f"{self.name} ({period}, {wave})" for period in self.periods for wave in ("sin", "cos")]
        return (first, *phases, *([f"{self.name} is missing"] if self.had_missing else []))

    @property
    def told(self) -> tuple[str, ...]:
        """The levels with a feature: of two, the second alone."""
        return self.levels[1:] if len(self.levels) == 2 else self.levels

    def describe(self) -> str | None:
        """What was done to it, in one sentence; None where there was nothing to do."""
        cells = f"{self.missing} missing cell" + ("s" if self.missing > 1 else "")
        if self.kind == "category":
            shown = ", ".join(self.levels[:5]) + (", ..." if len(self.levels) > 5 else "")
            gone = f"; {cells}: a level of their own" if self.had_missing else ""
            one = "level" if len(self.levels) == 1 else "levels"
            return f"{self.name}: {len(self.levels)} {one} ({shown}) as 0/1 features{gone}"
        said = []
        if self.kind == "time":
            since = "" if self.origin is None else f" since {np.datetime64(self.origin, 'us').astype('M8[s]')}"
            waves = "".join(f", {period}" for period in self.periods)
            said.append(f"in days{since}" + (f", with sine and cosine of{waves[1:]}" if waves else ""))
        if self.had_missing:
            said.append(f"{cells} filled with the median{self._median()}, and a 0/1 feature says where")
        return f"{self.name}: {'; '.join(said)}" if said else None

    def _median(self) -> str:
        if self.origin is None:
            return f" {self.fill:.6g}" + (" days" if self.kind == "time" else "")
        return f" {np.datetime64(self.origin + round(self.fill * DAY), 'us').astype('M8[s]')}"


@dataclass(frozen=True)
class Encoding:
    """How a table becomes a matrix: its columns, and the shift and scale of each feature.

    The training rows' features have mean 0 and standard deviation 1; those that are constant there have scale 1.

    >>> encoding = Encoding.of(np.array([[1.0, 5.0], [3.0, 5.0]]))
    >>> encoding.transform(np.array([[2.0, 6.0]]))
    array([[0., 1.]])
    """

    columns: tuple[Column, ...]
    shift: tuple[float, ...]
    scale: tuple[float, ...]

    @classmethod
    def of(cls, X, whole: Callable[[str, Any], Any] | None = None) -> "Encoding":
        """Learn from these rows: a 2-D array of numbers, or a pandas DataFrame.

        Where ``X`` is a part of the rows, ``whole(name, cells)`` makes of its cells in a column those of all rows; they
        are asked for one column at a time.
        """
        table = _columns(X)
        if not table:
            raise ValueError("X has no columns; it needs at least one")
        if not len(X):
            raise ValueError("X has no rows; it needs at least one")
        columns, standards = [], []
        for name, part in table.items():
            cells = part if whole is None else whole(name, part)
            column = _learnt(name, cells)
            columns.append(column)
            standards += [_standard(feature) for feature in _encoded(column, cells).features]
        shift, scale = zip(*standards, strict=True)
        return cls(tuple(columns), shift, scale)

    def transform(self, X) -> np.ndarray:
        """The features (n, D) of other rows: finite, standardised as the training rows were.

        Columns of a frame are found by name; an array's by place. What the training rows did not have, missing
        cells or levels, is told by one warning each.
        """
        table = self._matched(X)
        matrix = np.empty((len(X), len(self.shift)))
        gone, unseen, at = [], [], 0
        for column in self.columns:
            encoded = _encoded(column, table[column.name])
            for feature in encoded.features:
                matrix[:, at] = (feature - self.shift[at]) / self.scale[at]
                at += 1
            if encoded.missing and not column.had_missing and column.kind != "category":
                gone.append(f"{column.name!r} ({encoded.missing})")
            if encoded.unseen:
                like = f", as {column.levels[0]!r} is" if len(column.levels) == 2 else ""
                unseen.append(f"{column.name!r}: {_some(encoded.unseen)}{like}")
        if gone:
            filled = "the training rows had none, so the median fills them"
            warnings.warn(f"missing cells in {', '.join(gone)}: {filled}", UserWarning, stacklevel=2)
        if unseen:
            told = "levels that the training rows did not have are encoded as zeros"
            warnings.warn(f"{told}; {'; '.join(unseen)}", UserWarning, stacklevel=2)
        return matrix

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The name of each feature, such as "age", "city=Oslo" or "when (days)"."""
        return tuple(name for column in self.columns for name in column.feature_names)

    @property
    def feature_columns(self) -> tuple[int, ...]:
        """Which column each feature comes from."""
        return tuple(i for i, column in enumerate(self.columns) for _ in column.feature_names)

    def describe(self) -> list[str]:
        """A sentence for each column that needed something."""
        return [said for column in self.columns if (said := column.describe())]

    def _matched(self, X) -> dict[str, Any]:
        names = [column.name for column in self.columns]
        if isinstance(X, np.ndarray):
            if others := [column.name for column in self.columns if column.kind != "number"]:
                raise ValueError(
                    f"X is an array, but the columns {_some(others)} of the training rows were no numbers; "
                    "pass a pandas DataFrame with the same columns"
                )
            found = list(_columns(X).values())
            if len(found) != len(names):
                raise ValueError(f"X has {len(found)} column(s) where {len(names)} are expected: {_some(names)}")
            return dict(zip(names, found, strict=True))
        table = _columns(X)
        if lacking := [name for name in names if name not in table]:
            raise ValueError(f"X lacks the column(s) {_some(lacking)}; it has {_some(list(table), 20)}")
        return table


class _Encoded(NamedTuple):
    """A column's features before they are standardised, and what was new in it."""

    features: list[np.ndarray]
    missing: int
    unseen: list[str]


def _columns(X) -> dict[str, Any]:
    """The columns of a table by name: arrays of an array, series of a frame."""
    if isinstance(X, np.ndarray):
        if X.ndim != 2 or X.dtype.kind not in "biuf":
            raise ValueError(
                f"X must be a 2-D array of numbers or a pandas DataFrame, got shape {X.shape} of {X.dtype}"
            )
        return {f"x{i}": X[:, i] for i in range(X.shape[1])}
    import pandas as pd

    if not isinstance(X, pd.DataFrame):
        raise ValueError(f"X must be a 2-D array of numbers or a pandas DataFrame, got {type(X).__name__}")
    names = [str(name) for name in X.columns]
    if twice := sorted({name for name in names if names.count(name) > 1}) if len(set(names)) < len(names) else []:
        raise ValueError(f"X has more than one column called {_some(twice)}; rename or drop all but one")
    return {name: X.iloc[:, i] for i, name in enumerate(names)}


def _learnt(name: str, cells) -> Column:
    kind = kind_of(name, cells)
    if kind == "empty":
        raise ValueError(f"column {name!r} has no values at all in the training rows; drop it")
    if kind == "category":
        return _categories(name, cells)
    if kind == "number":
        values = numbers(name, cells)
        gone = np.isnan(values)
        return Column(name, kind, int(gone.sum()), _median(values[~gone]))
    instants, gone = ticks(name, cells, kind)
    seen = instants[~gone]
    if kind == "duration":
        return Column(name, "time", int(gone.sum()), _median(seen / DAY))
    origin = int(seen.min())
    span = int(seen.max()) - origin
    periods = [period for period, length in PERIODS.items() if span >= 2 * length]
    if len(np.unique(seen % DAY)) == 1:
        periods = [period for period in periods if period != "time of day"]
    return Column(name, "time", int(gone.sum()), _median((seen - origin) / DAY), (), origin, tuple(periods))


def _categories(name: str, cells) -> Column:
    codes, texts = words(name, cells)
    levels = sorted({texts[code] for code in np.unique(codes) if code >= 0})
    if len(levels) > MOST_LEVELS:
        if all(re.match(r"\d{1,4}[-/. ]\w{1,9}[-/. ]\d{1,4}", level) for level in levels[:20]):
            hint = "write the dates as YYYY-MM-DD (or make them dates by pandas.to_datetime)"
        elif any(re.fullmatch(r"\s*[-+]?\d+([.,]\d+)?\s*", level) for level in levels[:20]):
            hint = "make the texts numbers if that is what they are, drop the column, or group its levels"
        else:
            hint = "drop the column, or group its levels into fewer"
        shown = _some(levels, 3)
        raise ValueError(f"column {name!r} is text with {len(levels)} levels ({shown}), at most {MOST_LEVELS}; {hint}")
    missing = int(np.sum(codes < 0))
    if missing and MISSING not in levels:
        levels.append(MISSING)
    return Column(name, "category", missing, levels=tuple(levels))


def _encoded(column: Column, cells) -> _Encoded:
    if column.kind == "category":
        return _one_hot(column, cells)
    if column.kind == "number":
        values = numbers(column.name, cells)
        gone = np.isnan(values)
        features = [np.where(gone, column.fill, values)]
    else:
        instants, gone = ticks(column.name, cells, "duration" if column.origin is None else "time")
        days = (instants - (column.origin or 0)) / DAY
        features = [np.where(gone, column.fill, days), *_waves(column, instants, gone)]
    if column.had_missing:
        features.append(gone.astype(np.float64))
    return _Encoded(features, int(gone.sum()), [])


def _waves(column: Column, instants: np.ndarray, gone: np.ndarray) -> Iterator[np.ndarray]:
    """Sine and cosine of each phase; a missing date has the phase of the median one."""
    instants = np.where(gone, (column.origin or 0) + round(column.fill * DAY), instants)
    for period in column.periods:
        phase = 2 * np.pi * ((instants % PERIODS[period]) / PERIODS[period])
        yield np.sin(phase)
        yield np.cos(phase)


def _one_hot(column: Column, cells) -> _Encoded:
    codes, texts = words(column.name, cells)
    index = {level: i for i, level in enumerate(column.levels)}
    # The code of a missing cell is -1, so that its place is the last one.
    place = np.array([index.get(text, -1) for text in [*texts, MISSING]])[codes]
    unseen = sorted({texts[code] if code >= 0 else "missing cells" for code in np.unique(codes[place < 0])})
    features = [(place == index[level]).astype(np.float64) for level in column.told]
    return _Encoded(features, int(np.sum(codes < 0)), unseen)


def _standard(feature: np.ndarray) -> tuple[float, float]:
    """Mean and standard deviation; scale 1 where all are the same."""
    low, high = float(feature.min()), float(feature.max())
    spread = high - low
    if spread <= max(_SMALLEST, _ROUNDING * max(abs(low), abs(high))):
        return low, 1.0
    above = feature - low
    return low + float(above.mean()), max(_SMALLEST, spread * float((above / spread).std()))


def _median(values: np.ndarray) -> float:
    return float(np.median(values))


def _some(values, most: int = 5) -> str:
    return ", ".join(repr(value) for value in values[:most]) + (", ..." if len(values) > most else "")
