"""Exact GPs in NumPy: the evidence of `ExactGP`, its gradient, and what ends training."""

import time

import numpy as np
import pytest

import tightgp as tgp
from tightgp.estimators import dense
from tightgp.estimators.settings import KERNELS
from tightgp.estimators.start import as_parts, hyperparameters


def problem(columns=2):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 3))
    X[7] = X[3]  # at distance zero
    return X, np.sin(X[:, :1]) + 0.3 * rng.normal(size=(30, columns))


THETA = dense.Hyperparameters(np.array([0.7, 1.0, 2.0]), 0.8, 0.2, 1.3)


@pytest.mark.parametrize("name", list(KERNELS))
def test_the_evidence_is_that_of_the_model_and_the_gradient_its_derivative(name):
    X, y = problem()
    vector = THETA.vector(name)
    value, gradient = dense.evidence(vector, name, X, y)
    kernel, noise = as_parts(THETA, name)
    model = tgp.ExactGP(kernel, noise).log_evidence(tgp.Dataset(X, y))
    assert value == pytest.approx(float(model), rel=1e-8)  # with the rounding of a distance that is zero
    for i, unit in enumerate(np.eye(len(vector))):
        up, down = (dense.evidence(vector + sign * 1e-6 * unit, name, X, y)[0] for sign in (1, -1))
        assert gradient[i] == pytest.approx((up - down) / 2e-6, rel=1e-5, abs=1e-5)
    back = hyperparameters(kernel, noise)
    np.testing.assert_allclose(back.vector(name), vector, rtol=1e-12)


def test_training_climbs_and_says_why_it_ended():
    X, y = problem(1)
    start = THETA.vector("matern32")
    first = dense.evidence(start, "matern32", X, y)[0]
    rested = dense.train(THETA, "matern32", X, y, 100, 1e-4)
    assert rested.end == "rest"
    assert rested.evidence > first + 0.1
    assert rested.path[0][0] == pytest.approx(first)
    assert np.all(np.diff([value for value, _ in rested.path]) > -1e-9)
    assert rested.path[-1] == pytest.approx((rested.evidence, rested.best.noise))
    short = dense.train(THETA, "matern32", X, y, 2, 0.0)
    assert (short.end, short.steps) == ("steps", 2)
    late = dense.train(THETA, "matern32", X, y, 100, 0.0, deadline=time.perf_counter())
    assert (late.end, late.steps) == ("time", 1)
    easy = dense.train(THETA, "matern32", X, y, 100, 1e3)
    assert (easy.end, easy.steps) == ("rest", 5)


def test_ctrl_c_leaves_the_best_so_far(monkeypatch):
    X, y = problem(1)
    evidence, calls = dense.evidence, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        return evidence(*arguments)

    monkeypatch.setattr(dense, "evidence", interrupted)
    found = dense.train(THETA, "matern32", X, y, 100, 0.0)
    assert found.end == "interrupted"
    assert found.evidence >= found.path[0][0]
