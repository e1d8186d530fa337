"""The nearest training rows are those that brute force finds, in the space that the kernel sees."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tightgp as tgp
from tightgp import kernels
from tightgp.data.neighbours import NeighbourSearch

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
