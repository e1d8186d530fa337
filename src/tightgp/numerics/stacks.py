"""Stacks of small matrices: factors, log determinants and Gram matrices of many blocks of rows at once."""

from functools import partial

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jaxtyping import Array, Float

from tightgp.numerics.linalg import full_precision

#: The name under which inverse factors of blocks can be kept for the derivative (see `tightgp.data.placement`).
ROOTS = "roots of blocks"


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def noisy_roots(R: Float[Array, "b s s"], rounded: bool = False) -> Float[Array, "b s s"]:
    """``L_b⁻¹`` of ``I + R_b = L_b L_bᵀ`` for covariances ``R_b`` in units of the noise.

    With ``rounded``, ``R_b`` may be indefinite by rounding, as in float32. Without rounding no pivot is below one;
    where a pivot is far below, more noise is added: the first level of 0, 1, 10, 100, … at which none is.
    """
    return _inverse_roots(R, rounded)


def _noisy_roots_fwd(R, rounded):
    W = checkpoint_name(_inverse_roots(R, rounded), ROOTS)
    return W, W


@full_precision
def _noisy_roots_bwd(rounded, W, bar):
    P = -jnp.einsum("bij,bkj->bik", jnp.tril(bar), W)
    P = jnp.tril(P) + jnp.swapaxes(jnp.tril(P, -1), 1, 2)
    return (0.5 * jnp.einsum("bji,bjk,bkl->bil", W, P, W),)


noisy_roots.defvjp(_noisy_roots_fwd, _noisy_roots_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def noisy_logdets(R: Float[Array, "b s s"], rounded: bool = False) -> Float[Array, " b"]:
    """``log|I + R_b|``, for covariances as `noisy_roots` takes them."""
    return _noisy_logdets_fwd(R, rounded)[0]


def _noisy_logdets_fwd(R, rounded):
    W = checkpoint_name(_inverse_roots(R, rounded), ROOTS)
    return logdets_of_roots(W), W


@full_precision
def _noisy_logdets_bwd(rounded, W, bar):
    return (bar[:, None, None] * jnp.einsum("bki,bkj->bij", W, W),)


noisy_logdets.defvjp(_noisy_logdets_fwd, _noisy_logdets_bwd)


def logdets_of_roots(W: Float[Array, "b s s"]) -> Float[Array, " b"]:
    """``log|L_b L_bᵀ|`` from ``W_b = L_b⁻¹``."""
    return -2 * jnp.sum(jnp.log(jnp.diagonal(W, axis1=1, axis2=2)), axis=1)


def _inverse_roots(R, rounded):
    eye = jnp.eye(R.shape[-1], dtype=R.dtype)
    L = _covered_factor(R, eye) if rounded else jnp.linalg.cholesky(eye + R, symmetrize_input=False)
    return jax.lax.linalg.triangular_solve(L, jnp.broadcast_to(eye, R.shape), left_side=True, lower=True)


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
