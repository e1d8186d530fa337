"""Summaries of a run: medians over rounds, limits, exponents."""

from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import numpy as np

Record = dict[str, Any]


class Summary(NamedTuple):
    """The median over the rounds, and the smallest and largest."""

    middle: float
    low: float
    high: float


def best(answer: Record) -> float | None:
    """The shortest of a process's times."""
    return min(answer["seconds"]) if answer.get("seconds") else None


def usual(answer: Record) -> float | None:
    """The median of a process's times, for fits."""
    return median(answer["seconds"]) if answer.get("seconds") else None


def compiling(answer: Record) -> float | None:
    """Compilation: the time of the first call less that of a later one."""
    steady = best(answer)
    return None if steady is None else max(answer["first"] - steady, 0.0)


def named(name: str) -> Callable[[Record], float | None]:
    """Read the number of this name from an answer."""
    return lambda answer: answer.get(name)


def summary(case: Record, column: str, take: Callable[[Record], float | None] = best) -> Summary | None:
    """The summary of one column of one case; None if nothing was measured."""
    values = [value for answer in case["answers"].get(column, []) if (value := take(answer)) is not None]
    return Summary(median(values), min(values), max(values)) if values else None


def failure(record: Record, case: Record, column: str, library: str) -> str | None:
    """Why nothing was measured; None if something was, or if the case has no such column."""
    if column not in case["answers"]:
        return None
    about = record["libraries"].get(library, {})
    errors = [answer["error"] for answer in case["answers"][column] if "error" in answer]
    return about.get("missing") or (errors[0] if errors else None)


def rate(record: Record, dtype: str) -> float | None:
    """Operations a second of a matrix product in this run."""
    for case in record["cases"]:
        if case["row"] == "rate" and case["dtype"] == dtype:
            found = summary(case, "product", named("flops_per_second"))
            return None if found is None else found.middle
    return None


def limit(record: Record, case: Record) -> float | None:
    """Seconds that the necessary arithmetic takes at the measured rate of matrix products."""
    pace = rate(record, case["dtype"])
    return None if pace is None or case["flops"] is None else case["flops"] / pace


def exponent(sizes: list[float], seconds: list[float]) -> float | None:
    """The slope of log seconds over log size, by least squares; None for fewer than two sizes."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0]) if len(set(sizes)) > 1 else None


def curve(record: Record, along: str, column: str) -> tuple[list[float], list[float]]:
    """Sizes and seconds of the scaling row along "N" or "M"."""
    pairs = []
    for case in record["cases"]:
        if case["row"] == "scaling" and case["title"].startswith(f"along {along}"):
            found = summary(case, column)
            if found is not None:
                pairs.append((float(case["sizes"][along.lower()]), found.middle))
    return [size for size, _ in pairs], [seconds for _, seconds in pairs]
