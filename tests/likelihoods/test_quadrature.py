"""Nodes and draws from Gaussians, and densities narrower or wider than the Gaussian."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from tests.likelihoods.cases import expectations, log_density
from tightgp import likelihoods as L
from tightgp.likelihoods import quadrature


@pytest.mark.parametrize(
    ("lik", "y", "rtol"),
    [
        (L.Poisson(), 3000.0, 1e-8),
        (L.NegativeBinomial(0.001), 40.0, 1e-7),
        (L.Gamma(900.0), 0.05, 1e-8),
        (L.Beta(5000.0), 0.97, 1e-7),
        (L.StudentT(3.0, 0.01), 2.0, 1e-8),
        (L.StudentT(0.7, 0.5), 30.0, 1e-8),
        (L.StudentT(500.0, 0.5), 9.0, 1e-8),
        (L.Bernoulli("logit"), 1.0, 1e-2),
    ],
    ids=lambda value: type(value).__name__,
)
def test_expectations_of_densities_much_narrower_or_wider_than_the_latents(lik, y, rtol):
    mean, var, y = np.array([[1.0], [-0.5], [3.0]]), np.array([[2.0], [9.0], [0.3]]), np.full((3, 1), y)
    z = np.linspace(-14, 14, 40001)
    log_weights = stats.norm.logpdf(z) + np.log(z[1] - z[0])
    table = np.asarray(log_density(lik, mean + z[:, None, None] * np.sqrt(var), y))
    expected = special.logsumexp(table + log_weights[:, None, None], axis=0)
    results = expectations(lik, mean, var, y)
    np.testing.assert_allclose(results[1], expected, rtol=rtol)
    if isinstance(lik, L.StudentT):
        np.testing.assert_allclose(results[0], np.tensordot(np.exp(log_weights), table, axes=1), rtol=1e-8)


@pytest.mark.parametrize("latents", [1, 2])
def test_gauss_hermite_nodes_have_the_moments_of_the_gaussian(latents):
    mean, var = jnp.array([[0.5, -1.0]])[:, :latents], jnp.array([[2.0, 0.3]])[:, :latents]
    F, log_weights = quadrature.gauss_hermite(mean, var, latents)
    weights = np.exp(log_weights)
    assert len(F) == quadrature.NUM_NODES**latents
    np.testing.assert_allclose(weights.sum(), 1, rtol=1e-12)
    moments = [np.tensordot(weights, (F - mean) ** k, axes=1) for k in (1, 2, 4)]
    np.testing.assert_allclose(moments, [0 * var, var, 3 * var**2], rtol=1e-10, atol=1e-12)
    if latents == 2:
        products = np.prod(np.asarray(F - mean) ** 2, axis=2)
        np.testing.assert_allclose(weights @ products, np.prod(var, axis=1), rtol=1e-10)


def test_antithetic_draws_have_the_mean_exactly_and_about_the_variance():
    mean, var = jnp.array([[0.5, -1.0, 4.0]]), jnp.array([[2.0, 0.3, 0.0]])
    F, log_weights = quadrature.antithetic_draws(mean, var, jax.random.key(0))
    np.testing.assert_allclose(np.exp(log_weights).sum(), 1, rtol=1e-12)
    np.testing.assert_allclose(np.mean(F, axis=0), mean, rtol=1e-12)
    np.testing.assert_allclose(np.var(F, axis=0), var, rtol=0.6, atol=1e-12)
