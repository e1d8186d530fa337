"""The averages that a bound needs of uncertain inputs, in closed form or by quadrature (maths 7.1–7.3).

Values for pairs of inducing inputs are packed: each pair once, row by row of the lower triangle.
"""

from itertools import product
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp.bounds.psi import closed
from tightgp.bounds.psi.terms import terms
from tightgp.data.input_variance import InputVariance
from tightgp.kernels import Kernel
from tightgp.numerics import linalg, stacks

#: Gauss–Hermite nodes for each uncertain column, by the number of such columns.
_NODES = {1: 32, 2: 16, 3: 10}


class Moments(NamedTuple):
    """``⟨k(x, x)⟩``, ``⟨k(x, z)⟩``, and the covariance of ``k(x, z)`` and ``k(x, z')`` for each pair of them."""

    prior: Float[Array, " n"]
    first: Float[Array, "n m"]
    covariance: Float[Array, "n k"]

    def residuals(
        self, A: Float[Array, "n m"], inverse: Float[Array, " k"]
    ) -> tuple[Float[Array, " n"], Float[Array, " n"]]:
        """The prior variance that the inducing points leave, and where it was negative by rounding.

        ``A`` are the whitened first moments, ``inverse`` is the packed inverse of ``Kuu``.
        """
        left = self.prior - jnp.sum(A * A, axis=1) - self.covariance @ inverse
        return jnp.maximum(left, 0.0), (left < 0).astype(left.dtype)


@linalg.full_precision
def moments(kernel: Kernel, Z: Float[Array, "m d"], X: Float[Array, "n d"], uncertain: InputVariance) -> Moments:
    """The averages over inputs ``N(X, uncertain)``, row by row."""
    known = terms(kernel, X.shape[1])
    if known is not None:
        S = jnp.asarray(uncertain.full(X.shape[1]))
        return Moments(closed.prior(known, X, S), closed.first(known, Z, X, S), closed.covariance(known, Z, X, S))
    z, weights = (jnp.asarray(a, X.dtype) for a in grid(len(uncertain.columns)))
    at = uncertain.nodes(X, z)
    flat = at.reshape(-1, X.shape[1])
    prior = kernel.diagonal(flat).reshape(at.shape[:2]) @ weights
    K = kernel(flat, Z).reshape(*at.shape[:2], -1)
    first = jnp.einsum("nkm,k->nm", K, weights)
    centred = (K - first[:, None, :]) * jnp.sqrt(weights)[:, None]
    pairs = np.tril_indices(Z.shape[0])
    return Moments(prior, first, stacks.grams(jnp.swapaxes(centred, 1, 2))[:, pairs[0], pairs[1]])


def grid(columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (k, columns) and weights of a Gauss–Hermite grid for standard normal variables."""
    z, w = np.polynomial.hermite_e.hermegauss(_NODES[columns])
    nodes, weights = (np.array(list(product(one, repeat=columns))) for one in (z, w / w.sum()))
    return nodes, np.prod(weights, axis=1)


def check(kernel: Kernel, num_inputs: int, columns: int) -> None:
    """Refuse a kernel that has neither closed forms nor a feasible quadrature over so many uncertain columns."""
    if columns > max(_NODES) and terms(kernel, num_inputs) is None:
        raise ValueError(
            f"kernel has no averages in closed form over {columns} uncertain input columns, and quadrature is for at "
            f"most {max(_NODES)}; use squared exponential, linear and constant kernels, their sums, and products of "
            "squared exponentials, or fewer uncertain columns"
        )


def numbers_per_row(kernel: Kernel, m: int, num_inputs: int, uncertain: InputVariance) -> int:
    """How many numbers `moments` computes for each row and ``m`` inducing inputs."""
    numbers, columns = m * (m + 1) // 2, len(uncertain.columns)
    if terms(kernel, num_inputs) is None:
        numbers = max(numbers, _NODES[columns] ** columns * m)
    return 2 * numbers


def pack(C: Float[Array, "*k m m"]) -> Float[Array, "*k p"]:
    """Pack symmetric matrices so that ``pack(C) · packed moments`` is the trace of the product of the matrices."""
    i, j = np.tril_indices(C.shape[-1])
    return C[..., i, j] * jnp.asarray(np.where(i == j, 1.0, 2.0), C.dtype)


def unpack(p: Float[Array, " p"], m: int) -> Float[Array, "m m"]:
    """The symmetric matrix of packed entries."""
    return linalg.mirror(jnp.zeros((m, m), p.dtype).at[np.tril_indices(m)].set(p))
