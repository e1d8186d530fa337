"""Axes of charts: their ticks, the labels of these, and where a value lies in the drawing."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise

from tightgp.app.report.numbers import fixed, percent, power_of_ten, whole

_DAY = 86400
#: Formats of times for ticks that are less than so many seconds apart.
_TIME_FORMATS = {60: "%H:%M:%S", _DAY: "%d %b %H:%M", 28 * _DAY: "%d %b", 365 * _DAY: "%b %Y", math.inf: "%Y"}
#: The letters that fit below an axis.
_LINE = 46


@dataclass(frozen=True)
class Axis:
    """A range of values, its ticks with their labels, and the power of ten that all labels leave out."""

    low: float
    high: float
    ticks: tuple[float, ...]
    labels: tuple[str, ...]
    factor: str = ""

    def scale(self, start: float, end: float) -> Callable[[float], float]:
        """The function from values to places between ``start`` and ``end``."""
        return lambda value: start + (value - self.low) / (self.high - self.low) * (end - start)


#: An axis of shares from 0 to 100 %.
SHARES = Axis(0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0), tuple(percent(k / 4, 0) for k in range(5)))


def linear(low: float, high: float, intervals: int = 5, tight: bool = False) -> Axis:
    """An axis with about ``intervals`` round steps. It ends at ticks, or if ``tight`` at ``low`` and ``high``."""
    from matplotlib.ticker import MaxNLocator

    low, high = _widened(low, high)
    ticks = list(map(float, MaxNLocator(intervals, steps=[1, 2, 5, 10], min_n_ticks=3).tick_values(low, high)))
    room = 1e-9 * (high - low)
    if tight:
        ticks = [tick for tick in ticks if low - room <= tick <= high + room]
    else:
        low, high = min(low, ticks[0]), max(high, ticks[-1])
    return Axis(low, high, tuple(ticks), *_labels(ticks))


def padded(low: float, high: float, intervals: int = 5) -> Axis:
    """A tight axis that extends a little beyond ``low`` and ``high``."""
    low, high = _widened(low, high)
    room = 0.04 * (high - low)
    return linear(low - room, high + room, intervals, tight=True)


def logarithmic(values: Sequence[int]) -> Axis:
    """An axis of logarithms with ticks at ``values``, at no more than seven of them."""
    shown = sorted(set(values))
    shown = shown[:: math.ceil(len(shown) / 7)]
    low, high = _widened(math.log(min(values)), math.log(max(values)))
    return Axis(low, high, tuple(map(math.log, shown)), tuple(map(whole, shown)))


def time(low: float, high: float) -> Axis:
    """An axis of seconds since 1970, with ticks at round years, months, days or times of day."""
    from matplotlib.dates import AutoDateLocator

    if high - low < 4:
        low, high = low - 2, high + 2
    days = AutoDateLocator(minticks=2, maxticks=5).tick_values(_date(low), _date(high))
    ticks = [second for second in (round(day * _DAY) for day in days) if low <= second <= high]
    if len(ticks) < 2:
        ticks = [math.ceil(low), math.floor(high)]
    step = min(b - a for a, b in pairwise(ticks))
    form = next(form for limit, form in _TIME_FORMATS.items() if step < limit)
    if high - low < _DAY:
        form = form.replace("%d %b ", "")
    labels = [_date(tick).strftime(form) for tick in ticks]
    every = math.ceil(len(labels) * (len(labels[0]) + 1) / _LINE)
    return Axis(low, high, tuple(ticks[::every]), tuple(labels[::every]))


def _date(seconds: float) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)


def _widened(low: float, high: float) -> tuple[float, float]:
    """The range, or a wider one where it is too narrow for floating point."""
    size = max(abs(low), abs(high))
    if high - low > 1e-9 * size:
        return low, high
    room = 0.05 * size or 0.5
    return low - room, high + room


def _labels(ticks: Sequence[float]) -> tuple[tuple[str, ...], str]:
    """Labels of ticks at equal steps, and the power of ten that they leave out."""
    size = math.floor(math.log10(max(map(abs, ticks))))
    power = 3 * (size // 3) if size >= 6 or size < -3 else 0
    step = (ticks[1] - ticks[0]) / 10.0**power
    decimals = max(0, -math.floor(math.log10(step) + 1e-9))
    labels = tuple(fixed(tick / 10.0**power + 0.0, decimals) for tick in ticks)
    return labels, f"(×\u2009{power_of_ten(power)})" if power else ""
