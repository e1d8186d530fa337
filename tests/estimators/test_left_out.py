"""Predictions of left-out rows against models of the other rows."""

import numpy as np
import pytest

import tightgp as tgp
from tightgp.estimators.dense import Hyperparameters, conditional, evidence
from tightgp.estimators.left_out import left_out
from tightgp.estimators.transform_check import from_neighbours

KERNEL = tgp.kernels.Matern32(variance=0.8, lengthscale=[1.0, 2.0])
THETA = Hyperparameters(np.array([1.0, 2.0]), 0.8, 0.2)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X, factor = rng.normal(size=(24, 2)), np.exp(rng.normal(size=24))
    return X, np.sin(X[:, 0]) + 0.3 * rng.normal(size=24), factor


@pytest.fixture(scope="module")
def others(problem):
    """Mean and variance of the function at each row, by plain algebra with the other rows."""
    X, y, factor = problem
    K, found = np.asarray(KERNEL(X)), []
    for i in range(len(X)):
        rest = np.arange(len(X)) != i
        weights = np.linalg.solve(K[np.ix_(rest, rest)] + 0.2 * np.diag(factor[rest]), K[rest, i])
        found.append((weights @ y[rest], K[i, i] - weights @ K[rest, i]))
    return np.array(found).T


def test_the_exact_posterior_and_that_of_inducing_points_at_all_rows(problem, others):
    X, y, factor = problem
    data, rows = tgp.Dataset(X, y, noise_factor=factor), np.array([3, 0, 17])
    exact = tgp.ExactGP(KERNEL, 0.2).posterior(data)
    np.testing.assert_allclose(left_out(exact, data, rows, None), others[:, rows], rtol=1e-9)
    posterior = tgp.SGPR(KERNEL, X, 0.2, "vecchia").posterior(data)
    np.testing.assert_allclose(left_out(posterior, data, rows, 0), others[:, rows], rtol=1e-3)  # jitter


def test_the_nearest_others_are_all_others(problem, others):
    X, y, _ = problem
    K = np.asarray(KERNEL(X)) + 0.2 * np.eye(24)
    inverse = np.linalg.inv(K)
    mean, variance = from_neighbours(THETA, "matern32", X, y, np.arange(24), 64)
    np.testing.assert_allclose(mean, y - inverse @ y / np.diag(inverse), rtol=1e-8)
    np.testing.assert_allclose(variance, 1 / np.diag(inverse) - 0.2, rtol=1e-8)


def test_factors_of_the_noise_against_plain_algebra(problem):
    """The exact evidence, its gradient in NumPy, bounds with Z = X, and predictions."""
    X, y, factor = problem
    K = np.asarray(KERNEL(X)) + 0.2 * np.diag(factor)
    known = -0.5 * (y @ np.linalg.solve(K, y) + np.linalg.slogdet(K)[1] + len(y) * np.log(2 * np.pi))
    data = tgp.Dataset(X, y, noise_factor=factor)
    assert float(tgp.ExactGP(KERNEL, 0.2).log_evidence(data)) == pytest.approx(known)
    assert float(tgp.SGPR(KERNEL, X, 0.2, "vecchia").elbo(data)) == pytest.approx(known, abs=1e-3)
    vector = THETA.vector("matern32")
    value, gradient = evidence(vector, "matern32", X, y[:, None], factor)
    assert value == pytest.approx(known)
    for i, step in enumerate(1e-6 * np.eye(4)):
        ends = [evidence(vector + sign * step, "matern32", X, y[:, None], factor)[0] for sign in (1, -1)]
        assert gradient[i] == pytest.approx((ends[0] - ends[1]) / 2e-6, rel=1e-5)
    weights = np.linalg.solve(K, np.asarray(KERNEL(X, X[:3] + 0.1)))
    mean, variance = conditional(THETA, "matern32", X, y, 0.2 * factor, X[:3] + 0.1)
    np.testing.assert_allclose(mean, weights.T @ y)
    np.testing.assert_allclose(variance, 0.8 - np.sum(weights * np.asarray(KERNEL(X, X[:3] + 0.1)), axis=0))
    exact = tgp.ExactGP(KERNEL, 0.2).posterior(data)
    np.testing.assert_allclose(exact.predict_f(X[:3] + 0.1)[0], mean)


def test_a_row_of_weight_two_is_two_equal_rows(problem):
    X, y, _ = problem
    twice = tgp.Dataset(np.concatenate([X, X[:5]]), np.concatenate([y, y[:5]]))
    weighed = tgp.Dataset(X, y, noise_factor=np.where(np.arange(24) < 5, 0.5, 1.0))
    answers = [np.asarray(tgp.ExactGP(KERNEL, 0.2).posterior(data).predict_f(X[:4] - 0.2)) for data in (twice, weighed)]
    np.testing.assert_allclose(*answers, rtol=1e-9)


def test_a_factor_must_be_positive(problem):
    X, y, factor = problem
    with pytest.raises(ValueError, match="noise_factor must be positive"):
        tgp.Dataset(X, y, noise_factor=0 * factor)
    with pytest.raises(ValueError, match=r"noise_factor must have shape \(24,\)"):
        tgp.Dataset(X, y, noise_factor=factor[:3])
