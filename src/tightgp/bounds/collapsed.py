"""What follows from the sums of one data pass: the collapsed bound, the upper bound, the optimal q(u)."""

import math

import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp.bounds.latents import Whitened
from tightgp.bounds.statistics import Statistics
from tightgp.bounds.structures import Structure
from tightgp.numerics import linalg

_LOG_2PI = math.log(2 * math.pi)


def _factor_B(S, scale=1.0):
    """The factor of ``I + S/scale``, which needs no jitter: it is never below the identity."""
    return linalg.factorise(jnp.eye(len(S), dtype=S.dtype) + S / scale, jitter=0.0)


def _gaussian(stats: Statistics, logdet, quadratic):
    outputs = stats.b.shape[1]
    return -0.5 * (outputs * (stats.rows * _LOG_2PI + stats.log_noise + logdet) + quadratic)


def quadratic(stats: Statistics) -> Float[Array, ""]:
    """``tr(ỹᵀ(I + AᵀA)⁻¹ỹ)``, the quadratic term of the bound."""
    B = _factor_B(stats.S)
    return stats.yy - linalg.logdet_quadratic(B.matrix, stats.b, B.inverse)[1]


def lower_bound(stats: Statistics, structure: Structure) -> Float[Array, ""]:
    """The collapsed objective (maths 2.1, 2.2): ``log N(y | m, Q + σ²I) − ½PΦ``, in total nats."""
    B = _factor_B(stats.S)
    logdet, explained = linalg.logdet_quadratic(B.matrix, stats.b, B.inverse)
    penalty = structure.penalty(stats.penalty, stats.rows)
    return _gaussian(stats, logdet + penalty, stats.yy - explained)


@linalg.full_precision
def upper_bound(stats: Statistics) -> Float[Array, ""]:
    """Titsias' upper bound on the log evidence (maths 9.1), from the sums of a variational structure."""
    inflated = 1 + stats.residual
    logdet = -2 * jnp.sum(jnp.log(jnp.diagonal(_factor_B(stats.S).inverse)))
    c = _factor_B(stats.S, inflated).inverse @ stats.b
    quadratic = (stats.yy - jnp.sum(c * c) / inflated) / inflated
    return _gaussian(stats, logdet, quadratic)


def inverse_root(S: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """The lower triangular root of ``(I + S)⁻¹``."""
    return linalg.flipped_transpose(_factor_B(S[::-1, ::-1]).inverse)


@linalg.full_precision
def optimal_q(stats: Statistics) -> Whitened:
    """The optimal q(w) (maths 2.3): ``N(B⁻¹b, B⁻¹)``."""
    root = inverse_root(stats.S)
    return Whitened(root @ (root.T @ stats.b), root[None])
