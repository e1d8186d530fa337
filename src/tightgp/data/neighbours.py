"""Nearest rows: of new inputs among training rows, and of blocks of training rows among earlier blocks."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from tightgp.data.partition import Partition, metric_of

#: With more inputs than this a tree looks at most rows anyway: distances to all rows are then computed outright.
_TREE_INPUTS = 12
#: Distances computed at a time.
_DISTANCES = 1 << 24
#: Blocks before this many rows have come are searched outright: a tree over so few rows does not pay.
_FIRST = 2048


@dataclass(frozen=True)
class Reordered:
    """Rows of an array that may be a file, in another order; slices are read when they are asked for."""

    array: np.ndarray
    order: np.ndarray

    def __len__(self) -> int:
        return len(self.order)

    def __getitem__(self, which):
        return self.array[self.order[which]]


class NeighbourSearch(NamedTuple):
    """Rows whose inputs are divided by ``metric`` (d,), and a tree over them where inputs are few."""

    X: np.ndarray
    metric: np.ndarray
    tree: cKDTree | None

    @classmethod
    def of(cls, X: np.ndarray, lengthscales) -> "NeighbourSearch":
        """Prepare the search among rows ``X`` (n, d), in units of the lengthscales (d,)."""
        metric = metric_of(X, [lengthscales])
        scaled = np.asarray(X, np.float64) / metric
        return cls(scaled, metric, cKDTree(scaled) if scaled.shape[1] <= _TREE_INPUTS else None)

    def nearest(self, X: np.ndarray, count: int) -> np.ndarray:
        """Numbers (n, count) of the rows nearest to each of ``X``, nearest first; all rows where there are fewer."""
        count, asked = min(count, len(self.X)), np.asarray(X, np.float64) / self.metric
        if self.tree is None:
            return _by_distance(self.X, asked, count)
        workers = -1 if len(X) > 256 else 1  # for few rows, starting threads takes longer than the search
        return self.tree.query(asked, np.arange(1, count + 1), workers=workers)[1]


def conditioners(X: "np.ndarray | Reordered", metric: np.ndarray, partition: Partition, count: int) -> np.ndarray:
    """The rows that blocks are given, listed with the rows of each block (maths 11.1).

    Blocks come in an order drawn at random. A block is given the rows of earlier blocks that are nearest to its mean,
    exactly.

    Args:
        X: inputs (n, d) in the order in which blocks are consecutive.
        metric: (d,), what inputs are divided by.
        partition: blocks and how many rows they are given.
        count: rows of the placed data, padding included: `Partition.pieces` of so many are searched one by one.

    Returns:
        Numbers of rows within their piece, -1 for none: a row of w numbers for each row of whole blocks.
    """
    size = partition.pieces(count).size
    pieces = (X[start : start + size] for start in range(0, len(X), size))
    return np.concatenate([earlier_rows(np.asarray(piece, np.float64) / metric, partition) for piece in pieces])


def groups(conditioners: np.ndarray, partition: Partition, rows: int) -> np.ndarray:
    """The rows of each block (b, t): first those that it is given, then its own; -1 for none.

    Args:
        conditioners: what `conditioners` returned, for all placed rows.
        partition: blocks and how many rows they are given.
        rows: how many of the placed rows are not padding.
    """
    own = np.arange(len(conditioners), dtype=np.int32).reshape(-1, partition.size)
    piece = partition.pieces(len(conditioners)).size
    given = conditioners.reshape(len(own), -1)
    given = np.where(given < 0, -1, given + own[:, :1] // piece * piece)
    return np.concatenate([given, np.where(own < rows, own, -1)], axis=1)[: -(-rows // partition.size)]


def arrival(blocks: int, seed: int) -> np.ndarray:
    """The blocks in the order in which they come."""
    return np.random.default_rng(seed).permutation(blocks)


def earlier_rows(X: np.ndarray, partition: Partition) -> np.ndarray:
    """`conditioners` within one piece, whose inputs are scaled."""
    size, n = partition.size, len(X)
    starts = np.arange(0, n, size)
    means = np.add.reduceat(X, starts, axis=0) / np.diff(np.append(starts, n))[:, None]
    come = arrival(len(starts), partition.seed)
    place = np.empty(len(starts), np.int64)
    place[come] = np.arange(len(starts))
    of_row = np.repeat(place, size)[:n]  # the place of each row's block in that order
    rows = np.argsort(of_row, kind="stable")  # the rows in the order in which they come
    answer = np.full((len(starts), size * partition.given_per_row), -1, np.int32)
    first = 1
    while first < len(starts):
        last = min(len(starts), max(_FIRST // size, first + first // 2, first + 1))
        ready = rows[: np.searchsorted(of_row[rows], last)]  # all rows of blocks up to this stage's last
        asked, count = come[first:last], min(partition.neighbours, len(ready))
        at = place[asked]
        if X.shape[1] <= _TREE_INPUTS and first * size >= _FIRST:
            near = _earlier_by_tree(X[ready], of_row[ready], means[asked], at, count)
        else:
            near = _by_distance(X[ready], means[asked], count, of_row[ready], at)
        answer[asked, :count] = np.where(near < 0, -1, ready[near])
        first = last
    return answer.reshape(-1, partition.given_per_row)


def _earlier_by_tree(X: np.ndarray, place: np.ndarray, asked: np.ndarray, at: np.ndarray, count: int) -> np.ndarray:
    """Numbers (q, count) of the rows of ``X`` nearest to each of ``asked`` with a lower place, -1 for none."""
    tree = cKDTree(X)
    answer = np.full((len(asked), count), -1, np.int64)
    todo, wanted = np.arange(len(asked)), min(2 * count, len(X))
    while len(todo):
        near = tree.query(asked[todo], np.arange(1, wanted + 1), workers=-1)[1]
        earlier = place[near] < at[todo, None]
        enough = (np.sum(earlier, axis=1) >= count) | (wanted == len(X))
        first = np.argsort(~earlier[enough], axis=1, kind="stable")[:, :count]
        answer[todo[enough]] = np.where(
            np.take_along_axis(earlier[enough], first, axis=1), np.take_along_axis(near[enough], first, axis=1), -1
        )
        todo, wanted = todo[~enough], min(2 * wanted, len(X))
    return answer


def _by_distance(
    X: np.ndarray, asked: np.ndarray, count: int, place: np.ndarray | None = None, at: np.ndarray | None = None
) -> np.ndarray:
    """Numbers (q, count) of the rows of ``X`` nearest to each of ``asked``, from all distances in single precision.

    With ``place``, of rows with a lower place than ``at``; -1 stands where there are too few.
    """
    middle = X.mean(axis=0)
    X, asked = (np.asarray(a - middle, np.float32) for a in (X, asked))
    squares, answer = np.sum(X * X, axis=1), np.full((len(asked), count), -1, np.int64)
    step = max(1, _DISTANCES // len(X))
    for start in range(0, len(asked), step):
        part = slice(start, start + step)
        distance = squares - 2 * (asked[part] @ X.T)
        if place is not None and at is not None:
            distance[place >= at[part, None]] = np.inf
        near = np.argpartition(distance, min(count, len(X) - 1), axis=1)[:, :count]
        nearest = np.take_along_axis(distance, near, axis=1)
        ranked = np.argsort(nearest, axis=1, kind="stable")
        near, nearest = (np.take_along_axis(a, ranked, axis=1) for a in (near, nearest))
        answer[part] = np.where(np.isinf(nearest), -1, near)
    return answer
