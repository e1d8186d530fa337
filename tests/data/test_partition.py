import tempfile
import tracemalloc
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tightgp as tgp
from tightgp.data import partition
from tightgp.data.partition import Partition, metric_of

X = np.random.default_rng(1).normal(size=(103, 2))
SIZES = [2, 5, 8, 64, 102, 103, 200]
ones = np.ones(2)


def blocks(X, size, metric=ones, how="locality"):
    """Row numbers of each block."""
    order = Partition(size, how).order(X, metric)
    return [order[i : i + size] for i in range(0, len(order), size)]


def spread(X, parts):
    """Mean distance between two rows of one block."""
    pairs = [np.linalg.norm(X[i] - X[j]) for part in parts for i in part for j in part if i < j]
    return np.mean(pairs)


@pytest.mark.parametrize("kind", ["locality", "random"])
@pytest.mark.parametrize("size", SIZES)
def test_order_is_a_permutation(size, kind):
    order = tgp.Block(size, kind).partition.order(X, ones)
    np.testing.assert_array_equal(np.sort(order), np.arange(103))


@pytest.mark.parametrize("structure", [tgp.Block(1), tgp.Block(8, "rows"), tgp.PowerEP(0.5)], ids=["1", "rows", "ep"])
def test_rows_as_they_are(structure):
    assert structure.partition.order(X, ones) is None


@pytest.mark.parametrize("size", SIZES)
def test_blocks_in_one_dimension_are_runs_of_sorted_rows(size):
    """Every cut falls between whole blocks, so only the last block may be smaller."""
    column = X[:, :1]
    expected = np.argsort(column[:, 0])
    got = blocks(column, size, np.ones(1))
    assert [len(part) for part in got[:-1]] == [size] * (len(got) - 1)
    for i, part in enumerate(got):
        assert set(part) == set(expected[i * size : (i + 1) * size])


