"""Which rows share a block of V: orders of the rows in which blocks are consecutive (maths 1.6)."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from tightgp.conditionals import Conditional
from tightgp.kernels import Kernel

#: So much of the inputs is in memory at a time: they may be a file that does not fit there.
_PIECE_BYTES = 64 << 20


def arrange(structure: Conditional, kernels: Sequence[Kernel], X: Any) -> tuple[Conditional, np.ndarray | None]:
    """``structure`` with its partition of ``X`` fixed, and the row order that makes its blocks consecutive.

    The metric that decides which rows are neighbours is the structure's own where it has one, and else made of the
    kernels' lengthscales and stored in it. The order is None where the rows have it already.
    """
    if structure.size == 1 or structure.partition != "locality":
        return structure, order(X, structure, np.ones(X.shape[1]))
    own = structure.metric
    scales: list[Any] = [k.length_scales(X.shape[1]) for k in kernels] if own is None else [own]
    if any(isinstance(one, jax.core.Tracer) for one in (X, *scales)):
        raise ValueError(
            "a partition into neighbours needs known inputs and lengthscales; inside a JAX trace use "
            "`model, rows = model.prepare(data)` before it and `model.objective(rows)` in it"
        )
    if own is None:
        structure = replace(structure, metric=tuple(map(float, metric(X, combined(scales)))))
    return structure, order(X, structure, np.asarray(structure.metric))


def combined(length_scales: Sequence[Any]) -> np.ndarray:
    """One lengthscale for each input from those of several functions: ``1/√mean(1/ℓ²)``, infinite where none sees it.

    Squared distances in its units are then the mean of the functions' own.
    """
    each = np.asarray([np.asarray(one, np.float64) for one in length_scales])
    if len(each) == 1:
        return each[0]
    with np.errstate(divide="ignore"):
        return 1 / np.sqrt(np.mean(1 / each**2, axis=0))


def order(X: Any, structure: Conditional, metric: np.ndarray) -> np.ndarray | None:
    """The row order that makes ``structure``'s blocks consecutive; None where it is the order they have.

    "locality" is a median-split tree on ``X / metric``: each part is cut across its widest input into two
    parts of whole blocks. O(N log N), deterministic. A memory-mapped ``X`` is read a piece at a time: for each
    level of the tree until parts fit into memory, and once more for all levels below.
    """
    if structure.size == 1 or structure.partition == "rows":
        return None
    if structure.partition == "random":
        return np.random.default_rng(structure.seed).permutation(len(X))
    return _neighbours(np.asarray(X), structure.size, np.asarray(metric))


def _neighbours(X: np.ndarray, size: int, metric: np.ndarray) -> np.ndarray:
    blocks: list[np.ndarray] = []
    todo: list[tuple[np.ndarray, np.ndarray | None]] = [(np.arange(len(X)), None)]
    while todo:
        rows, columns = todo.pop()  # a part of the rows, and its inputs as columns once they fit into memory
        if len(rows) <= size:
            blocks.append(rows)
            continue
        if columns is None and len(rows) <= _rows_at_a_time(X):
            columns = np.ascontiguousarray(X[rows].T)
        column = _widest(X, rows, metric) if columns is None else columns[_across([columns], metric)]
        left = -(-len(rows) // size) // 2 * size
        right = np.ones(len(rows), bool)
        right[np.argpartition(column, left - 1, kind="introselect")[:left]] = False
        for side in (right, ~right):
            todo.append((rows[side], None if columns is None else columns.compress(side, axis=1)))
    return np.concatenate(blocks)


def _across(pieces: Iterable[np.ndarray], metric: np.ndarray) -> int:
    """The input in which rows, given as columns in pieces, spread widest."""
    low, high = zip(*((piece.min(axis=1), piece.max(axis=1)) for piece in pieces), strict=True)
    return int(np.argmax((np.max(high, axis=0).astype(np.float64) - np.min(low, axis=0)) / metric))


def _widest(X: np.ndarray, rows: np.ndarray, metric: np.ndarray) -> np.ndarray:
    """The widest input of rows that do not fit into memory."""
    step = _rows_at_a_time(X)
    parts = [slice(i, i + step) for i in range(0, len(rows), step)]
    across = _across((X[rows[part]].T for part in parts), metric)
    column = np.empty(len(rows), X.dtype)
    for part in parts:
        column[part] = X[rows[part], across]
    return column


def _rows_at_a_time(X: np.ndarray) -> int:
    return max(1, _PIECE_BYTES // X[:1].nbytes)


def metric(X: Any, length_scales: np.ndarray) -> np.ndarray:
    """Scales that make distances in different inputs comparable: lengthscales, or spreads where there is none."""
    if np.any(np.isfinite(length_scales)):
        return np.asarray(length_scales)
    X = np.asarray(X)
    step = _rows_at_a_time(X)
    parts = [slice(i, i + step) for i in range(0, len(X), step)]
    mean = np.sum([X[part].sum(axis=0, dtype=np.float64) for part in parts], axis=0) / len(X)
    spread = np.sqrt(np.sum([np.square(X[part] - mean).sum(axis=0) for part in parts], axis=0) / len(X))
    return np.where(spread > 0, spread, 1.0)
