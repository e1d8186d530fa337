"""Expectations under Gaussian latent values: Gauss–Hermite nodes, antithetic draws, and nodes around a mode."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import roots_hermitenorm

#: Gauss–Hermite nodes for each latent.
NUM_NODES = 20
#: Pairs of antithetic draws, for likelihoods with too many latents for a grid.
NUM_PAIRS = 50
#: The largest number of latents for which expectations use a grid of nodes.
MAX_GRID_LATENTS = 2
#: The mode of an integrand is searched within this many standard deviations of the mean, by this many bisections.
_MODE_RANGE = 1e6
_BISECTIONS = 50

_NODES, _WEIGHTS = roots_hermitenorm(NUM_NODES)
_LOG_WEIGHTS = np.log(_WEIGHTS / _WEIGHTS.sum())


def standard_deviation(var: Float[Array, "..."]) -> Float[Array, "..."]:
    """``√var``, with a finite derivative at zero."""
    return jnp.sqrt(jnp.maximum(var, jnp.finfo(var.dtype).tiny))


def gauss_hermite(
    mean: Float[Array, "n l"], var: Float[Array, "n l"], num_latents: int = 1
) -> tuple[Float[Array, "s n l"], Float[Array, " s"]]:
    """Gauss–Hermite nodes of ``N(mean, var)`` and the logarithms of their weights.

    Each column has its own nodes; with ``num_latents=L`` the L columns share the grid of their product.
    """
    nodes = jnp.asarray(list(itertools.product(_NODES, repeat=num_latents)), mean.dtype)
    log_weights = np.sum(list(itertools.product(_LOG_WEIGHTS, repeat=num_latents)), axis=1)
    return mean + nodes[:, None, :] * standard_deviation(var), jnp.asarray(log_weights, mean.dtype)


def antithetic_draws(mean: Float[Array, "n l"], var: Float[Array, "n l"], key):
    """Draws from ``N(mean, var)`` in pairs on opposite sides of the mean, and the logarithms of their weights."""
    draws = jax.random.normal(key, (NUM_PAIRS, *mean.shape), mean.dtype)
    shifts = jnp.concatenate([draws, -draws]) * standard_deviation(var)
    return mean + shifts, jnp.full(2 * NUM_PAIRS, -math.log(2 * NUM_PAIRS), mean.dtype)


def log_expected_density(
    likelihood, mean: Float[Array, "n p"], var: Float[Array, "n p"], y: Float[Array, "n p"]
) -> Float[Array, "n p"]:
    """``log ∫ p(y|f) N(f | mean, var) df`` for one latent per target, with nodes around the mode of the integrand.

    Nodes of ``N(mean, var)`` would miss a density ``p(y|f)`` that is much narrower.
    """
    sd = standard_deviation(var)
    fixed, m, s, target = jax.lax.stop_gradient((likelihood, mean, sd, y))

    def slope(z):
        return jax.jvp(lambda z: fixed.log_density(m + s * z, target), (z,), (jnp.ones_like(z),))[1]

    def bisect(_, state):
        z, step = state
        return z + jnp.where(slope(z) > z, step, -step), 0.5 * step

    # In units of sd from the mean, the mode is where slope(z) = z.
    start = jnp.zeros_like(mean), jnp.asarray(0.5 * _MODE_RANGE, mean.dtype)
    mode, _ = jax.lax.fori_loop(0, _BISECTIONS, bisect, start)
    curvature = jax.jvp(slope, (mode,), (jnp.ones_like(mode),))[1]
    width = jax.lax.rsqrt(1 + jnp.maximum(-curvature, 0))
    x, log_weights = gauss_hermite(jnp.zeros_like(mean), jnp.ones_like(mean))
    z = mode + width * x
    terms = likelihood.log_density(mean + sd * z, y) - 0.5 * (z - x) * (z + x) + log_weights[:, None, None]
    return jnp.log(width) + jax.nn.logsumexp(terms, axis=0)
