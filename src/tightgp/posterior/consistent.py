"""The consistent predictive: the trained V used in q(f|u) also for test points (maths 8.2). O(N³)."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp.bounds import statistics
from tightgp.bounds.latents import Latents
from tightgp.numerics import linalg
from tightgp.numerics.chunks import map_rows
from tightgp.posterior.marginals import Joint, PosteriorFunctions, group_joints, left_variance, mixed_marginals
from tightgp.posterior.training_rows import TrainingRows

#: It needs an N×N eigendecomposition.
MAX_ROWS = 5000


class Refinement(NamedTuple):
    """What the consistent predictive needs of the training rows, in units of the noise."""

    X: Float[Array, "n d"]
    scale: Float[Array, " n"]
    A: Float[Array, "n m"]
    inverse_root: Float[Array, "n n"]
    V: Float[Array, "b s s"]


def refine(training: TrainingRows, latents: Latents) -> Refinement:
    """Whitened training rows, and the inverse root of their conditional covariance."""
    n = training.rows.num_rows
    if training.rows.input_variance is not None:
        raise ValueError("exact_conditional needs training inputs that are known, and these have an input_variance")
    if n > MAX_ROWS:
        raise ValueError(
            f"exact_conditional needs an N×N eigendecomposition and is for at most {MAX_ROWS} training rows; "
            f"there are {n}"
        )
    assert training.process is not None
    rows = training.in_order.map(jnp.asarray)
    return _refine(latents, rows.X, statistics.noise_of(training.process, rows), training.optimal_V(latents))


@eqx.filter_jit
@linalg.full_precision
def _refine(latents: Latents, X, noise, V) -> Refinement:
    scale = jax.lax.rsqrt(noise)
    A = latents.rows(X) * scale[:, None]
    R = latents.kernel(X) * (scale[:, None] * scale) - A @ A.T
    return Refinement(X, scale, A, linalg.inverse_symmetric_root(0.5 * (R + R.T)), V)


def _correction(refinement: Refinement, latents: Latents, X, rows) -> tuple[Array, Array]:
    """Two factors of ``D*f D^{−½}(I − V)D^{−½} Df*``; ``rows`` are the whitened rows of ``X``."""
    training_X, scale, A, inverse_root, V = refinement
    cross = latents.kernel(X, training_X) * scale - rows @ A.T
    left = cross @ inverse_root
    n, size = len(scale), V.shape[1]
    padded = jnp.pad(left, ((0, 0), (0, V.shape[0] * size - n))).reshape(len(X), -1, size)
    right = padded - jnp.einsum("nbi,bij->nbj", padded, V)
    return left, right.reshape(len(X), -1)[:, :n]


@eqx.filter_jit
@linalg.full_precision
def marginals(functions: PosteriorFunctions, refinement: Refinement, X):
    """Means and variances (n, P) at ``X``: the mean of the plain posterior, a variance that is never larger."""
    (group,) = functions.latents

    def at(x):
        A = group.rows(x)
        left, right = _correction(refinement, group, x, A)
        plain = left_variance(group, x, A)[:, None] + group.spread(A)
        var = jnp.maximum(plain - jnp.sum(left * right, axis=1)[:, None], 0.0)
        return mixed_marginals(functions, [group.mean(A)], [var], x)

    return map_rows(at, max(functions.num_inducing, len(refinement.scale)), X)


@eqx.filter_jit
@linalg.full_precision
def joints(functions: PosteriorFunctions, refinement: Refinement, X) -> list[Joint]:
    """The joint distribution of the functions at ``X``."""
    (group,) = functions.latents
    left, right = _correction(refinement, group, X, group.rows(X))
    (plain,) = group_joints(functions, X)
    return [plain._replace(cov=plain.cov - left @ right.T)]
