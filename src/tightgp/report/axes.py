"""Axes: where ticks go, what they say, and how values become places."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY = 86400.0
_MONTH = 30.4375 * _DAY
_CLOCK_STEPS = (1, 2, 5, 15, 30, 60, 120, 300, 900, 1800, 3600, 2 * 3600, 3 * 3600, 6 * 3600, 12 * 3600)
_DAY_STEPS = (1, 2, 5, 10, 15)
_MONTH_STEPS = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 2400, 6000, 12000, 24000)


@dataclass(frozen=True)
class Axis:
    """A range of values, the ticks on it with their words, and what is to be said about their unit."""

    low: float
    high: float
    ticks: tuple[float, ...]
    words: tuple[str, ...]
    factor: str = ""

    def place(self, start: float, end: float) -> Callable[[float], float]:
        """From values to places between ``start`` and ``end``."""
        span = self.high - self.low
        return lambda value: start + (value - self.low) / span * (end - start)


def linear(low: float, high: float, most: int = 5, tight: bool = False) -> Axis:
    """An axis that holds ``low`` to ``high``, with about ``most`` round ticks.

    Unless ``tight`` it ends at ticks where these are near.
    """
    low, high = widened(low, high)
    step = round_step(high - low, most)
    if not tight:
        low, high = math.floor(low / step + 1e-9) * step, math.ceil(high / step - 1e-9) * step
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    ticks = tuple(k * step for k in range(first, last + 1))
    return Axis(low, high, ticks, *_worded(ticks, step))


def padded(low: float, high: float, most: int = 5) -> Axis:
    """An axis that ends a little beyond ``low`` and ``high``, wherever ticks are."""
    low, high = widened(low, high)
    room = 0.04 * (high - low)
    return linear(low - room, high + room, most, tight=True)


def widened(low: float, high: float) -> tuple[float, float]:
    """The range, or one around it where it is empty or too small for floating point."""
    size = max(abs(low), abs(high))
    if high - low > 1e-9 * size and high > low:
        return low, high
    room = 0.05 * size or 0.5
    return low - room, high + room


def round_step(span: float, most: int) -> float:
    """The step of 1, 2 or 5 times a power of ten that cuts ``span`` most nearly into ``most`` parts."""
    power = 10.0 ** math.floor(math.log10(span / most))
    return min((factor * power for factor in (1, 2, 5, 10)), key=lambda step: abs(math.log(span / step / most)))


def _worded(ticks: Sequence[float], step: float) -> tuple[tuple[str, ...], str]:
    largest = max((abs(t) for t in ticks), default=1.0)
    size = math.floor(math.log10(largest)) if largest else 0
    power = 3 * (size // 3) if size >= 6 or size < -3 else 0
    scaled_step = step / 10.0**power
    decimals = max(0, -math.floor(math.log10(scaled_step) + 1e-9))
    words = tuple(f"{tick / 10.0**power + 0.0:,.{decimals}f}".replace("-", "−") for tick in ticks)
    return words, f"×{THIN_SPACE}10{str(power).translate(_RAISED)}" if power else ""


THIN_SPACE = "\u2009"


def logarithmic(values: Sequence[float]) -> Axis:
    """An axis over logarithms with a tick at each of ``values``, or at some where there are many."""
    kept = sorted(set(values))
    kept = kept[:: math.ceil(len(kept) / 7)]
    low, high = widened(math.log(min(values)), math.log(max(values)))
    return Axis(low, high, tuple(map(math.log, kept)), tuple(f"{v:,.0f}" for v in kept))


def time(low: float, high: float, most: int = 4) -> Axis:
    """An axis of seconds since 1970 with ticks at full years, months, days or hours."""
    if high - low < 4:
        low, high = low - 2, high + 2
    steps = [*_CLOCK_STEPS, *(_DAY * days for days in _DAY_STEPS), *(_MONTH * months for months in _MONTH_STEPS)]
    step = min(steps, key=lambda step: abs(math.log((high - low) / step / most)))
    if step >= _MONTH:
        months = round(step / _MONTH)
        ticks, form = _months(low, high, months), "%Y" if months >= 12 else "%b %Y"
    else:
        ticks, form = _multiples(low, high, step), "%d %b"
        if step < _DAY:
            form = "%H:%M:%S" if step < 60 else "%H:%M" if high - low < _DAY else "%d %b %H:%M"
    return Axis(low, high, tuple(ticks), tuple(_date(t).strftime(form) for t in ticks))


def _date(seconds: float) -> datetime:
    return _EPOCH + timedelta(seconds=seconds)


def _multiples(low: float, high: float, step: float) -> list[float]:
    return [k * step for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _months(low: float, high: float, months: int) -> list[float]:
    first, last = _date(low), _date(high)
    start = (first.year * 12 + first.month - 1) // months * months
    numbers = range(start, last.year * 12 + last.month, months)
    dates = (datetime(n // 12, n % 12 + 1, 1, tzinfo=UTC) for n in numbers if n >= 12)
    seconds = ((date - _EPOCH).total_seconds() for date in dates)
    return [s for s in seconds if low <= s <= high]
