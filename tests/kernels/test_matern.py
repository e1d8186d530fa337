"""The Matérn kernel with a trained smoothness."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightgp as tgp
from tests.kernels.cases import X3, Y3, matern
from tightgp import kernels as K
from tightgp.kernels.matern import matern_correlation

R = np.concatenate([[0.0], np.geomspace(1e-4, 20, 60)])


@pytest.mark.parametrize(("nu", "kind"), [(0.5, K.Matern12), (1.5, K.Matern32), (2.5, K.Matern52)])
def test_half_integers_are_the_other_matern_kernels(nu, kind):
    np.testing.assert_allclose(K.Matern(1.3, 0.7, nu)(X3, Y3), kind(1.3, 0.7)(X3, Y3), rtol=0, atol=1e-7)


@pytest.mark.parametrize(
    ("nu", "error"), [(0.26, 1e-4), (0.5, 3e-8), (0.8, 1e-8), (3.3, 1e-8), (20.0, 1e-9), (90.0, 1e-9)]
)
def test_values_are_those_of_the_bessel_function(nu, error):
    rows = R if nu < 10 else R[R > 0.01]  # nearer to zero the Bessel function overflows
    got = matern_correlation(rows[None] ** 2, np.array(nu))[0]
    np.testing.assert_allclose(got, [matern(r, nu) for r in rows], rtol=0, atol=error)


def test_the_derivative_by_smoothness_is_that_of_the_bessel_function():
    got = jax.jacfwd(lambda nu: matern_correlation(jnp.asarray(R[None] ** 2), nu))(jnp.asarray(1.2))[0]
    exact = [(matern(r, 1.2 + 1e-4) - matern(r, 1.2 - 1e-4)) / 2e-4 for r in R]
    np.testing.assert_allclose(got, exact, rtol=0, atol=1e-6)


def test_training_finds_the_smoothness():
    X = np.linspace(0, 10, 80)[:, None]
    L = np.linalg.cholesky(K.Matern12(1.0, 2.0)(X) + 1e-9 * np.eye(80))
    y = L @ np.random.default_rng(0).normal(size=(80, 4))
    model = tgp.fit(tgp.ExactGP(K.Matern(smoothness=2.0), 1e-3), tgp.Dataset(X, y), steps=60, progress=False).model
    assert 0.4 < float(model.kernel.smoothness) < 0.7
