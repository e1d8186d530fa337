"""Stacks of small matrices: blocks of rows, each given other rows, many at once (maths 11.1).

A group is a block and what it is given: first the rows it is conditioned on, last its ``own`` rows. Everything is in
units of the noise: ``R = P − AAᵀ`` is what the inducing points leave of the group's prior covariance ``P``, and
``T = I + αR = CCᵀ`` has no pivot below one. Only ``w``, the last ``own`` rows of ``C⁻¹``, and the last pivots matter.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

from tightgp.numerics import lapack
from tightgp.numerics.linalg import full_precision

#: The name under which inverse factors of groups can be kept for the derivative (see `tightgp.data.placement`).
ROOTS = "roots of blocks"


class Residual(NamedTuple):
    """Residual variances of the own rows, and how many were below zero by rounding. They have no derivative."""

    variances: Float[Array, "b own"]
    clamped: Float[Array, ""]


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def conditional_logdets(
    A: Float[Array, "b t m"], P: Float[Array, "b t t"], own: int, rounded: bool = False
) -> tuple[Float[Array, " b"], Residual]:
    """``δ = log|Cov(own | given)|`` of each group under ``T = I + P − AAᵀ`` (maths 11.1).

    With ``rounded``, R may be indefinite by rounding, as in float32: see `_covered_factor`.
    """
    return _conditional_logdets_fwd(A, P, own, rounded)[0]


@full_precision
def _conditional_logdets_fwd(A, P, own, rounded):
    W, residual = _inverse_factors(A, P, 1.0, own, rounded)
    return (_logdets(W, own), residual), (A, W)


@full_precision
def _conditional_logdets_bwd(own, rounded, residuals, bars):
    A, W = residuals
    w = W[:, -own:]
    scaled = bars[0][:, None, None] * w
    P_bar = jnp.einsum("boi,boj->bij", scaled, w)
    if 2 * own > A.shape[1]:
        return -2 * jnp.einsum("bij,bjm->bim", P_bar.astype(A.dtype), A), P_bar
    wA = jnp.einsum("boi,bim->bom", w.astype(A.dtype), A)
    return -2 * jnp.einsum("boi,bom->bim", scaled.astype(A.dtype), wA), P_bar


conditional_logdets.defvjp(_conditional_logdets_fwd, _conditional_logdets_bwd)


class Conditioned(NamedTuple):
    """Own rows and targets less what the given ones say of them, in units of what is left of their variance."""

    A: Float[Array, "b own m"]
    y: Float[Array, "b own p"]
    logdets: Float[Array, " b"]
    residual: Residual


@partial(jax.custom_vjp, nondiff_argnums=(3, 4, 5))
def conditioned(
    A: Float[Array, "b t m"],
    P: Float[Array, "b t t"],
    y: Float[Array, "b t p"],
    alpha: float,
    own: int,
    rounded: bool = False,
) -> Conditioned:
    """``wA``, ``wy`` and ``δ`` of each group under ``T = I + α(P − AAᵀ)`` (maths 11.3)."""
    return _conditioned_fwd(A, P, y, alpha, own, rounded)[0]


@full_precision
def _conditioned_fwd(A, P, y, alpha, own, rounded):
    W, residual = _inverse_factors(A, P, alpha, own, rounded)
    w = W[:, -own:]
    wA = jnp.einsum("boi,bim->bom", w.astype(A.dtype), A)
    wy = jnp.einsum("boi,bip->bop", w, y)
    return Conditioned(wA, wy, _logdets(W, own), residual), (A, y, W, wA)


@full_precision
def _conditioned_bwd(alpha, own, rounded, residuals, bars):
    """The derivative in T is ``½(wᵀH + Hᵀw)`` (maths 11.7), so that products have few ``own`` rows on one side."""
    A, y, W, wA = residuals
    w, short = W[:, -own:], A.dtype
    w_bar = jnp.einsum("bom,bim->boi", bars.A, A).astype(W.dtype) + jnp.einsum("bop,bip->boi", bars.y, y)
    Q = -jnp.einsum("boi,bji->boj", w_bar, W)
    corner = jnp.tril(Q[:, :, -own:])
    corner = 0.5 * (corner + jnp.swapaxes(jnp.tril(corner, -1), 1, 2))
    H = jnp.einsum("boi,bij->boj", jnp.concatenate([Q[:, :, :-own], corner], axis=2), W)
    H = H + bars.logdets[:, None, None] * w
    half = jnp.einsum("boi,boj->bij", w, H)
    P_bar = 0.5 * alpha * (half + jnp.swapaxes(half, 1, 2))
    y_bar = jnp.einsum("boi,bop->bip", w, bars.y)
    if 2 * own > A.shape[1]:
        A_bar = jnp.einsum("boi,bom->bim", w.astype(short), bars.A)
        return A_bar - 2 * jnp.einsum("bij,bjm->bim", P_bar.astype(short), A), P_bar, y_bar
    HA = jnp.einsum("boi,bim->bom", H.astype(short), A)
    A_bar = jnp.einsum("boi,bom->bim", w.astype(short), bars.A - alpha * HA)
    return A_bar - alpha * jnp.einsum("boi,bom->bim", H.astype(short), wA), P_bar, y_bar


conditioned.defvjp(_conditioned_fwd, _conditioned_bwd)


@full_precision
def conditional_roots(A: Float[Array, "b t m"], P: Float[Array, "b t t"], own: int) -> Float[Array, "b own t"]:
    """``w`` of each group under ``T = I + P − AAᵀ``."""
    return _inverse_factors(A, P, 1.0, own, A.dtype != P.dtype)[0][:, -own:]


def _logdets(W, own) -> Float[Array, " b"]:
    return -2 * jnp.sum(jnp.log(jnp.diagonal(W, axis1=1, axis2=2)[:, -own:]), axis=1)


def _inverse_factors(A, P, alpha, own, rounded) -> tuple[Float[Array, "b t t"], Residual]:
    """``C⁻¹`` of ``T = I + α(P − AAᵀ) = CCᵀ``, with residual variances below zero set to zero."""
    R = P - grams(A)
    below = jnp.minimum(jnp.diagonal(R, axis1=1, axis2=2), 0.0)
    eye = jnp.eye(R.shape[-1], dtype=R.dtype)
    W = noisy_roots(alpha * (R - below[:, None, :] * eye), rounded)
    variances = (jnp.diagonal(R, axis1=1, axis2=2) - below)[:, -own:]
    residual = Residual(variances, jnp.sum((below[:, -own:] < 0).astype(R.dtype)))
    return checkpoint_name(W, ROOTS), residual


def noisy_roots(R: Float[Array, "b s s"], rounded: bool = False) -> Float[Array, "b s s"]:
    """``C⁻¹`` of ``I + R = CCᵀ`` for covariances R in units of the noise.

    With ``rounded``, R may be indefinite by rounding, as in float32. Without rounding no pivot is below one; where a
    pivot is far below, more noise is added: the first level of 0, 1, 10, 100, … at which none is.
    """
    eye = jnp.eye(R.shape[-1], dtype=R.dtype)

    def inverse_factors(R):
        C = _covered_factor(R, eye) if rounded else jnp.linalg.cholesky(eye + R, symmetrize_input=False)
        return lapack.solve_identity(C)

    return lapack.in_lanes(inverse_factors, R)


def _covered_factor(R, eye):
    def attempt(level):
        return jnp.linalg.cholesky((1 + level)[:, None, None] * eye + R, symmetrize_input=False)

    def covered(level, L):
        pivots = jnp.diagonal(L, axis1=1, axis2=2) ** 2
        return jnp.all(pivots > 0.5 * (1 + level)[:, None], axis=1)  # False for NaN

    def unfinished(state):
        level, L = state
        return jnp.any(~covered(level, L)) & (jnp.max(level) < 1e12)

    def escalate(state):
        level, L = state
        level = jnp.where(covered(level, L), level, jnp.maximum(1.0, 10 * level))
        return level, attempt(level)

    start = jnp.zeros(len(R), R.dtype)
    return jax.lax.while_loop(unfinished, escalate, (start, attempt(start)))[1]


@jax.custom_vjp
@full_precision
def grams(A: Float[Array, "b s m"]) -> Float[Array, "b s s"]:
    """``A_b A_bᵀ``, with one product in its derivative where autodiff makes two."""
    return jnp.einsum("bim,bjm->bij", A, A)


@full_precision
def _grams_bwd(A, bar):
    return (jnp.einsum("bij,bjm->bim", bar + jnp.swapaxes(bar, 1, 2), A),)


grams.defvjp(lambda A: (grams(A), A), _grams_bwd)


@full_precision
def pivot_logdets(A: Float[Array, "b t m"], P: Float[Array, "b t t"], own: int) -> Float[Array, " b"]:
    """The values of `conditional_logdets`, by factors alone: without a derivative, and at a fraction of the cost."""
    R = P - grams(A)
    diagonal = jnp.maximum(jnp.diagonal(R, axis1=1, axis2=2), 0.0)
    eye = jnp.eye(R.shape[-1], dtype=R.dtype)
    C = lapack.cholesky(R * (1 - eye) + (1 + diagonal)[:, None, :] * eye)
    return 2 * jnp.sum(jnp.log(jnp.diagonal(C, axis1=1, axis2=2)[:, -own:]), axis=1)
