"""Which rows share a block, and which rows a block is given (maths 1.6, 11.1)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tightgp.numerics import chunks
from tightgp.numerics.chunks import PAD_FRACTION, Chunks, rounded_up

PARTITIONS = ("locality", "rows", "random")
#: So much of the inputs is in memory at a time: they may be a file that does not fit.
_PIECE_BYTES = 64 << 20
#: Rows with neighbours are cut into pieces of at most so many rows, whose whitened rows are in memory at once.
_PIECE_ROWS = 1 << 20
#: Single rows with neighbours are ordered by a tree with leaves of so many rows.
_LEAF = 64


@dataclass(frozen=True)
class Partition:
    """Blocks of ``size`` rows: "locality" groups neighbours, "rows" keeps the order, "random" shuffles by ``seed``.

    Each block is given up to ``neighbours`` rows of blocks that come before it in an order drawn by ``seed``.
    """

    size: int
    how: str = "rows"
    seed: int = 0
    neighbours: int = 0

    @property
    def trivial(self) -> bool:
        """Whether each row is by itself."""
        return self.size == 1 and not self.neighbours

    @property
    def needs_metric(self) -> bool:
        """Whether distances between rows decide which of them belong together."""
        return self.neighbours > 0 or (self.size > 1 and self.how == "locality")

    @property
    def given_per_row(self) -> int:
        """How many of the rows that its block is given are listed with each row."""
        return -(-self.neighbours // self.size)

    def pieces(self, count: int) -> Chunks:
        """How ``count`` rows are cut into pieces; a block is given rows of its own piece.

        This limits the memory for whitened rows. Padding makes no difference, nor does what else the machine can bear.
        """
        return chunks.plan(rounded_up(count, PAD_FRACTION), _PIECE_ROWS, self.size)

    def order(self, X: Any, metric: Any = None) -> np.ndarray | None:
        """The row order that makes the blocks consecutive; None for the order the rows have.

        "locality" is a median-split tree on ``X / metric``: each part is cut across its widest input into two parts of
        whole blocks. O(N log N), deterministic. A memory-mapped ``X`` is read a piece at a time: once for each level of
        the tree until parts fit into memory, and once more for all levels below.
        """
        if self.trivial or self.how == "rows":
            return None
        if self.how == "random":
            return np.random.default_rng(self.seed).permutation(len(X))
        leaf = _LEAF if self.size == 1 else self.size
        return _median_splits(np.asarray(X), leaf, np.asarray(metric))


#: Each row by itself.
SINGLE = Partition(1)


def _median_splits(X: np.ndarray, size: int, metric: np.ndarray) -> np.ndarray:
    blocks: list[np.ndarray] = []
    todo: list[tuple[np.ndarray, np.ndarray | None]] = [(np.arange(len(X)), None)]
    while todo:
        rows, columns = todo.pop()  # a part of the rows, and its inputs as columns once they fit into memory
        if len(rows) <= size:
            blocks.append(rows)
            continue
        if columns is None and len(rows) <= _rows_at_a_time(X):
            columns = np.ascontiguousarray(X[rows].T)
        column = _widest(X, rows, metric) if columns is None else columns[_widest_input([columns], metric)]
        left = -(-len(rows) // size) // 2 * size
        right = np.ones(len(rows), bool)
        right[np.argpartition(column, left - 1, kind="introselect")[:left]] = False
        for side in (right, ~right):
            todo.append((rows[side], None if columns is None else columns.compress(side, axis=1)))
    return np.concatenate(blocks)


def _widest_input(pieces: Iterable[np.ndarray], metric: np.ndarray) -> int:
    """The input with the largest range, from rows that come as columns in pieces."""
    low, high = zip(*((piece.min(axis=1), piece.max(axis=1)) for piece in pieces), strict=True)
    return int(np.argmax((np.max(high, axis=0).astype(np.float64) - np.min(low, axis=0)) / metric))


def _widest(X: np.ndarray, rows: np.ndarray, metric: np.ndarray) -> np.ndarray:
    """The column with the largest range, of rows that do not fit into memory."""
    step = _rows_at_a_time(X)
    parts = [slice(i, i + step) for i in range(0, len(rows), step)]
    widest = _widest_input((X[rows[part]].T for part in parts), metric)
    column = np.empty(len(rows), X.dtype)
    for part in parts:
        column[part] = X[rows[part], widest]
    return column


def _rows_at_a_time(X: np.ndarray) -> int:
    return max(1, _PIECE_BYTES // X[:1].nbytes)


def metric_of(X: Any, lengthscales: Sequence[Any]) -> np.ndarray:
    """Scales (d,) that make distances in different inputs comparable.

    They are the lengthscales of one or several functions, combined as ``1/√mean(1/ℓ²)``: squared distances in their
    units are then the mean of the functions' own. Without finite lengthscales, the inputs' standard deviations.
    """
    each = np.asarray([np.asarray(one, np.float64) for one in lengthscales])
    if not np.any(np.isfinite(each)):
        return _standard_deviations(np.asarray(X))
    if len(each) == 1:
        return each[0]
    with np.errstate(divide="ignore"):
        return 1 / np.sqrt(np.mean(1 / each**2, axis=0))


def _standard_deviations(X: np.ndarray) -> np.ndarray:
    step = _rows_at_a_time(X)
    parts = [slice(i, i + step) for i in range(0, len(X), step)]
    mean = np.sum([X[part].sum(axis=0, dtype=np.float64) for part in parts], axis=0) / len(X)
    sd = np.sqrt(np.sum([np.square(X[part] - mean).sum(axis=0) for part in parts], axis=0) / len(X))
    return np.where(sd > 0, sd, 1.0)
