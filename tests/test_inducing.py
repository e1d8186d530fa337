"""Inducing inputs: seeds, distinct rows, and references for each way to choose them."""

import warnings

import jax.numpy as jnp
import numpy as np
import pytest

import tightgp as tgp
from tightgp import inducing, parameters
from tightgp import kernels as K

X = np.random.default_rng(1).normal(size=(40, 2))
M = 6
KERNEL = K.SquaredExponential(1.7, [0.4, 0.9])
CHOICES = {
    "subset": inducing.subset,
    "kmeans": inducing.kmeans,
    "greedy": lambda X, m, seed=0: inducing.greedy_variance(X, m, KERNEL, seed, max_candidates=20),
}
each = pytest.mark.parametrize("choose", list(CHOICES.values()), ids=list(CHOICES))


def is_row(Z, X):
    return [bool(np.any(np.all(z == X, axis=1))) for z in Z]


def residual_trace(kernel, X, Z):
    Kzz, Kzx = np.asarray(kernel(Z)), np.asarray(kernel(Z, X))
    return float(np.sum(kernel.diagonal(X)) - np.trace(Kzx.T @ np.linalg.solve(Kzz + 1e-9 * np.eye(len(Z)), Kzx)))


def greedy(K, m):
    """The largest prior variance given those chosen, each time from the full matrix."""
    chosen = []
    for _ in range(m):
        S = K[:, chosen]
        chosen.append(int(np.argmax(np.diag(K - S @ np.linalg.solve(K[np.ix_(chosen, chosen)], S.T)))))
    return chosen


@each
def test_same_seed_gives_the_same_points(choose):
    first, second, other = choose(X, M, seed=3), choose(X, M, seed=3), choose(X, M, seed=4)
    assert first.shape == (M, 2)
    assert len(np.unique(first, axis=0)) == M
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


@each
def test_jax_arrays(choose):
    np.testing.assert_allclose(choose(jnp.asarray(X), M), choose(X, M), rtol=1e-12)


@each
def test_X_is_not_changed(choose):
    before = X.copy()
    choose(X, M)[:] = 0
    np.testing.assert_array_equal(X, before)


@each
def test_num_inducing_may_be_a_numpy_integer(choose):
    np.testing.assert_array_equal(choose(X, np.int64(M)), choose(X, M))


@each
def test_integer_inputs_give_floating_points(choose):
    integers = np.arange(10).reshape(5, 2)
    Z = choose(integers.tolist(), 2)
    assert Z.dtype == np.float64
    np.testing.assert_allclose(Z, choose(integers.astype(float), 2), rtol=1e-12)


def test_subset_has_rows_of_X():
    assert all(is_row(inducing.subset(X, M), X))


def test_subset_of_all_rows_is_a_permutation():
    np.testing.assert_array_equal(np.sort(inducing.subset(X, 40), axis=0), np.sort(X, axis=0))


def test_subset_skips_equal_rows():
    crowded = np.concatenate([np.zeros((200, 2)), X[:5]])
    Z = inducing.subset(crowded, 6)
    np.testing.assert_array_equal(np.unique(Z, axis=0), np.unique(crowded, axis=0))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_kmeans_against_lloyd(seed):
    rng = np.random.default_rng(5)
    corners = np.array([[0.0, 0.0], [20.0, 0.0], [0.0, 20.0], [20.0, 20.0]])
    data = np.concatenate([corner + rng.normal(size=(15, 2)) for corner in corners])
    Z = inducing.subset(data, 4, seed)
    for _ in range(30):
        nearest = np.argmin(((data[:, None] - Z[None]) ** 2).sum(axis=2), axis=1)
        Z = np.array([data[nearest == k].mean(axis=0) for k in range(4)])
    np.testing.assert_allclose(inducing.kmeans(data, 4, seed), Z, rtol=1e-8, atol=1e-8)


def test_kmeans_stops_at_max_iter():
    Z = inducing.subset(X, M)
    nearest = np.argmin(((X[:, None] - Z[None]) ** 2).sum(axis=2), axis=1)
    once = np.array([X[nearest == k].mean(axis=0) for k in range(M)])
    np.testing.assert_allclose(inducing.kmeans(X, M, max_iter=1), once, rtol=1e-8)
    assert not np.allclose(inducing.kmeans(X, M), once)


@pytest.mark.parametrize(
    "kernel",
    [KERNEL, K.Matern12(1.0, 0.7), KERNEL + K.Linear(0.5), K.Polynomial(2) * K.Matern32()],
    ids=["se", "matern12", "sum", "product"],
)
def test_greedy_against_dense(kernel):
    expected = X[greedy(np.asarray(kernel(X)), M)]
    np.testing.assert_array_equal(inducing.greedy_variance(X, M, kernel), expected)


