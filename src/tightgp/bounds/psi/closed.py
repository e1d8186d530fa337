"""Averages of sums of bumps and linear parts over Gaussian inputs, in closed form (maths 7.2).

The average of a product of two bumps is again a bump, about a point between their centres. The product of their
averages is factored out analytically, since the covariance that remains is small where inputs are nearly known. Its
exponent is a matrix product of a factor for the row and a factor for the pair of inducing inputs.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp.bounds.psi.terms import Bump, Terms


def prior(terms: Terms, X: Float[Array, "n d"], S: Float[Array, "n d"]) -> Float[Array, " n"]:
    """``⟨k(x, x)⟩``."""
    level = sum((bump.variance for bump in terms.bumps), terms.white).astype(X.dtype)
    flat = jnp.broadcast_to(level, (X.shape[0],))
    return flat if terms.slopes is None else flat + (X * X + S) @ terms.slopes


def first(terms: Terms, Z: Float[Array, "m d"], X: Float[Array, "n d"], S: Float[Array, "n d"]) -> Float[Array, "n m"]:
    """``⟨k(x, z)⟩``; without white noise, because an inducing input is another row."""
    total = sum((_bump(bump, Z, X, S) for bump in terms.bumps), jnp.zeros((X.shape[0], Z.shape[0]), X.dtype))
    return total if terms.slopes is None else total + X @ (terms.slopes * Z).T


def covariance(
    terms: Terms, Z: Float[Array, "m d"], X: Float[Array, "n d"], S: Float[Array, "n d"]
) -> Float[Array, "n k"]:
    """The covariance of ``k(x, z_i)`` and ``k(x, z_j)``, for each pair (i, j) of the lower triangle."""
    pairs = np.tril_indices(Z.shape[0])
    left, right = Z[pairs[0]], Z[pairs[1]]
    values = [_bump(bump, Z, X, S) for bump in terms.bumps]
    total = jnp.zeros((X.shape[0], len(pairs[0])), X.dtype)
    for i, (one, mine) in enumerate(zip(terms.bumps, values, strict=True)):
        total = total + _squares(mine) * _expm1(_log_ratio_alike(one.precision, left, right, X, S))
        for other, theirs in zip(terms.bumps[i + 1 :], values[i + 1 :], strict=True):
            there = _expm1(_log_ratio(one.precision, other.precision, left, right, X, S))
            back = _expm1(_log_ratio(one.precision, other.precision, right, left, X, S))
            total = total + _outer(mine, theirs) * there + _outer(theirs, mine) * back
    if terms.slopes is None:
        return total
    for bump, mine in zip(terms.bumps, values, strict=True):
        pull, ones = S * bump.precision / (1 + S * bump.precision), jnp.ones_like(mine)
        product = pull @ (terms.slopes * left * right).T
        total = total + _outer(mine, ones) * (product - (pull * X) @ (terms.slopes * right).T)
        total = total + _outer(ones, mine) * (product - (pull * X) @ (terms.slopes * left).T)
    return total + S @ (terms.slopes * terms.slopes * left * right).T


def _bump(bump: Bump, Z, X, S) -> Float[Array, "n m"]:
    """``⟨k(x, z)⟩`` of one bump; the exponent is one matrix product, about the mean of ``Z``."""
    Z, X = _centred(Z, X)
    grown = 1 + S * bump.precision
    weight = bump.precision / grown
    own = -0.5 * jnp.sum(jnp.log(grown) + weight * X * X, axis=1, keepdims=True)
    return bump.variance * jnp.exp(_one_product(own, [weight * X, -0.5 * weight], [Z, Z * Z]))


def _log_ratio_alike(precision, Z1, Z2, X, S) -> Float[Array, "n k"]:
    """`_log_ratio` for two bumps with the same precision, with fewer numbers for each pair."""
    Z1, Z2, X = _centred(Z1, Z2, X)
    middle, apart = 0.5 * (Z1 + Z2), 0.25 * (Z1 - Z2) ** 2
    alone, both = 1 / (1 + S * precision), 1 / (1 + 2 * S * precision)
    steep = S * precision * precision
    bend, wide = steep * (alone - 2 * both), steep * alone
    own = jnp.sum(-0.5 * jnp.log1p(-((S * precision * alone) ** 2)) - bend * X * X, axis=1, keepdims=True)
    return _one_product(own, [2 * bend * X, -bend, -wide], [middle, middle * middle, apart])


def _log_ratio(p, r, Z1, Z2, X, S) -> Float[Array, "n k"]:
    """``log(⟨kk'⟩/⟨k⟩⟨k'⟩)`` of a bump with precision ``p`` about ``Z1`` and one with ``r`` about ``Z2``.

    Every term has a factor S, so that rounding has it too.
    """
    Z1, Z2, X = _centred(Z1, Z2, X)
    t = p + r
    middle = (p * Z1 + r * Z2) / jnp.where(t > 0, t, 1.0)
    one, two, both = S * p * p / (1 + S * p), S * r * r / (1 + S * r), S * t * t / (1 + S * t)
    logs = jnp.log1p(-p * r * S * S / ((1 + p * S) * (1 + r * S)))
    own = -0.5 * jnp.sum(logs + (one + two - both) * X * X, axis=1, keepdims=True)
    factors = [one * X, two * X, -both * X, -0.5 * one, -0.5 * two, 0.5 * both]
    return _one_product(own, factors, [Z1, Z2, middle, Z1 * Z1, Z2 * Z2, middle * middle])


def _centred(Z, *others):
    """``Z`` and other inputs about the mean of ``Z``, which changes no value and so needs no derivative."""
    origin = jax.lax.stop_gradient(jnp.mean(Z, axis=0))
    return [inputs - origin for inputs in (Z, *others)]


def _one_product(own, factors, features) -> Float[Array, "n k"]:
    """``own + Σ factor · featureᵀ``, as one matrix product."""
    left = jnp.concatenate([own, *factors], axis=1)
    return left @ jnp.concatenate([jnp.ones_like(features[0][:, :1]), *features], axis=1).T


def _expm1(x: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """``exp(x) − 1``, so that it stays finite.

    Where ``x`` is large, a row is so far from both inducing inputs that both averages and their covariance are zero.
    """
    return jnp.expm1(jnp.minimum(x, 0.5 * math.log(jnp.finfo(x.dtype).max)))


@jax.custom_vjp
def _squares(a: Float[Array, "n m"]) -> Float[Array, "n k"]:
    """``a_i a_j`` for each pair of the lower triangle."""
    return _outer(a, a)


def _squares_bwd(a, bar):
    """A product with the symmetric matrix of ``bar``, because the derivative of indexing is a slow scatter."""
    place = _places(a.shape[1])
    place = place + np.tril(place, -1).T
    return (_products(bar[:, place.reshape(-1)], a) + bar[:, np.diagonal(place)] * a,)


_squares.defvjp(lambda a: (_squares(a), a), _squares_bwd)


@jax.custom_vjp
def _outer(a: Float[Array, "n m"], b: Float[Array, "n m"]) -> Float[Array, "n k"]:
    """``a_i b_j`` for each pair of the lower triangle."""
    i, j = np.tril_indices(a.shape[1])
    return jax.lax.optimization_barrier(a[:, i] * b[:, j])  # fused into other loops, indexing is slow


def _outer_bwd(residuals, bar):
    a, b = residuals
    place, lower = _places(a.shape[1]), np.tril(np.ones((a.shape[1],) * 2))
    left = bar[:, place.reshape(-1)] * jnp.asarray(lower.reshape(-1), bar.dtype)
    right = bar[:, place.T.reshape(-1)] * jnp.asarray(lower.T.reshape(-1), bar.dtype)
    return _products(left, b), _products(right, a)


_outer.defvjp(lambda a, b: (_outer(a, b), (a, b)), _outer_bwd)


def _places(m: int) -> np.ndarray:
    """The packed position of each entry of the lower triangle."""
    place = np.zeros((m, m), int)
    place[np.tril_indices(m)] = np.arange(m * (m + 1) // 2)
    return place


def _products(matrices, a):
    """For each row, a matrix (m·m numbers) times a vector."""
    n, m = a.shape
    return jax.lax.dot_general(matrices.reshape(n, m, m), a, (((2,), (1,)), ((0,), (0,))))
