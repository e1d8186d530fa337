"""The vector that L-BFGS moves: there and back, its units, and the gradient in it."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tightgp as tgp
from tightgp import parameters
from tightgp.training import coordinates
from tightgp.training.objective import Objective


def point(model):
    return eqx.filter(model, parameters.trainable(model))


def model(Z=((0.0, 1.0), (2.0, 3.0), (-1.0, 0.5)), variance=1.3, lengthscale=(0.7, 2.0), noise=0.2):
    kernel = tgp.kernels.Matern32(variance, np.asarray(lengthscale))
    return tgp.SGPR(kernel, np.asarray(Z, float), noise)


positive = st.floats(1e-5, 1e6)


@given(variance=positive, lengthscale=st.tuples(positive, positive), noise=positive)
def test_there_and_back(variance, lengthscale, noise):
    start = point(model(variance=variance, lengthscale=lengthscale, noise=noise))
    units = coordinates.units(start)
    back = coordinates.to_point(jnp.asarray(coordinates.to_vector(start, units)), jnp.asarray(units), start)
    for a, b in zip(jax.tree.leaves(start), jax.tree.leaves(back), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_positive_numbers_are_logarithms():
    one, other = (
        coordinates.to_vector(p, coordinates.units(p))
        for p in (point(model()), point(model(variance=1.3 * np.e, lengthscale=(0.7, 2.0 * np.e))))
    )
    moved = other - one
    # The floor under lengthscales is not part of the logarithm, and far too small to be seen here.
    assert sorted(np.round(moved[moved != 0], 5)) == [1.0, 1.0]


def test_a_frozen_parameter_has_no_coordinate():
    whole, part = (len(coordinates.units(point(m))) for m in (model(), parameters.freeze(model(), "noise_variance")))
    assert part == whole - 1


def test_variances_of_latent_inputs_stay_roots(rng):
    """A matrix of positive numbers is taken as it is stored."""
    Y = rng.normal(size=(12, 3))
    start = point(tgp.GPLVM.start(Y, 2, 4))
    stored = np.asarray(start.inputs._variance.raw).ravel()
    seen = coordinates.to_vector(start, np.ones_like(coordinates.units(start)))
    assert np.array_equal(seen[-len(stored) :], stored)


def test_units_follow_the_spread_of_a_column_and_not_its_outliers(rng):
    Z = rng.normal(size=(400, 2))
    ordinary = coordinates.units(point(model(Z=Z)))
    Z[0, 0] = 130.0  # as in a standardised column with one value far off
    assert np.array_equal(coordinates.units(point(model(Z=Z))), ordinary)
    Z[:, 0] += 2000  # a year
    assert np.array_equal(coordinates.units(point(model(Z=Z))), ordinary)
    Z[:, 1] *= 1e4  # a price
    large = coordinates.units(point(model(Z=Z))) != ordinary
    assert large.sum() == len(Z)
    assert coordinates.units(point(model(Z=Z)))[large] == pytest.approx(np.std(Z[:, 1]))


def test_gradient_is_that_of_the_vector(rng):
    X = rng.normal(size=(30, 2))
    problem = Objective(*model().prepare(tgp.Dataset(X, np.sin(X[:, 0]))))
    x = problem.to_vector(problem.start)
    gradient, h = problem.at_vector(x).gradient, 1e-6
    for i in range(len(x)):
        step = h * (np.arange(len(x)) == i)
        slope = float(problem.at_vector(x + step).value - problem.at_vector(x - step).value) / (2 * h)
        assert gradient[i] == pytest.approx(slope, rel=1e-5, abs=1e-6)


def test_an_outlying_input_does_not_slow_training(rng):
    """One row far off in one column: the bound that is reached is no worse for it."""
    X = rng.normal(size=(300, 3))
    y = np.sin(3 * X[:, 0]) + 0.1 * rng.normal(size=300)
    Z = X[:20].copy()

    def reached(X, Z):
        kernel = tgp.kernels.SquaredExponential(1.0, np.ones(3))
        return tgp.fit(tgp.SGPR(kernel, Z, 0.1), tgp.Dataset(X, y), steps=40, progress=False).objective

    ordinary = reached(X, Z)
    X[0, 2] = Z[0, 2] = 150.0
    assert reached(X, Z) > ordinary - 0.02 * len(X)
