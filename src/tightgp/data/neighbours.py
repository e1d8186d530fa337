"""Nearest rows: of new inputs among training rows, and of blocks of training rows among earlier blocks."""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial import cKDTree

from tightgp.data.partition import Partition, metric_of
from tightgp.numerics.device import on_cpu

#: With more inputs than this a tree looks at most rows anyway: distances to all rows are then computed outright.
_TREE_INPUTS = 12
#: Distances that an accelerator computes at a time.
_DISTANCES = 1 << 26
#: Differences of coordinates that a search among recent rows holds at a time.
_DIFFERENCES = 1 << 24
#: A search is prepared anew once more rows have come after it than this number and this share of them.
_RECENT, _RECENT_SHARE = 256, 32
#: Blocks before this many rows have come are searched in one go: their prefixes would be very small.
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


class Finder(Protocol):
    """Finds the nearest of some rows, exactly."""

    def __call__(self, asked: np.ndarray, count: int) -> np.ndarray:
        """Numbers (q, count) of the rows nearest to each of ``asked``, nearest first."""


class _ByTree:
    """A k-d tree."""

    def __init__(self, X: np.ndarray):
        self.tree = cKDTree(X)

    def __call__(self, asked, count):
        workers = -1 if len(asked) > 256 else 1  # for few rows, starting threads takes longer than the search
        return self.tree.query(asked, np.arange(1, count + 1), workers=workers)[1]


class _ByDistance:
    """All distances, by scikit-learn."""

    def __init__(self, X: np.ndarray):
        from sklearn.neighbors import NearestNeighbors

        self.middle = X.mean(axis=0)  # products of centred rows keep the digits of their distances
        self.rows = NearestNeighbors(algorithm="brute").fit(X - self.middle)

    def __call__(self, asked, count):
        return self.rows.kneighbors(asked - self.middle, count, return_distance=False)


class _ByDevice:
    """All distances, on an accelerator."""

    def __init__(self, X: np.ndarray):
        self.X = X

    def __call__(self, asked, count):
        before = np.zeros(len(self.X), np.int32), np.ones(len(asked), np.int32)
        return _earlier_on_device(self.X, before[0], asked, before[1], count)


