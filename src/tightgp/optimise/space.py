"""The space that is searched: an interval of numbers or whole numbers for each input, as a unit cube inside."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tightgp import checks


@dataclass(frozen=True)
class Real:
    """Numbers from ``low`` to ``high``; with ``log`` they are searched on a logarithmic scale.

    >>> tgp.optimise.Real(1e-4, 1.0, log=True)
    Real(low=0.0001, high=1.0, log=True)
    """

    low: float
    high: float
    log: bool = False

    def __post_init__(self):
        _check_ends(self)
        if self.log and self.low <= 0:
            raise ValueError(f"low must be positive where log=True, got {self.low!r}")

    def from_unit(self, u: np.ndarray) -> np.ndarray:
        """Values of numbers between 0 and 1."""
        if not self.log:
            return (self.low + u * (self.high - self.low)).clip(self.low, self.high)
        return np.exp(math.log(self.low) + u * math.log(self.high / self.low)).clip(self.low, self.high)

    def to_unit(self, x: np.ndarray) -> np.ndarray:
        """The inverse of `from_unit`."""
        return (
            np.log(x / self.low) / math.log(self.high / self.low)
            if self.log
            else (x - self.low) / (self.high - self.low)
        )


@dataclass(frozen=True)
class Integer:
    """Whole numbers from ``low`` to ``high``, both included.

    >>> tgp.optimise.Integer(1, 10)
    Integer(low=1, high=10)
    """

    low: int
    high: int

    def __post_init__(self):
        for name, value in (("low", self.low), ("high", self.high)):
            if isinstance(value, bool) or not isinstance(value, int | np.integer):
                raise ValueError(f"{name} of Integer must be a whole number, got {value!r}")
        _check_ends(self)

    def from_unit(self, u: np.ndarray) -> np.ndarray:
        """Values of numbers between 0 and 1: each whole number has an equal part of the interval."""
        return np.floor(self.low + u * (self.high - self.low + 1)).clip(self.low, self.high)

    def to_unit(self, x: np.ndarray) -> np.ndarray:
        """The middle of the part of each whole number."""
        return (x - self.low + 0.5) / (self.high - self.low + 1)


def _check_ends(interval: Real | Integer) -> None:
    low, high = checks.number("low", interval.low), checks.number("high", interval.high)
    if not low < high:
        raise ValueError(f"low must be less than high, got low={low!r} and high={high!r}")


class Space:
    """Some intervals; points are rows (n, D)."""

    def __init__(self, bounds: Sequence[Any]):
        if isinstance(bounds, str) or not isinstance(bounds, Sequence | np.ndarray) or not len(bounds):
            raise ValueError("bounds must be a list with a pair (low, high), a Real or an Integer for each input")
        self.intervals = tuple(_interval(i, one) for i, one in enumerate(bounds))

    def __len__(self) -> int:
        return len(self.intervals)

    def from_unit(self, U: np.ndarray) -> np.ndarray:
        """Points of the space from points of the unit cube."""
        return np.stack([one.from_unit(u) for one, u in zip(self.intervals, np.asarray(U).T, strict=True)], axis=1)

    def to_unit(self, X: np.ndarray) -> np.ndarray:
        """Points of the unit cube from points of the space."""
        return np.stack([one.to_unit(x) for one, x in zip(self.intervals, np.asarray(X).T, strict=True)], axis=1)

    def rounded(self, U: np.ndarray) -> np.ndarray:
        """Points of the unit cube at which whole numbers stand in the middle of their part."""
        return self.to_unit(self.from_unit(U))

    def checked(self, X: Any) -> np.ndarray:
        """Points given by a user, as rows; ValueError where one is outside."""
        X = np.atleast_2d(np.asarray(checks.floats("x", X), float))
        if X.ndim != 2 or X.shape[1] != len(self):
            raise ValueError(f"x must have {len(self)} numbers, one for each of bounds; got shape {X.shape}")
        for i, one in enumerate(self.intervals):
            outside = ~((X[:, i] >= one.low) & (X[:, i] <= one.high))
            if np.any(outside):
                raise ValueError(f"x[{i}] must lie in {one}, got {X[outside, i][0]:g}")
            if isinstance(one, Integer) and np.any(X[:, i] != np.round(X[:, i])):
                raise ValueError(f"x[{i}] must be a whole number, as {one} says; got {X[:, i]}")
        return X


def _interval(i: int, given: Any) -> Real | Integer:
    if isinstance(given, Real | Integer):
        return given
    if np.shape(given) != (2,):
        raise ValueError(f"bounds[{i}] must be a pair (low, high), a Real or an Integer; got {given!r}")
    return Real(float(given[0]), float(given[1]))
