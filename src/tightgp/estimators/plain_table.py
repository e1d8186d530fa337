"""Tables of numbers: their columns, their scales, and rows that are found again."""

import hashlib

import numpy as np

from tightgp import cells


def is_frame(X) -> bool:
    """Whether ``X`` has named columns."""
    return hasattr(X, "iloc") and hasattr(X, "columns")


def like(X, values: np.ndarray):
    """``values`` as a frame where ``X`` is one."""
    if not is_frame(X):
        return values
    import pandas as pd

    return pd.DataFrame(values, index=X.index, columns=X.columns)


def numbers(name: str, column, training: bool) -> np.ndarray:
    """A column's numbers, NaN where one is missing; refused where it holds anything else."""
    kind = cells.kind_of(name, column)
    if kind == "empty" and training:
        raise ValueError(f"column {name!r} has no values at all in the training rows; drop it")
    if kind not in ("number", "empty"):
        raise ValueError(f"column {name!r} holds no numbers; BayesianGPLVM takes numbers alone: drop it or encode it")
    return cells.numbers(name, column)


def standards(table: np.ndarray, each: bool) -> tuple[np.ndarray, np.ndarray]:
    """Mean and scale of each column; scale one where all differ by rounding alone."""
    spread = np.nanstd(table, axis=0)
    varies = spread > 16 * np.finfo(np.float64).eps * np.nanmax(np.abs(table), axis=0)
    if not each and np.any(varies):
        spread, varies = np.full(len(spread), np.sqrt(np.mean(spread[varies] ** 2))), np.full(len(spread), True)
    return np.nanmean(table, axis=0), np.where(varies, spread, 1.0)


def marks(table: np.ndarray) -> np.ndarray:
    """A number for each row, by which equal rows are found again without keeping them."""
    plain = np.where(np.isnan(table), np.nan, table) + 0.0  # one NaN and one zero
    digests = (hashlib.blake2b(row.tobytes(), digest_size=8).digest() for row in plain)
    return np.frombuffer(b"".join(digests), np.uint64)


def found(marks: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Which of ``marks`` each of ``wanted`` is, the first of equal ones; -1 where it is none."""
    order = np.argsort(marks, kind="stable")
    place = np.minimum(np.searchsorted(marks[order], wanted), len(marks) - 1)
    return np.where(marks[order][place] == wanted, order[place], -1)