class _WithRecent:
    """A search prepared among most rows, and all distances to a few that came after it was."""

    def __init__(self, older: Finder, X: np.ndarray, recent: np.ndarray):
        self.older, self.X, self.recent = older, X, recent

    def __call__(self, asked, count):
        before, width = len(self.X) - len(self.recent), self.X.shape[1]
        near = self.older(asked, min(count, before))
        step = max(1, _DIFFERENCES // (width * max(near.shape[1], len(self.recent))))
        starts = range(0, max(1, len(asked)), step)
        return np.concatenate([self._nearest(asked[i : i + step], near[i : i + step], count) for i in starts])

    def _nearest(self, asked: np.ndarray, near: np.ndarray, count: int) -> np.ndarray:
        """The nearest of the rows ``near`` each of ``asked`` and of the recent ones."""
        before = len(self.X) - len(self.recent)
        numbers = np.concatenate(
            [near, np.broadcast_to(np.arange(before, len(self.X)), (len(asked), len(self.recent)))], 1
        )
        distances = np.concatenate([_distances(asked, self.X[near]), _distances(asked, self.recent[None])], axis=1)
        return np.take_along_axis(numbers, np.argsort(distances, axis=1, kind="stable")[:, :count], axis=1)


def _distances(asked: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Squared distances (q, k) between each of ``asked`` (q, d) and its own rows (q, k, d)."""
    return np.sum(np.square(asked[:, None] - rows), axis=2)


def finder(X: np.ndarray) -> Finder:
    """The quickest search among rows ``X``: a tree where inputs are few, all distances where they are many."""
    if X.shape[1] <= _TREE_INPUTS:
        return _ByTree(X)
    return _ByDistance(X) if on_cpu() else _ByDevice(X)


class NeighbourSearch(NamedTuple):
    """Rows whose inputs are divided by ``metric`` (d,), ready to be searched."""

    X: np.ndarray
    metric: np.ndarray
    find: Finder

    @classmethod
    def of(cls, X: np.ndarray, lengthscales) -> "NeighbourSearch":
        """Prepare the search among rows ``X`` (n, d), in units of the lengthscales (d,)."""
        metric = metric_of(X, [lengthscales])
        scaled = np.asarray(X, np.float64) / metric
        return cls(scaled, metric, finder(scaled))

    def with_rows(self, X: np.ndarray) -> "NeighbourSearch":
        """The search among these rows and then ``X`` too; prepared anew only after many rows have come."""
        added = np.asarray(X, np.float64) / self.metric
        rows = np.concatenate([self.X, added])
        recent, older = added, self.find
        if isinstance(older, _WithRecent):
            recent, older = np.concatenate([older.recent, added]), older.older
        few = len(recent) <= max(_RECENT, (len(rows) - len(recent)) // _RECENT_SHARE)
        return NeighbourSearch(rows, self.metric, _WithRecent(older, rows, recent) if few else finder(rows))

    def given_to_last(self, number: int, partition: Partition) -> np.ndarray:
        """The rows that blocks of the last ``number`` rows are given (b, k), -1 for none, from all rows before them.

        These rows are in the order in which blocks are consecutive, and blocks come in that order.
        """
        before, size = len(self.X) - number, partition.size
        blocks = -(-number // size)
        place = np.concatenate([np.zeros(before, np.int64), 1 + np.arange(number) // size])
        count = min(partition.neighbours, len(self.X))
        search = partial(_earlier_of, self.find, place)
        return _given(self.X[before:], partition, np.arange(blocks), 1 + np.arange(blocks), search, self.X, count)

    def nearest(self, X: np.ndarray, count: int) -> np.ndarray:
        """Numbers (n, count) of the rows nearest to each of ``X``, nearest first; all rows where there are fewer."""
        return self.find(np.asarray(X, np.float64) / self.metric, min(count, len(self.X)))


def conditioners(X: "np.ndarray | Reordered", metric: np.ndarray, partition: Partition, count: int) -> np.ndarray:
    """The rows that blocks are given, listed with the rows of each block (maths 11.1).

    Blocks come in an order drawn at random. A block is given rows of earlier blocks: the nearest of each of its rows,
    exactly, then the second nearest of each, and so on.

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
    blocks = -(-n // size)
    come = arrival(blocks, partition.seed)
    place = np.empty(blocks, np.int64)
    place[come] = np.arange(blocks)
    of_row = np.repeat(place, size)[:n]  # the place of each row's block in that order
    answer = np.full((blocks, size * partition.given_per_row), -1, np.int32)
    count = min(partition.neighbours, n)
    if X.shape[1] > _TREE_INPUTS and not on_cpu():
        search = partial(_earlier_on_device, X, of_row)
        answer[:, :count] = _given(X, partition, np.arange(blocks), place, search, X, count)
        return answer.reshape(-1, partition.given_per_row)
    first = 1
    while first < blocks:  # stages of that order: each adds a quarter to all blocks before it
        last = min(blocks, max(_FIRST // size, first + first // 4, first + 1))
        # Rows close to each other follow one another here: a processor's cache makes that more than twice as fast.
        ready, asked = np.flatnonzero(of_row < last), np.sort(come[first:last])
        among = X[ready]
        search = partial(_earlier_of, finder(among), of_row[ready])
        near = _given(X, partition, asked, place, search, among, min(count, len(ready)))
        answer[asked, : near.shape[1]] = np.where(near < 0, -1, ready[near])
        first = last
    return answer.reshape(-1, partition.given_per_row)


def _given(
    X: np.ndarray, partition: Partition, asked: np.ndarray, place: np.ndarray, search, among: np.ndarray, count: int
) -> np.ndarray:
    """Numbers (q, count) of the earlier rows that the blocks ``asked`` are given, -1 for none.

    The nearest of each row of the block, then the second nearest of each and so on; of these the closer ones first, so
    that the order of the rows in the block makes no difference. Where rows share so many that these are too few, those
    nearest to the block's mean follow. ``search`` finds earlier rows ``among`` some: (inputs, places, count).
    """
    size = partition.size
    own = np.minimum(asked[:, None] * size + np.arange(size), len(X) - 1).ravel()
    each = min(count, 2 * -(-count // size) + 2)
    near = search(X[own], np.repeat(place[asked], size), each).reshape(len(asked), size, each)
    if size > 1:
        distance = np.sum(np.square(among[near] - X[own].reshape(len(asked), size, 1, -1)), axis=3)
        closest = np.argsort(np.where(near < 0, np.inf, distance), axis=1, kind="stable")
        near = np.take_along_axis(near, closest, axis=1)
    near = near.swapaxes(1, 2).reshape(len(asked), -1)
    near = _first_distinct(near, count)
    short = np.flatnonzero((near[:, -1] < 0) & (size > 1))
    if len(short):
        means = np.stack([X[start : start + size].mean(axis=0) for start in asked[short] * size])
        more = search(means, place[asked[short]], count)
        near[short] = _first_distinct(np.concatenate([near[short], more], axis=1), count)
    return near


def _first_distinct(numbers: np.ndarray, count: int) -> np.ndarray:
    """The first ``count`` different numbers of each row, -1 for none; those below zero do not count."""
    order = np.argsort(numbers, axis=1, kind="stable")
    ranked = np.take_along_axis(numbers, order, axis=1)
    again = np.zeros(numbers.shape, bool)
    np.put_along_axis(again, order[:, 1:], ranked[:, 1:] == ranked[:, :-1], axis=1)
    left_out = again | (numbers < 0)
    first = np.argsort(left_out, axis=1, kind="stable")[:, :count]
    picked = np.where(np.take_along_axis(left_out, first, axis=1), -1, np.take_along_axis(numbers, first, axis=1))
    return np.pad(picked, ((0, 0), (0, count - picked.shape[1])), constant_values=-1)


def _earlier_of(find: Finder, place: np.ndarray, asked: np.ndarray, at: np.ndarray, count: int) -> np.ndarray:
    """Numbers (q, count) of the rows nearest to each of ``asked`` whose place is before ``at``, -1 for none."""
    answer = np.full((len(asked), count), -1, np.int64)
    todo, wanted = np.arange(len(asked)), min(count + count // 2 + 1, len(place))
    while len(todo):
        near = find(asked[todo], wanted)
        earlier = place[near] < at[todo, None]
        enough = (np.sum(earlier, axis=1) >= count) | (wanted == len(place))
        first = np.argsort(~earlier[enough], axis=1, kind="stable")[:, :count]
        answer[todo[enough]] = np.where(
            np.take_along_axis(earlier[enough], first, axis=1), np.take_along_axis(near[enough], first, axis=1), -1
        )
        todo, wanted = todo[~enough], min(2 * wanted, len(place))
    return answer


def _earlier_on_device(X: np.ndarray, place, asked: np.ndarray, at, count: int) -> np.ndarray:
    """The same from all distances, in single precision."""
    middle = X.mean(axis=0)
    rows, asked = (np.asarray(a - middle, np.float32) for a in (X, asked))
    step = min(len(asked), max(1, _DISTANCES // len(X)))
    padded = np.pad(asked, ((0, -len(asked) % step), (0, 0)), mode="edge")
    at = np.pad(np.asarray(at, np.int32), (0, len(padded) - len(asked)), mode="edge")
    given = jnp.asarray(rows), jnp.asarray(place, jnp.int32)
    parts = [_nearest_before(*given, padded[i : i + step], at[i : i + step], count) for i in range(0, len(asked), step)]
    return np.concatenate([np.asarray(part) for part in parts])[: len(asked)]


@partial(jax.jit, static_argnums=4)
def _nearest_before(X, place, asked, at, count: int) -> Any:
    products = jnp.matmul(asked, X.T, precision="highest")
    distance = jnp.sum(X * X, axis=1) - 2 * products
    distance = jnp.where(place < at[:, None], distance, jnp.inf)
    near, index = jax.lax.top_k(-distance, count)
    return jnp.where(jnp.isinf(near), -1, index)