@pytest.mark.parametrize("size", [5, 8, 64])
def test_blocks_do_not_depend_on_the_order_of_rows(size):
    shuffle = np.random.default_rng(2).permutation(103)
    before = {frozenset(part) for part in blocks(X, size)}
    after = {frozenset(shuffle[part]) for part in blocks(X[shuffle], size)}
    assert before == after
    assert len(before) == -(-103 // size)


@pytest.mark.parametrize("kind", ["locality", "random"])
def test_deterministic(kind):
    first, again = (tgp.Block(8, kind).partition.order(X.copy(), ones) for _ in range(2))
    np.testing.assert_array_equal(first, again)


def test_random_by_seed():
    first, other = (tgp.Block(8, "random", seed=seed).partition.order(X, ones) for seed in (0, 1))
    assert not np.array_equal(first, other)
    assert not np.array_equal(first, np.arange(103))


@pytest.mark.parametrize("size", [4, 8, 10])
def test_neighbours_share_blocks(size):
    near = spread(X, blocks(X, size))
    assert near < 0.5 * spread(X, blocks(X, size, how="random"))
    assert near < 0.5 * spread(X, [np.arange(103)[i : i + size] for i in range(0, 103, size)])


def test_clusters_are_blocks():
    corners = 100.0 * np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    cluster = np.arange(32) % 4
    got = blocks(corners[cluster] + np.resize(X, (32, 2)), 8)
    assert [len(set(cluster[part])) for part in got] == [1] * 4


def test_cuts_go_across_the_widest_input_after_scaling():
    wide = X * [1.0, 1e3]
    for metric, column in [([1.0, 1e9], 0), ([1e9, 1.0], 1), ([1.0, np.inf], 0), ([1.0, 1.0], 1)]:
        got = blocks(wide, 26, np.array(metric))
        expected = np.argsort(wide[:, column])
        assert [set(part) for part in got] == [set(expected[i : i + 26]) for i in range(0, 103, 26)]


def test_equal_rows():
    got = blocks(np.ones((11, 2)), 4)
    assert [len(part) for part in got] == [4, 4, 3]
    assert sorted(np.concatenate(got)) == list(range(11))


def test_power_ep_blocks_are_the_same():
    ours, theirs = tgp.PowerEP(0.5, block=8).partition.order(X, ones), tgp.Block(8).partition.order(X, ones)
    np.testing.assert_array_equal(ours, theirs)


def test_arrays_of_jax():
    np.testing.assert_array_equal(
        tgp.Block(8).partition.order(jnp.asarray(X), ones), tgp.Block(8).partition.order(X, ones)
    )


def test_metric_is_the_lengthscales():
    np.testing.assert_array_equal(metric_of(X, [np.array([0.3, 2.0])]), [0.3, 2.0])
    np.testing.assert_array_equal(metric_of(X, [np.array([0.3, np.inf])]), [0.3, np.inf])


def test_metric_falls_back_to_spreads():
    scaled = X * [1.0, 50.0]
    got = metric_of(scaled, [np.full(2, np.inf)])
    np.testing.assert_allclose(got, [scaled[:, 0].std(), scaled[:, 1].std()], rtol=1e-12)


def test_metric_of_inputs_that_do_not_vary():
    flat = np.column_stack([X[:, 0], np.full(103, 7.0)])
    np.testing.assert_allclose(metric_of(flat, [np.full(2, np.inf)]), [X[:, 0].std(), 1.0], rtol=1e-12)


@st.composite
def inputs(draw):
    """Rows that may coincide, in either precision, and a size of blocks that may exceed their number."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, d = draw(st.integers(1, 60)), draw(st.integers(1, 3))
    values = rng.integers(0, draw(st.sampled_from([1, 2, 5, 10**6])), size=(n, d))
    return values.astype(draw(st.sampled_from([np.float32, np.float64]))), draw(st.integers(2, 70))


laws = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@laws
@given(inputs(), st.sampled_from([[0.3, 2.0, 1.0], [1.0, np.inf, 5.0]]), st.sampled_from([1, 100, 400]))
def test_a_file_is_cut_like_an_array(problem, metric, piece):
    """However little of it is in memory at a time; a permutation, in whole blocks, the same each time."""
    X, size = problem
    metric = np.array(metric)[: X.shape[1]]
    expected = tgp.Block(size).partition.order(X, metric)
    np.testing.assert_array_equal(np.sort(expected), np.arange(len(X)))
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        np.save(Path(folder) / "X.npy", X)
        mapped = np.load(Path(folder) / "X.npy", mmap_mode="r")
        patch.setattr(partition, "_PIECE_BYTES", piece)
        np.testing.assert_array_equal(tgp.Block(size).partition.order(mapped, metric), expected)
        unseen = np.full(X.shape[1], np.inf)
        spread = X.astype(np.float64).std(axis=0)
        wanted = np.where(spread > 0, spread, 1.0)
        np.testing.assert_allclose(metric_of(mapped, [unseen]), wanted, rtol=1e-9)


@laws
@given(inputs())
def test_cuts_part_the_rows_of_every_part(problem):
    """No row of the first half of the blocks lies beyond one of the second, along the input that was cut."""
    X, size = problem
    order = tgp.Block(size).partition.order(X, np.ones(X.shape[1]))
    left = -(-len(X) // size) // 2 * size
    if left:
        widest = np.argmax(np.ptp(X, axis=0))
        assert X[order[:left], widest].max() <= X[order[left:], widest].min()


def test_memory_for_a_file_is_a_piece_and_a_few_numbers_a_row(tmp_path, monkeypatch):
    n, d = 20_000, 50
    np.save(tmp_path / "X.npy", np.random.default_rng(0).normal(size=(n, d)))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    monkeypatch.setattr(partition, "_PIECE_BYTES", 1 << 18)
    tracemalloc.start()
    try:
        tgp.Block(500).partition.order(mapped, np.ones(d))
        metric_of(mapped, [np.full(d, np.inf)])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 48 * n + 4 * (1 << 18) < mapped.nbytes / 3


KERNELS = [tgp.kernels.Matern32(1.0, [0.5, 2.0]), tgp.kernels.Matern32(1.0, [0.25, 4.0])]


def test_a_model_keeps_the_metric_of_its_first_partition():
    data = tgp.Dataset(X, X[:, 0])
    model, _ = tgp.SGPR(KERNELS[0], X[:4], bound=tgp.Block(8)).prepare(data)
    np.testing.assert_allclose(model.metric, [0.5, 2.0], rtol=1e-12)
    moved = tgp.assign(model, {"kernel.lengthscale": KERNELS[1].lengthscale})
    np.testing.assert_array_equal(moved.prepare(data)[0].metric, model.metric)
    for plain in ("diagonal", tgp.Block(8, "rows"), tgp.Block(8, "random")):
        assert tgp.SGPR(KERNELS[0], X[:4], bound=plain).prepare(data)[0].metric is None


def test_several_kernels_are_one_metric():
    """Squared distances are the mean of the kernels' own; an input that none sees stays unseen."""
    metric = metric_of(X, [kernel.lengthscale for kernel in KERNELS])
    np.testing.assert_allclose(1 / np.square(metric), [(4 + 16) / 2, (1 / 4 + 1 / 16) / 2], rtol=1e-12)
    np.testing.assert_allclose(metric_of(X, [[np.inf, 1.0], [np.inf, np.inf]]), [np.inf, np.sqrt(2)], rtol=1e-12)
    np.testing.assert_array_equal(metric_of(X, [[0.3, np.inf]]), [0.3, np.inf])
