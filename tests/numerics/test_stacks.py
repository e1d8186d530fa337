"""Groups of rows given other rows, as stacks of small matrices, against dense ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tightgp.numerics import stacks


def stack(rng, t):
    """Whitened rows (b, t, m), prior covariances that exceed their products, and targets."""
    A, root = rng.normal(size=(3, t, 4)), rng.normal(size=(3, t, t))
    P = A @ A.swapaxes(1, 2) + root @ root.swapaxes(1, 2)
    return tuple(map(jnp.asarray, (A, P, rng.normal(size=(3, t, 2)))))


def dense(A, P, y, alpha, own):
    """What `stacks.conditioned` computes, by inverses."""
    lower = jnp.linalg.cholesky(jnp.eye(A.shape[1]) + alpha * (P - A @ jnp.swapaxes(A, 1, 2)))
    w = jnp.linalg.inv(lower)[:, -own:]
    return w @ A, w @ y, 2 * jnp.sum(jnp.log(jnp.diagonal(lower, axis1=1, axis2=2)[:, -own:]), axis=1)


def symmetric(a):
    return 0.5 * (a + a.swapaxes(1, 2))


#: Few own rows, half of the group, all of it: the derivative multiplies in another order for each.
OWN = [1, 2, 4]


@pytest.mark.parametrize("own", OWN)
@pytest.mark.parametrize("rounded", [False, True])
def test_conditioned_rows_and_their_derivative(rng, own, rounded):
    given = stack(rng, 4)
    found = stacks.conditioned(*given, 0.7, own, rounded)
    for a, b in zip(found[:3], dense(*given, 0.7, own), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    weights = [rng.normal(size=np.shape(a)) for a in found[:3]]

    def total(function):
        return lambda *given: sum(jnp.sum(w * a) for w, a in zip(weights, function(*given)[:3], strict=True))

    gradients = jax.grad(total(lambda A, P, y: stacks.conditioned(A, P, y, 0.7, own, rounded)), (0, 1, 2))(*given)
    expected = list(jax.grad(total(lambda A, P, y: dense(A, P, y, 0.7, own)), (0, 1, 2))(*given))
    expected[1] = symmetric(expected[1])
    for a, b in zip(gradients, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("own", OWN)
def test_conditional_log_determinants_and_their_derivative(rng, own):
    A, P, y = stack(rng, 4)
    noisy = np.eye(4) + P - A @ A.swapaxes(1, 2)
    given = noisy[:, : 4 - own, : 4 - own]
    logdets, residual = stacks.conditional_logdets(A, P, own)
    np.testing.assert_allclose(logdets, np.linalg.slogdet(noisy)[1] - np.linalg.slogdet(given)[1], rtol=1e-10)
    np.testing.assert_allclose(residual.variances, np.diagonal(noisy - np.eye(4), axis1=1, axis2=2)[:, -own:])
    weights = np.arange(1.0, 4.0)
    gradients = jax.grad(lambda A, P: jnp.sum(weights * stacks.conditional_logdets(A, P, own)[0]), (0, 1))(A, P)
    expected = jax.grad(lambda A, P: jnp.sum(weights * dense(A, P, y, 1.0, own)[2]), (0, 1))(A, P)
    np.testing.assert_allclose(gradients[0], expected[0], rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(gradients[1], symmetric(expected[1]), rtol=1e-9, atol=1e-11)


def test_variances_below_zero_by_rounding_count_as_zero():
    A, P = jnp.full((1, 2, 1), 1.0), jnp.asarray([[[1.0, 0.5], [0.5, 0.75]]])
    logdets, residual = stacks.conditional_logdets(A, P, 2)
    np.testing.assert_allclose(residual.variances, [[0.0, 0.0]])
    assert float(residual.clamped) == 1
    np.testing.assert_allclose(logdets, [np.log(1 - 0.25)])


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
