"""The consistent predictive: the trained V used in q(f|u) also for test points (maths 8.2). O(N³)."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp import linalg, statistics
from tightgp.conditionals import Conditional
from tightgp.latents import Latents
from tightgp.statistics import Process, Rows

#: It needs an N×N eigendecomposition.
MOST_ROWS = 5000


class Training(eqx.Module):
    """What the training data left behind, for answers that go back to its rows.

    Beside an explicit q(u) it is the rows alone: ``process``, ``order`` and ``excess`` are then None.
    """

    process: Process | None
    rows: Rows
    order: np.ndarray | None
    excess: Float[Array, ""] | None
    structure: Conditional = eqx.field(static=True)

    def optimal_V(self, latents: Latents) -> Float[Array, "b s s"]:
        """The diagonal blocks of the optimal V (maths 1.4)."""
        assert self.process is not None
        assert self.excess is not None
        return statistics.optimal_V(self.process, self.rows, latents.W, self.structure, self.excess)


class Refinement(NamedTuple):
    """What the consistent predictive needs of the training rows, in units of the noise."""

    X: Float[Array, "n d"]
    scale: Float[Array, " n"]
    A: Float[Array, "n m"]
    inverse_root: Float[Array, "n n"]
    V: Float[Array, "b s s"]


def refine(training: Training, latents: Latents) -> Refinement:
    """Whitened training rows, and the inverse root of their conditional covariance."""
    n = training.rows.X.shape[0]
    if training.rows.spread is not None:
        raise ValueError("exact_conditional needs training inputs that are known, and these have an input_variance")
    if n > MOST_ROWS:
        raise ValueError(
            f"exact_conditional needs an N×N eigendecomposition and is for at most {MOST_ROWS} training rows; "
            f"there are {n}"
        )
    return _refine(training, latents, training.optimal_V(latents))


@eqx.filter_jit
@linalg.full_precision
def _refine(training: Training, latents: Latents, V) -> Refinement:
    X = training.rows.X
    assert training.process is not None
    scale = jax.lax.rsqrt(training.process.noise + training.rows.known)
    A = latents.rows(X) * scale[:, None]
    R = latents.kernel(X) * (scale[:, None] * scale) - A @ A.T
    return Refinement(X, scale, A, linalg.inverse_symmetric_root(0.5 * (R + R.T)), V)


def correction(refinement: Refinement, latents: Latents, X, rows) -> tuple[Array, Array]:
    """Two factors of ``D*f D^{−½}(I − V)D^{−½} Df*``; ``rows`` are the whitened rows of ``X``."""
    training_X, scale, A, inverse_root, V = refinement
    cross = latents.kernel(X, training_X) * scale - rows @ A.T
    left = cross @ inverse_root
    n, size = len(scale), V.shape[1]
    padded = jnp.pad(left, ((0, 0), (0, V.shape[0] * size - n))).reshape(len(X), -1, size)
    right = padded - jnp.einsum("nbi,bij->nbj", padded, V)
    return left, right.reshape(len(X), -1)[:, :n]
