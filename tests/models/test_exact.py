"""The exact GP against dense formulas."""

import jax
import numpy as np
import pytest

import tightgp as tgp
from tests.reference import log_normal


def test_evidence_and_predictions_against_dense_formulas(problem, rng):
    """Two outputs, known noise beside the model's own, and a mean function."""
    data, _, kernel = problem
    Y, known = np.stack([data.y, np.cos(data.y)], axis=1), rng.uniform(0.0, 0.3, size=data.num_data)
    model = tgp.ExactGP(kernel, 0.2, tgp.means.Linear([1.0, -0.5]))
    data = tgp.Dataset(data.X, Y, known)
    slope = np.array([1.0, -0.5])
    residual = Y - (data.X @ slope)[:, None]
    covariance = np.asarray(kernel(data.X)) + np.diag(0.2 + known)
    assert float(model.log_evidence(data)) == pytest.approx(log_normal(residual, 0.0, covariance), rel=1e-10)

    X = rng.normal(size=(5, 2))
    weights = np.linalg.solve(covariance, np.asarray(kernel(data.X, X)))
    mean, cov = model.posterior(data).predict_f(X, full_cov=True)
    np.testing.assert_allclose(mean, (X @ slope)[:, None] + weights.T @ residual, rtol=1e-8)
    expected = np.asarray(kernel(X)) - np.asarray(kernel(X, data.X)) @ weights
    np.testing.assert_allclose(cov, [expected, expected], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(model.posterior(data).predict_f(X)[1][:, 0], np.diag(expected), rtol=1e-7, atol=1e-9)


def test_single_precision_data_make_a_single_precision_model(problem):
    data, _, kernel = problem
    single = tgp.Dataset(data.X.astype("float32"), data.y.astype("float32"))
    value = tgp.ExactGP(kernel, 0.2).log_evidence(single)
    assert value.dtype == np.float32
    assert float(value) == pytest.approx(float(tgp.ExactGP(kernel, 0.2).log_evidence(data)), rel=1e-4)


def test_a_random_start_changes_hyperparameters(problem):
    data, _, kernel = problem
    model, rows = tgp.ExactGP(kernel, 0.2).prepare(data)
    other = model.random_start(jax.random.key(0), rows)
    assert float(other.noise_variance) != float(model.noise_variance)
    assert not np.array_equal(other.kernel.lengthscale, model.kernel.lengthscale)


@pytest.mark.parametrize(
    ("noise", "data", "message"),
    [
        (0.1, np.ones((3, 2)), r"data must be a tightgp\.Dataset"),
        (0.1, tgp.Dataset(np.ones((2, 1)), [1.0, np.nan], missing=True), r"need tightgp\.SVGP"),
        (0.1, tgp.Dataset(np.ones((2, 1)), np.ones(2), input_variance=0.1), "ExactGP needs inputs that are known"),
        (None, tgp.Dataset(np.ones((2, 1)), np.ones(2)), "the data must say it"),
        (None, tgp.Dataset(np.ones((2, 1)), np.ones(2), [0.1, 0.0]), "above zero"),
    ],
)
def test_data_that_do_not_fit_are_refused(noise, data, message):
    with pytest.raises(ValueError, match=message):
        tgp.ExactGP(tgp.kernels.SquaredExponential(), noise).log_evidence(data)
