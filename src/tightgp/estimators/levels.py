"""Numbers for a category of many levels: the mean target of each level, and how often it occurs."""

from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

#: A level's mean is drawn towards that of all rows as if it had this many more rows.
PRIOR_ROWS = 5.0
#: Training rows get means from the other folds, lest their own targets be among their inputs.
_FOLDS = 5
#: The most classes, or outputs, that have a mean.
_MOST_TARGETS = 8


class LevelNumbers(NamedTuple):
    """Numbers of each level, and of each training row.

    Attributes:
        of_levels: (L, K) mean targets, and last log(1 + rows).
        of_rows: (n, K) the same for training rows, with means from other rows.
        usual: (K,) for a level that is new.
    """

    of_levels: np.ndarray
    of_rows: np.ndarray
    usual: np.ndarray


def numeric_targets(y: np.ndarray, task: str) -> np.ndarray:
    """What is averaged (n, P): an indicator of each frequent class but one, or the ranks of numbers from 0 to 1."""
    if task == "classification":
        classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        frequent = np.argsort(-counts, kind="stable")[: min(_MOST_TARGETS, max(1, len(classes) - 1))]
        return (codes[:, None] == frequent).astype(float)
    columns = np.asarray(y, float).reshape(len(y), -1)[:, :_MOST_TARGETS]
    return rankdata(columns, axis=0) / len(columns)


def level_numbers(codes: np.ndarray, count: int, targets: np.ndarray | None) -> LevelNumbers:
    """Numbers of ``count`` levels, given that of each row in ``codes`` (n,) and targets (n, P), or None.

    >>> from tightgp.estimators.levels import level_numbers
    >>> level_numbers(np.array([0, 0, 1]), 2, None).of_levels.round(2)
    array([[1.1 ],
           [0.69]])
    """
    rows = np.bincount(codes, minlength=count).astype(float)
    frequency = np.log1p(rows)[:, None]
    if targets is None:
        return LevelNumbers(frequency, frequency[codes], np.zeros(1))
    usual = targets.mean(axis=0)

    def means(used: np.ndarray) -> np.ndarray:
        sums = np.zeros((count, targets.shape[1]))
        np.add.at(sums, codes[used], targets[used])
        n = np.bincount(codes[used], minlength=count)[:, None]
        return (sums + PRIOR_ROWS * usual) / (n + PRIOR_ROWS)

    fold = np.random.default_rng(0).permutation(len(codes)) % _FOLDS
    of_rows = np.empty_like(targets, dtype=float)
    for i in range(_FOLDS):
        here = fold == i
        of_rows[here] = means(np.flatnonzero(~here))[codes[here]]
    of_levels = means(np.arange(len(codes)))
    return LevelNumbers(
        np.hstack([of_levels, frequency]), np.hstack([of_rows, frequency[codes]]), np.append(usual, 0.0)
    )
