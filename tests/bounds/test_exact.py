"""The exact log density: its value and derivative against plain autodiff."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightgp as tgp
from tests.reference import log_normal
from tightgp.bounds import exact
from tightgp.numerics import dense, tiles


def plain(kernel, X, y, noise):
    """The same, by the formula."""
    K = kernel(X) + jnp.diag(noise)
    n, p = y.shape
    return -0.5 * (p * (n * jnp.log(2 * jnp.pi) + jnp.linalg.slogdet(K)[1]) + jnp.sum(y * jnp.linalg.solve(K, y)))


def test_value_and_derivative_in_all_arguments(rng, monkeypatch):
    monkeypatch.setattr(exact, "_WIDTH", 12)
    monkeypatch.setattr(dense, "_WIDTH", 8)
    monkeypatch.setattr(tiles, "_TILE_BYTES", {"cpu": 5 * 40 * 8, "gpu": 5 * 40 * 8})
    kernel = tgp.kernels.Matern32(1.3, [0.8, 1.7]) + tgp.kernels.Linear(0.3) + tgp.kernels.White(0.2)
    X, y = jnp.asarray(rng.normal(size=(40, 2))), jnp.asarray(rng.normal(size=(40, 2)))
    noise = jnp.asarray(rng.uniform(0.1, 0.5, size=40))
    value, found = jax.value_and_grad(lambda *a: 3 * exact.log_density(*a)[0], argnums=(0, 1, 2, 3))(
        kernel, X, y, noise
    )
    assert float(value) == pytest.approx(3 * log_normal(np.asarray(y), 0.0, np.asarray(kernel(X)) + np.diag(noise)))
    expected = jax.jit(jax.grad(lambda *a: 3 * plain(*a), argnums=(0, 1, 2, 3)))(kernel, X, y, noise)
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8)


def test_jitter_is_added_where_it_must_be_and_has_its_derivative(rng):
    """Many equal rows and hardly any noise: the matrix that was factorised is the one that is differentiated."""
    X = jnp.asarray(np.repeat(rng.normal(size=(4, 1)), 8, axis=0))
    y, noise = jnp.asarray(np.repeat(rng.normal(size=(4, 1)), 8, axis=0)), jnp.zeros(32)
    kernel = tgp.kernels.SquaredExponential(1.3, 0.9)
    (_, level), found = jax.jit(jax.value_and_grad(exact.log_density, has_aux=True))(kernel, X, y, noise)
    assert float(level) > 0

    def jittered(kernel):
        return plain(kernel, X, y, noise + level * jnp.mean(kernel.diagonal(X)))

    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(jax.jit(jax.grad(jittered))(kernel)), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4)


def test_memory_is_three_matrices():
    """Compiled for value and gradient, nothing is run."""
    n = 6000
    shape = jax.ShapeDtypeStruct
    arguments = shape((n, 2), jnp.float64), shape((n, 1), jnp.float64), shape((n,), jnp.float64)
    kernel = tgp.kernels.Matern32(1.0, [1.0, 1.0])
    program = jax.jit(jax.value_and_grad(lambda kernel, *a: exact.log_density(kernel, *a)[0]))
    used = program.lower(kernel, *arguments).compile().memory_analysis().temp_size_in_bytes
    assert used < 4.5 * 8 * n**2  # the tests compile without optimisations, which take one more
