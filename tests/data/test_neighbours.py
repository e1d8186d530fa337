"""The nearest training rows are those that brute force finds, in the space that the kernel sees."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tightgp as tgp
from tightgp import kernels
from tightgp.data import neighbours
from tightgp.data.neighbours import NeighbourSearch, conditioners
from tightgp.data.partition import Partition

laws = settings(max_examples=40, deadline=None, derandomize=True)


def search(rows, kernel):
    return NeighbourSearch.of(rows, kernel.length_scales(rows.shape[1]))


def distances(X, rows, scales):
    return np.linalg.norm((X[:, None] - rows[None]) / scales, axis=2)


def check(kernel, rows, X, count, scales):
    found = search(rows, kernel).nearest(X, count)
    count = min(count, len(rows))
    every = distances(X, rows, scales)
    assert found.shape == (len(X), count)
    assert all(len(set(one)) == count for one in found.tolist())
    by_tree = np.take_along_axis(every, found, axis=1)
    np.testing.assert_allclose(by_tree, np.sort(every, axis=1)[:, :count], rtol=1e-9, atol=1e-12)


@laws
@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(1, 60),
    d=st.integers(1, 5),
    count=st.integers(1, 80),
    tied=st.booleans(),
    dtype=st.sampled_from([np.float64, np.float32]),
)
def test_nearest_rows_are_those_of_brute_force(seed, n, d, count, tied, dtype):
    """With ties (rows on a grid) any of the rows that are equally far will do."""
    rng = np.random.default_rng(seed)
    rows, X = rng.normal(size=(n, d)), rng.normal(size=(7, d))
    if tied:
        rows, X = np.round(rows), np.round(X)
    rows, X = rows.astype(dtype), X.astype(dtype)
    scales = 10 ** rng.uniform(-2, 2, size=d)
    check(kernels.Matern32(1.0, scales), rows, X, count, scales)


@pytest.mark.parametrize("cpu", [True, False])
def test_many_inputs(rng, monkeypatch, cpu):
    """From all distances, by scikit-learn or on an accelerator, for which this machine's device stands in."""
    monkeypatch.setattr(neighbours, "on_cpu", lambda: cpu)
    monkeypatch.setattr(neighbours, "_DISTANCES", 300)
    rows, X = 1e4 + rng.normal(size=(70, 15)), 1e4 + rng.normal(size=(9, 15))
    check(kernels.Matern32(1.0, np.full(15, 2.0)), rows, X, 20, np.full(15, 2.0))
    check(kernels.Matern32(1.0, np.full(15, 2.0)), rows, X, 80, np.full(15, 2.0))


def test_an_input_that_the_kernel_does_not_see_tells_no_rows_apart(rng):
    rows, X = rng.normal(size=(50, 3)) * [1, 1000, 1], rng.normal(size=(9, 3)) * [1, 1000, 1]
    check(kernels.Matern32(1.0, [0.3, 2.0], active_dims=[0, 2]), rows, X, 5, [0.3, np.inf, 2.0])


def test_a_sum_takes_the_shorter_lengthscale_of_each_input(rng):
    rows, X = rng.normal(size=(50, 2)), rng.normal(size=(9, 2))
    parts = kernels.Matern32(1.0, [0.3, 2.0]), kernels.SquaredExponential(1.0, [5.0, 0.1])
    check(parts[0] + parts[1], rows, X, 5, [0.3, 0.1])
    check(parts[0] * parts[1] + 0.4, rows, X, 5, [0.3, 0.1])


def test_spreads_stand_in_for_lengthscales_where_there_are_none(rng):
    rows, X = rng.normal(size=(50, 2)) * [1, 100], rng.normal(size=(9, 2)) * [1, 100]
    check(kernels.Linear(), rows, X, 5, rows.std(axis=0))
    rows[:, 1] = 3.0  # without a spread an input is taken as it is
    check(kernels.Linear(), rows, X, 5, [rows[:, 0].std(), 1.0])


@pytest.mark.parametrize("kernel", [kernels.Matern32(1.0, 0.5), kernels.Linear()], ids=["Matern32", "Linear"])
def test_rows_that_are_all_the_same(kernel):
    found = search(np.full((200, 2), 1.5), kernel).nearest(np.zeros((3, 2)), 20)
    assert all(len(set(one)) == 20 for one in found.tolist())


def test_inputs_far_from_the_origin_keep_their_neighbours():
    """Float32 rows are looked at in float64, divided by lengthscales: nothing that was told apart is lost."""
    rows = (np.float32(1e6) + np.arange(40, dtype=np.float32))[:, None]
    found = search(rows, tgp.kernels.Matern32(1.0, np.float32(3e-3))).nearest(rows, 1)
    np.testing.assert_array_equal(found[:, 0], np.arange(40))


