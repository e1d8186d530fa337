"""Kernels of a scaled distance: lengthscales, rounding, and gradients at equal rows."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import tightgp as tgp
from tests.kernels.cases import ARD, KERNELS, STATIONARY, X3, Y3, each_kernel, loop, value_and_grad
from tightgp import kernels as K


def test_one_period_per_input():
    p = np.array([0.7, 1.9, 3.1])

    def pair(x, z, s):
        return np.exp(-2 * np.sum(np.sin(np.pi * (x - z) / p) ** 2 / s**2))

    np.testing.assert_allclose(K.Periodic(1.0, ARD, p)(X3, Y3), loop(pair, X3, Y3, ARD), rtol=1e-10)


@each_kernel({name: KERNELS[name] for name in STATIONARY})
def test_gradient_vanishes_where_all_rows_are_equal(kernel):
    X = jnp.broadcast_to(jnp.asarray(X3[0]), (6, 3))
    _, (kernel_bar, X_bar, X2_bar) = value_and_grad((kernel, X, X), np.ones((2, 6, 6)))
    for bar in (X_bar, X2_bar, tgp.named_parameters(kernel_bar)["lengthscale"].raw):
        np.testing.assert_allclose(bar, 0, atol=1e-6)


@each_kernel({name: make(0.3) for name, (make, _) in STATIONARY.items()})
def test_inputs_far_from_the_origin_keep_their_digits(kernel):
    np.testing.assert_allclose(kernel(X3 + 1e6), kernel(X3), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(kernel(X3 + 1e6, Y3 + 1e6), kernel(X3, Y3), rtol=1e-6, atol=1e-6)


@each_kernel(
    {"se": K.SquaredExponential(1.0, ARD), "matern12": K.Matern12(1.0, ARD), "rq": K.RationalQuadratic(1.0, ARD)}
)
def test_length_scales_are_the_lengthscales(kernel):
    np.testing.assert_allclose(kernel.length_scales(3), ARD, rtol=1e-12)


def test_length_scales_of_inactive_inputs_are_infinite():
    kernel = K.Matern52(1.0, [0.5, 2.0], active_dims=[2, 0])
    np.testing.assert_allclose(kernel.length_scales(4), [2.0, np.inf, 0.5, np.inf], rtol=1e-12)
    np.testing.assert_allclose(K.Matern52(1.0, 0.5).length_scales(2), [0.5, 0.5], rtol=1e-12)


def test_length_scales_of_the_periodic_kernel():
    """At short distances the kernel is a squared exponential with lengthscale ℓp/(2π)."""
    kernel = K.Periodic(1.0, ARD, 2.3)
    short = K.SquaredExponential(1.0, kernel.length_scales(3))
    np.testing.assert_allclose(1 - kernel(1e-3 * X3), 1 - short(1e-3 * X3), rtol=1e-4, atol=1e-14)


@pytest.mark.parametrize("kind", [tgp.kernels.Matern12, tgp.kernels.Matern32, tgp.kernels.Matern52])
def test_diagonal_is_exact_where_the_compiler_recomputes_distances(kind):
    """A compiler may compute a distance twice with other rounding; both must count as zero."""

    @eqx.filter_jit
    def factor_and_matrix(kernel, Z):
        return jnp.linalg.cholesky(kernel(Z) + 1e-6 * jnp.eye(20), symmetrize_input=False), kernel(Z)

    for seed in range(5):
        Z = np.random.default_rng(seed).normal(size=(20, 1))
        L, matrix = factor_and_matrix(kind(2.0, 0.3 + 0.1 * seed), Z)
        np.testing.assert_allclose(np.diagonal(matrix), 2.0, rtol=1e-12)
        assert np.all(np.isfinite(L))
