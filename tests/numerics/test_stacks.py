"""Factors and log determinants of stacks of small matrices against dense ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tightgp.numerics import stacks


@pytest.fixture
def R(rng):
    A = rng.normal(size=(4, 3, 3))
    return jnp.asarray(np.einsum("bij,bkj->bik", A, A))


@pytest.mark.parametrize("rounded", [False, True])
def test_log_determinants_and_their_derivative(R, rounded):
    noisy = np.asarray(R) + np.eye(3)
    np.testing.assert_allclose(stacks.noisy_logdets(R, rounded), np.linalg.slogdet(noisy)[1], rtol=1e-12)
    weights = jnp.arange(1.0, 5.0)
    gradient = jax.grad(lambda R: jnp.sum(weights * stacks.noisy_logdets(R, rounded)))(R)
    np.testing.assert_allclose(gradient, weights[:, None, None] * np.linalg.inv(noisy), rtol=1e-10)


@pytest.mark.parametrize("rounded", [False, True])
def test_roots_and_their_derivative(R, rng, rounded):
    W = stacks.noisy_roots(R, rounded)
    np.testing.assert_allclose(np.einsum("bki,bkj->bij", W, W), np.linalg.inv(np.asarray(R) + np.eye(3)), rtol=1e-10)
    C = jnp.asarray(rng.normal(size=R.shape))

    def plain(R):
        return jnp.sum(C * jnp.linalg.inv(jnp.linalg.cholesky(R + jnp.eye(3))))

    gradient = jax.grad(lambda R: jnp.sum(C * stacks.noisy_roots(R, rounded)))(R)
    expected = jax.grad(plain)(R)
    np.testing.assert_allclose(gradient, 0.5 * (expected + jnp.swapaxes(expected, 1, 2)), rtol=1e-9, atol=1e-11)


def test_rounding_below_zero_is_covered_by_noise():
    """A matrix that is indefinite by far more than its noise, as float32 makes them, has a finite factor."""
    R = jnp.asarray([[[0.0, 0.0], [0.0, -5.0]], [[1.0, 0.0], [0.0, 1.0]]])
    assert not np.all(np.isfinite(stacks.noisy_roots(R)))
    W = np.asarray(stacks.noisy_roots(R, True))
    np.testing.assert_allclose(np.linalg.inv(W[0].T @ W[0]), np.diag([11.0, 6.0]), rtol=1e-12)  # of levels 1 and 10
    np.testing.assert_allclose(W[1], np.eye(2) / np.sqrt(2), rtol=1e-12)  # nothing is added where nothing is wrong


def test_grams(rng):
    A = jnp.asarray(rng.normal(size=(2, 3, 4)))
    C = jnp.asarray(rng.normal(size=(2, 3, 3)))
    np.testing.assert_allclose(stacks.grams(A), np.einsum("bim,bjm->bij", A, A), rtol=1e-12)
    gradients = [jax.grad(lambda A, g=g: jnp.sum(C * g(A)))(A) for g in (stacks.grams, lambda A: A @ A.swapaxes(1, 2))]
    np.testing.assert_allclose(*gradients, rtol=1e-12)