def test_greedy_depends_on_lengthscales():
    first, second = (inducing.greedy_variance(X, M, K.SquaredExponential(1.0, s)) for s in ([0.1, 9.0], [9.0, 0.1]))
    assert np.ptp(first[:, 0]) > np.ptp(second[:, 0])
    assert np.ptp(first[:, 1]) < np.ptp(second[:, 1])


def test_greedy_chooses_among_the_candidates():
    Z = inducing.greedy_variance(X, 20, K.Matern12(), seed=3, max_candidates=20)
    assert all(is_row(Z, X))
    candidates = X[[i for i in range(40) if is_row(X[i : i + 1], Z)[0]]]
    some = inducing.greedy_variance(X, M, K.Matern12(), seed=3, max_candidates=20)
    np.testing.assert_array_equal(some, candidates[greedy(np.asarray(K.Matern12()(candidates)), M)])


def test_greedy_has_at_least_as_many_candidates_as_points():
    assert inducing.greedy_variance(X, M, KERNEL, max_candidates=2).shape == (M, 2)


@pytest.mark.parametrize("limit", [None, 40, 1000])
def test_greedy_considers_all_rows_up_to_max_candidates(limit):
    Z = inducing.greedy_variance(X, M, KERNEL, seed=9, max_candidates=limit)
    np.testing.assert_array_equal(Z, inducing.greedy_variance(X, M, KERNEL, seed=0))


def test_greedy_covers_clusters():
    """One big cluster and three small ones, of which a random subset usually misses some."""
    corners = np.array([[0.0, 0.0]] * 28 + [[6.0, 0.0]] * 4 + [[0.0, 6.0]] * 4 + [[6.0, 6.0]] * 4)
    data, kernel = corners + 0.1 * X, K.SquaredExponential()
    ours = residual_trace(kernel, data, inducing.greedy_variance(data, M, kernel))
    theirs = [residual_trace(kernel, data, inducing.subset(data, M, seed)) for seed in range(5)]
    assert ours < 1  # a cluster that was missed would cost 4
    assert ours < 0.2 * np.median(theirs)


@each
def test_float32(choose):
    Z = choose(X.astype(np.float32), M)
    assert Z.dtype == np.float32
    assert Z.shape == (M, 2)


def test_greedy_with_a_float32_kernel():
    Z = inducing.greedy_variance(X.astype(np.float32), M, parameters.cast(KERNEL, jnp.float32))
    np.testing.assert_array_equal(Z, inducing.greedy_variance(X, M, KERNEL).astype(np.float32))


@pytest.mark.parametrize(
    "choose",
    [
        inducing.subset,
        inducing.kmeans,
        lambda X, m: inducing.greedy_variance(X, m, KERNEL),
        lambda X, m: inducing.greedy_variance(X, m, K.Matern12(1.0, 0.01)),
        lambda X, m: inducing.greedy_variance(X, m, KERNEL + K.White(0.1)),
    ],
    ids=["subset", "kmeans", "greedy", "greedy-matern12", "greedy-white"],
)
def test_fewer_distinct_rows_than_points(choose):
    crowded = np.tile(X[:5], (8, 1))
    with pytest.warns(UserWarning, match="only 5 of 6 inducing points are distinct; using these 5"):
        Z = choose(crowded, M)
    np.testing.assert_array_equal(np.unique(Z, axis=0), np.unique(X[:5], axis=0))


@each
def test_no_warning_if_there_are_enough_distinct_rows(choose):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(choose(np.tile(X[:20], (2, 1)), M)) == M


@each
@pytest.mark.parametrize(
    ("X", "count", "message"),
    [
        (X, 41, r"num_inducing=41 is more than the rows of X \(40\); use at most 40"),
        (X, 0, "num_inducing must be a whole number of at least 1, got 0"),
        (X, -3, "num_inducing must be a whole number of at least 1"),
        (X, 2.0, "num_inducing must be a whole number of at least 1"),
        (X, True, "num_inducing must be a whole number of at least 1"),
        (X[:, 0], 2, r"X must have shape \(rows, columns\)"),
        (X[:0], 1, "X is empty"),
        (np.where(X > 2, np.nan, X), 2, "X has NaN or infinite values"),
    ],
    ids=["many", "zero", "negative", "float", "bool", "1-D", "empty", "nan"],
)
def test_bad_arguments(choose, X, count, message):
    with pytest.raises(ValueError, match=message):
        choose(X, count)


def test_points_can_be_passed_to_a_model():
    model = tgp.SGPR(KERNEL, inducing.kmeans(X, M))
    assert model.Z.shape == (M, 2)