def given(X, partition):
    """What each block is given, by sorting all distances."""
    starts = np.arange(0, len(X), partition.size)
    place = np.empty(len(starts), int)
    place[np.random.default_rng(partition.seed).permutation(len(starts))] = np.arange(len(starts))
    of_row = np.repeat(place, partition.size)[: len(X)]
    sets = []
    for i, start in enumerate(starts):
        own, earlier = X[start : start + partition.size], np.flatnonzero(of_row < place[i])
        own = own[np.minimum(np.arange(partition.size), len(own) - 1)]
        each = 2 * -(-min(partition.neighbours, len(X)) // partition.size) + 2
        nearest = [nearest_first(X, earlier, x)[:each] for x in own]
        ranked = []
        for rank in range(each):
            layer = [
                (np.sum((X[one[rank]] - x) ** 2), one[rank])
                for x, one in zip(own, nearest, strict=True)
                if rank < len(one)
            ]
            ranked += [row for _, row in sorted(layer, key=lambda pair: pair[0])]
        ranked += nearest_first(X, earlier, X[start : start + partition.size].mean(axis=0)).tolist()
        sets.append(set(list(dict.fromkeys(ranked))[: partition.neighbours]))
    return sets


def nearest_first(X, rows, x):
    return rows[np.argsort(np.sum((X[rows] - x) ** 2, axis=1), kind="stable")]


def found(X, partition):
    rows = conditioners(X, np.ones(X.shape[1]), partition, len(X))
    blocks = rows.reshape(-(-len(X) // partition.size), -1)
    assert all(len(set(block[block >= 0])) == np.sum(block >= 0) for block in blocks), "a row is given twice"
    return [set(block[block >= 0].tolist()) for block in blocks]


@pytest.mark.parametrize(("inputs", "cpu"), [(2, True), (20, True), (20, False)])  # tree, distances, on a device
@pytest.mark.parametrize(("rows", "size", "count"), [(900, 16, 32), (600, 1, 5), (50, 16, 32), (5, 16, 4), (17, 4, 40)])
def test_blocks_are_given_the_nearest_earlier_rows(rng, monkeypatch, inputs, cpu, rows, size, count):
    monkeypatch.setattr(neighbours, "on_cpu", lambda: cpu)
    monkeypatch.setattr(neighbours, "_FIRST", 200)  # so that there are several searches
    X = rng.normal(size=(rows, inputs))
    partition = Partition(size, "locality", 0, count)
    assert found(X, partition) == given(X, partition)


def test_recent_rows_are_searched_in_parts(rng, monkeypatch):
    rows, X, metric = rng.normal(size=(120, 3)), rng.normal(size=(50, 3)), np.array([1.0, 2.0, 0.5])
    grown, sizes, distances_of = NeighbourSearch.of(rows[:80], metric).with_rows(rows[80:]), [], neighbours._distances
    monkeypatch.setattr(neighbours, "_DIFFERENCES", 3 * 40 * 7)
    monkeypatch.setattr(neighbours, "_distances", lambda asked, to: sizes.append(len(asked)) or distances_of(asked, to))
    near = grown.nearest(X, 10)
    assert max(sizes) == 7
    np.testing.assert_array_equal(near, NeighbourSearch.of(rows, metric).nearest(X, 10))
    assert grown.nearest(X[:0], 10).shape == (0, 10)


def test_every_block_comes_after_what_it_is_given(rng):
    """Also where many rows are equal: no circle, or the model would not be one."""
    X = np.repeat(rng.integers(0, 3, size=(600, 2)).astype(float), 5, axis=0)
    partition = Partition(8, "locality", 3, 16)
    place = np.empty(len(X) // 8, int)
    place[np.random.default_rng(3).permutation(len(place))] = np.arange(len(place))
    for block, rows in enumerate(found(X, partition)):
        assert all(place[row // 8] < place[block] for row in rows)
        assert len(rows) == min(16, 8 * place[block])


def test_pieces_are_searched_by_themselves(rng, monkeypatch):
    monkeypatch.setattr("tightgp.data.partition._PIECE_ROWS", 200)
    X, partition = rng.normal(size=(1000, 2)), Partition(8, "locality", 0, 16)
    pieces = partition.pieces(1000)
    assert pieces.number > 1
    assert pieces.size <= 200 + 8
    rows = conditioners(X, np.ones(2), partition, 1000)
    for start in range(0, 1000, pieces.size):
        piece = X[start : start + pieces.size]
        np.testing.assert_array_equal(
            rows[start : start + pieces.size], conditioners(piece, np.ones(2), partition, len(piece))
        )


@pytest.mark.parametrize("inputs", [2, 15])
def test_a_search_survives_pickling(rng, inputs):
    rows = rng.normal(size=(30, inputs))
    made = NeighbourSearch.of(rows, np.ones(inputs))
    copy = pickle.loads(pickle.dumps(made))
    np.testing.assert_array_equal(copy.nearest(rows[:3], 5), made.nearest(rows[:3], 5))
