"""Averages of sums of bumps and linear parts over Gaussian inputs, in closed form (maths 7.2).

An average of a product of two bumps is again a bump, about a point between their centres; its exponent is a
matrix product of what belongs to the row and what belongs to the pair of inducing inputs.
"""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp.psi.terms import Bump, Terms


def prior(terms: Terms, X: Float[Array, "n d"], S: Float[Array, "n d"]) -> Float[Array, " n"]:
    """``⟨k(x, x)⟩``."""
    level = sum((bump.variance for bump in terms.bumps), terms.white).astype(X.dtype)
    flat = jnp.broadcast_to(level, (X.shape[0],))
    return flat if terms.slopes is None else flat + (X * X + S) @ terms.slopes


def first(terms: Terms, Z: Float[Array, "m d"], X: Float[Array, "n d"], S: Float[Array, "n d"]) -> Float[Array, "n m"]:
    """``⟨k(x, z)⟩``; white noise is no part of it, for an inducing input is another row."""
    total = jnp.zeros((X.shape[0], Z.shape[0]), X.dtype)
    for bump in terms.bumps:
        total = total + _bump(bump, Z, X, S)
    return total if terms.slopes is None else total + X @ (terms.slopes * Z).T


def second(
    terms: Terms,
    Z: Float[Array, "m d"],
    X: Float[Array, "n d"],
    S: Float[Array, "n d"],
    pairs: tuple[np.ndarray, np.ndarray],
) -> Float[Array, "n k"]:
    """``⟨k(x, z_i)k(x, z_j)⟩`` for ``pairs`` (i, j) of inducing inputs."""
    left, right = Z[pairs[0]], Z[pairs[1]]
    total = jnp.zeros((X.shape[0], len(pairs[0])), X.dtype)
    for i, one in enumerate(terms.bumps):
        total = total + _bumps(one, one, left, right, X, S)
        for other in terms.bumps[i + 1 :]:
            total = total + _bumps(one, other, left, right, X, S) + _bumps(one, other, right, left, X, S)
    if terms.slopes is None:
        return total
    slopes, linear = terms.slopes, X @ (terms.slopes * Z).T
    for bump in terms.bumps:
        values = _bump(bump, Z, X, S)
        total = total + values[:, pairs[0]] * _tilted(bump, slopes, left, right, X, S)
        total = total + values[:, pairs[1]] * _tilted(bump, slopes, right, left, X, S)
    return total + linear[:, pairs[0]] * linear[:, pairs[1]] + S @ (slopes * slopes * left * right).T


def _bump(bump: Bump, Z, X, S) -> Float[Array, "n m"]:
    return bump.variance * jnp.exp(_exponent(bump.precision, Z, X, S))


def _bumps(one: Bump, other: Bump, Z1, Z2, X, S) -> Float[Array, "n k"]:
    """The average of ``one`` about each of ``Z1`` times ``other`` about its fellow in ``Z2``."""
    precision = one.precision + other.precision
    safe = jnp.where(precision > 0, precision, 1.0)
    middle = (one.precision * Z1 + other.precision * Z2) / safe
    apart = -0.5 * ((Z1 - Z2) ** 2 @ (one.precision * other.precision / safe))
    return (one.variance * other.variance) * jnp.exp(_exponent(precision, middle, X, S) + apart)


def _exponent(precision, centres, X, S) -> Float[Array, "n k"]:
    """``log⟨exp(−½ Σ precision (x − centre)²)⟩``, by one matrix product about the middle of the centres."""
    origin = jax.lax.stop_gradient(jnp.mean(centres, axis=0))
    X, centres = X - origin, centres - origin
    grown = 1 + S * precision
    weight = precision / grown
    own = -0.5 * jnp.sum(jnp.log(grown) + weight * X * X, axis=1, keepdims=True)
    one = jnp.ones((len(centres), 1), X.dtype)
    left = jnp.concatenate([own, weight * X, -0.5 * weight], axis=1)
    return left @ jnp.concatenate([one, centres, centres * centres], axis=1).T


def _tilted(bump: Bump, slopes, Z1, Z2, X, S) -> Float[Array, "n k"]:
    """The linear part at ``Z2``, averaged over inputs as the bump about ``Z1`` weighs them."""
    grown = 1 + S * bump.precision
    left = jnp.concatenate([X / grown, S * bump.precision / grown], axis=1)
    return left @ jnp.concatenate([slopes * Z2, slopes * Z1 * Z2], axis=1).T
