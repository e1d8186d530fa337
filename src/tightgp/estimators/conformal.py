"""Intervals that are guaranteed to hold, by calibration on rows that the model was not fitted to (maths 13.6)."""

from typing import Any

import numpy as np

from tightgp import checks


def interval_scores(prediction: Any, y: Any) -> np.ndarray:
    """The level of the central interval that just reaches each target (n,): ``|2 P(Y ≤ y) − 1|``."""
    cdf = np.asarray(prediction.cdf(y))
    if cdf.ndim != 1:
        raise ValueError(f"calibrate takes one target a row, got targets of shape {cdf.shape}")
    return np.abs(2 * cdf - 1)


def calibrated_level(scores: np.ndarray, level: float) -> float:
    """The level to ask a model for, so that new rows lie inside with probability at least ``level``.

    It is the ``⌈(n + 1) level⌉``-th smallest of n scores. Rows must be exchangeable with those of the scores.

    >>> from tightgp.estimators.conformal import calibrated_level
    >>> calibrated_level(np.array([0.2, 0.5, 0.7, 0.9]), 0.6)
    0.7
    """
    if not 0 < checks.number("level", level) < 1:
        raise ValueError(f"level must lie between 0 and 1, such as 0.95; got {level!r}")
    n = len(scores)
    place = int(np.ceil((n + 1) * level - 1e-9))
    if place > n:
        needed = int(np.ceil(level / (1 - level) - 1e-9))
        raise ValueError(
            f"{n} calibration rows guarantee no interval of level {level:g}; calibrate with {needed} or more"
        )
    # A score of one stands for the whole line, which no quantile reaches.
    return float(min(np.sort(scores)[place - 1], 1 - 1e-12))
