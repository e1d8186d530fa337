import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tightgp.numerics import linalg
from tightgp.numerics.linalg import Whitener


def spd(rng, n, floor=0.1):
    A = rng.normal(size=(n, n))
    return A @ A.T / n + floor * np.eye(n)


@pytest.mark.parametrize("m", [1, 3, 300, 600, 1030])
def test_triangular_products(rng, m):
    W, K, B = np.tril(rng.normal(size=(m, m))), rng.normal(size=(7, m)), rng.normal(size=(7, m))
    np.testing.assert_allclose(linalg.times_lower_t(jnp.asarray(K), jnp.asarray(W)), K @ W.T, atol=1e-10)
    np.testing.assert_allclose(linalg.times_lower(jnp.asarray(K), jnp.asarray(W)), K @ W, atol=1e-10)
    lower = np.tril(linalg.cross_lower(jnp.asarray(K), jnp.asarray(B)))
    np.testing.assert_allclose(lower, np.tril(K.T @ B), atol=1e-10)


@pytest.mark.parametrize("m", [1, 5, 300, 700])
def test_inverse_lower(rng, m):
    L = np.linalg.cholesky(spd(rng, m))
    np.testing.assert_allclose(linalg.inverse_lower(jnp.asarray(L)), np.linalg.inv(L), atol=1e-9)


def test_factorise_uses_the_first_jitter_where_it_suffices(rng):
    K = spd(rng, 6)
    factor = linalg.factorise(jnp.asarray(K), 1e-6)
    assert float(factor.jitter) == 1e-6
    expected = K + 1e-6 * np.mean(np.diag(K)) * np.eye(6)
    np.testing.assert_allclose(factor.lower, np.linalg.cholesky(expected), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(factor.inverse @ factor.lower, np.eye(6), atol=1e-12)


def test_jitter_escalates_inside_jit_until_the_factor_is_finite():
    K = np.ones((4, 4)) - 3e-5 * np.eye(4)  # slightly indefinite
    factor = jax.jit(lambda K: linalg.factorise(K, 1e-6))(jnp.asarray(K))
    assert float(factor.jitter) == pytest.approx(1e-4)
    assert np.all(np.isfinite(factor.inverse))


def test_jitter_from_zero_and_relative_to_the_diagonal():
    K = 1e12 * np.ones((3, 3))
    factor = linalg.factorise(jnp.asarray(K), 0.0)
    assert 0 < float(factor.jitter) < 1e-6
    assert np.all(np.isfinite(factor.inverse))
    assert float(linalg.factorise(jnp.eye(3), 0.0).jitter) == 0.0


def test_factorise_gives_nan_where_nothing_helps():
    factor = linalg.factorise(jnp.asarray(-np.eye(3)), 1e-6)
    assert np.all(np.isnan(np.diag(factor.lower)))


def test_gradient_includes_the_jitters_scale(rng):
    """The matrix that is factorised depends on K also through the mean diagonal that scales the jitter."""
    K = jnp.asarray(spd(rng, 4))

    def total(K):
        return jnp.sum(linalg.factorise(K, 1e-2).matrix)

    np.testing.assert_allclose(jax.grad(total)(K), np.ones((4, 4)) + 1e-2 * np.eye(4), rtol=1e-12)


def test_logdet_quadratic(rng):
    K, b = jnp.asarray(spd(rng, 5)), jnp.asarray(rng.normal(size=(5, 2)))

    def ours(K, b):
        W = jax.lax.stop_gradient(linalg.factorise(K, 0.0).inverse)
        logdet, quad = linalg.logdet_quadratic(K, b, W)
        return 1.7 * logdet - 0.3 * quad

    def plain(K, b):
        return 1.7 * jnp.linalg.slogdet(K)[1] - 0.3 * jnp.sum(b * jnp.linalg.solve(K, b))

    assert float(ours(K, b)) == pytest.approx(float(plain(K, b)), rel=1e-12)
    for mine, theirs in zip(jax.grad(ours, (0, 1))(K, b), jax.grad(plain, (0, 1))(K, b), strict=True):
        sym = (theirs + theirs.T) / 2 if theirs.shape == (5, 5) else theirs
        np.testing.assert_allclose(mine, sym, rtol=1e-10, atol=1e-12)


def test_inverse_symmetric_root_of_a_singular_matrix(rng):
    A = rng.normal(size=(5, 3))
    K = jnp.asarray(A @ A.T)
    inverse = linalg.inverse_symmetric_root(K)
    np.testing.assert_allclose(inverse, inverse.T, atol=1e-12)
    np.testing.assert_allclose(K @ inverse @ inverse @ K, K, atol=1e-11)
    assert np.all(np.isnan(linalg.inverse_symmetric_root(K.at[0, 0].set(jnp.nan))))


def test_the_derivative_of_whitening_against_autodiff(rng):
    """(3.2): the cotangent of Kuu under A = L⁻¹Kuf, for an objective that is not invariant to rotations."""
    Kuu, Kuf, C = jnp.asarray(spd(rng, 4)), jnp.asarray(rng.normal(size=(4, 6))), jnp.asarray(rng.normal(size=(4, 6)))

    def objective(Kuu):
        L = jnp.linalg.cholesky(Kuu)
        return jnp.sum(C * jax.scipy.linalg.solve_triangular(L, Kuf, lower=True) ** 2)

    expected = jax.grad(objective)(Kuu)

    def whitened(Kuu):
        whitener = Whitener.of(linalg.factorise(Kuu, 0.0))
        return jnp.sum(C.T * linalg.whiten(Kuf.T, whitener) ** 2)

    np.testing.assert_allclose(jax.grad(whitened)(Kuu), (expected + expected.T) / 2, rtol=1e-9, atol=1e-11)
    seconds = [jax.grad(jax.grad(lambda t, f=f: f(Kuu + t * jnp.ones((4, 4)))))(0.1) for f in (objective, whitened)]
    np.testing.assert_allclose(*seconds, rtol=1e-8)


def test_a_whitener_without_a_probe_is_differentiated_through_its_matrix(rng):
    W, K = jnp.asarray(np.tril(rng.normal(size=(3, 3)))), jnp.asarray(rng.normal(size=(5, 3)))
    gradient = jax.grad(lambda W: jnp.sum(linalg.whiten(K, Whitener(W)) ** 2))(W)
    np.testing.assert_allclose(gradient, jax.grad(lambda W: jnp.sum((K @ W.T) ** 2))(W), rtol=1e-12)
