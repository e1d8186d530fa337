"""Latent functions given inducing variables: q(u), whitened rows, divergence (maths 2.3, 4.1, 8.1).

Inducing variables are whitened, ``u = L w`` with ``L Lᵀ = Kuu``. Functions that share a kernel and inducing inputs
share the rows ``a = L⁻¹k_u(x)`` and everything made from them.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp.bounds import psi
from tightgp.data.input_variance import InputVariance
from tightgp.kernels import Kernel
from tightgp.numerics import linalg
from tightgp.numerics.linalg import Factor, Whitener


class Whitened(NamedTuple):
    """``q(w) = N(mean, R Rᵀ)`` for each of l functions.

    Roots are lower triangular (l, m, m), or the diagonals (l, m) of diagonal ones. One root may stand for all
    functions. None means no spread at all: then w is known.
    """

    mean: Float[Array, "m l"]
    root: Float[Array, "..."] | None


class Averages(NamedTuple):
    """Functions at uncertain inputs: mean (n, l), variance from q(w) and the inputs (n, l), the part of the prior's
    variance that the inducing points leave (n,), and how many of these were negative by rounding."""

    mean: Float[Array, "n l"]
    spread: Float[Array, "n l"]
    left: Float[Array, " n"]
    clamped: Float[Array, ""]


class Latents(NamedTuple):
    """Functions with one kernel and one set of inducing inputs, and q(w), in independent segments of w."""

    kernel: Kernel
    Z: Float[Array, "m d"]
    whitener: Whitener
    q: tuple[Whitened, ...]

    @classmethod
    def trainable(cls, kernel: Kernel, Z: Float[Array, "m d"], factor: Factor, q: tuple[Whitened, ...]) -> "Latents":
        """Latents whose derivative in ``Kuu`` is taken through the rows they make, as training needs it."""
        return cls(kernel, Z, Whitener.of(factor), q)

    def rows(self, X: Float[Array, "n d"]) -> Float[Array, "n m"]:
        """Whitened rows ``a_i = L⁻¹k_u(x_i)``."""
        return linalg.whiten(self.kernel(X, self.Z), self.whitener)

    def mean(self, A: Float[Array, "n m"]) -> Float[Array, "n l"]:
        """``E[f]`` from whitened rows, without the mean function."""
        return sum((a @ q.mean for a, q in self._segments(A)), jnp.zeros((), A.dtype))

    def spread(self, A: Float[Array, "n m"]) -> Float[Array, "n l"]:
        """The part of ``var[f]`` that comes from q(w): ``aᵀSa``."""
        parts = (_spread(a, q.root) for a, q in self._segments(A) if q.root is not None)
        return sum(parts, jnp.zeros((), A.dtype))

    def joint_spread(self, A: Float[Array, "n m"]) -> Float[Array, "l n n"]:
        """The part of the joint covariance that comes from q(w): ``A S Aᵀ``."""
        roots = (_times_root(a, q.root) for a, q in self._segments(A) if q.root is not None)
        return sum((jnp.einsum("lik,ljk->lij", r, r) for r in roots), jnp.zeros((), A.dtype))

    def averaged(self, X: Float[Array, "n d"], uncertain: InputVariance) -> Averages:
        """What q(w) says of the functions at uncertain inputs (maths 7.5)."""
        averages = psi.moments(self.kernel, self.Z, X, uncertain)
        A = linalg.whiten(averages.first, self.whitener)
        spread = self.spread(A) + jnp.maximum(averages.covariance @ psi.pack(self._squares()).T, 0.0)
        left, clamped = averages.residuals(A, psi.pack(linalg.inverse_from_factor(self.whitener.inverse)))
        return Averages(self.mean(A), spread, left, jnp.sum(clamped))

    def _squares(self) -> Float[Array, "l m m"]:
        """``Wᵀ⟨wwᵀ⟩W`` of each function."""
        W = self.whitener.inverse
        turned = linalg.times_lower(jnp.concatenate([q.mean for q in self.q]).T, W)
        total = turned[:, :, None] * turned[:, None, :]
        for rows, q in self._segments(W.T):
            if q.root is not None:
                total = total + jax.vmap(lambda r: r @ r.T)(_times_root(rows, q.root))
        return total

    def divergence(self) -> Float[Array, ""]:
        """``KL[q(w) ‖ N(0, I)]``, summed over the functions; ``−log N(w | 0, I)`` where w is known (maths 16.2)."""
        return sum((_divergence(q.mean, q.root) for q in self.q), jnp.zeros((), self.Z.dtype))

    @property
    def num_functions(self) -> int:
        """How many functions there are."""
        return self.q[0].mean.shape[1]

    def _segments(self, A):
        start = 0
        for q in self.q:
            yield A[:, start : start + len(q.mean)], q
            start += len(q.mean)


def mix(mixing: Float[Array, "p l"] | None, mean: Float[Array, "n l"], var: Float[Array, "n l"]):
    """Means and variances of ``f = mixing·g`` from those of independent functions g."""
    return (mean, var) if mixing is None else (mean @ mixing.T, var @ (mixing**2).T)


def _times_root(A, root) -> Float[Array, "l n k"]:
    if root.ndim == 2:
        return A * root[:, None, :]
    if len(root) == 1:
        return linalg.times_lower(A, root[0])[None]
    return jax.vmap(linalg.times_lower, (None, 0))(A, root)


def _spread(A, root):
    if root.ndim == 2:
        return (A * A) @ (root * root).T
    return jnp.sum(_times_root(A, root) ** 2, axis=2).T


def _divergence(mean, root):
    if root is None:
        return 0.5 * (jnp.sum(mean * mean) + mean.size * math.log(2 * math.pi))
    diagonal = root if root.ndim == 2 else jnp.diagonal(root, axis1=1, axis2=2)
    logdet = jnp.sum(jnp.log(diagonal * diagonal))
    return 0.5 * (jnp.sum(root * root) + jnp.sum(mean * mean) - mean.size - logdet)
