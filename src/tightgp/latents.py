"""Latent functions seen through inducing variables: q(u), its rows, its divergence (maths 2.3, 4.1, 8.1).

Inducing variables are whitened, ``u = L w`` with ``L Lᵀ = Kuu``. Functions that share a kernel and inducing inputs
share the rows ``a = L⁻¹k_u(x)`` and everything made from them.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp import linalg, psi
from tightgp.kernels import Kernel
from tightgp.spread import Spread


class Whitened(NamedTuple):
    """``q(w) = N(mean, R Rᵀ)`` for each of l functions.

    Roots are lower triangular (l, m, m), or the diagonals (l, m) of diagonal ones. One root may stand for all
    functions, and None for no spread at all: then w is known.
    """

    mean: Float[Array, "m l"]
    root: Float[Array, "..."] | None


class Averages(NamedTuple):
    """Functions at uncertain inputs: mean, and variance from q(w) and the inputs (n, l); what the inducing points
    leave (n,), and how often that was negative by rounding."""

    mean: Float[Array, "n l"]
    spread: Float[Array, "n l"]
    left: Float[Array, " n"]
    clamped: Float[Array, ""]


class Latents(NamedTuple):
    """Functions with one kernel and one set of inducing inputs, and q(w), in independent segments of w."""

    kernel: Kernel
    Z: Float[Array, "m d"]
    Kuu: Float[Array, "m m"]
    W: Float[Array, "m m"]
    q: tuple[Whitened, ...]

    def rows(self, X: Float[Array, "n d"]) -> Float[Array, "n m"]:
        """``a_i = L⁻¹k_u(x_i)``, a row each."""
        return linalg.whiten(self.Kuu, self.kernel(X, self.Z), self.W)

    def mean(self, A: Float[Array, "n m"]) -> Float[Array, "n l"]:
        """``E[f]`` from the rows of some inputs, the mean function left out."""
        return sum((a @ q.mean for a, q in self._segments(A)), jnp.zeros((), A.dtype))

    def spread(self, A: Float[Array, "n m"]) -> Float[Array, "n l"]:
        """The part of ``var[f]`` that comes from q(w): ``aᵀSa``."""
        parts = (_spread(a, q.root) for a, q in self._segments(A) if q.root is not None)
        return sum(parts, jnp.zeros((), A.dtype))

    def joint_spread(self, A: Float[Array, "n m"]) -> Float[Array, "l n n"]:
        """The part of the joint covariance that comes from q(w): ``A S Aᵀ``."""
        roots = (_times_root(a, q.root) for a, q in self._segments(A) if q.root is not None)
        return sum((jnp.einsum("lik,ljk->lij", r, r) for r in roots), jnp.zeros((), A.dtype))

    def averaged(self, X: Float[Array, "n d"], spread: Spread) -> "Averages":
        """What q(w) says of the functions at uncertain inputs (maths 7.5)."""
        averages = psi.moments(self.kernel, self.Z, X, spread)
        A = linalg.whiten(self.Kuu, averages.first, self.W)
        wide = self.spread(A) + jnp.maximum(averages.covariance @ psi.pack(self._squares()).T, 0.0)
        left, clamps = averages.residuals(A, psi.pack(linalg.inverse_from_factor(self.W)))
        return Averages(self.mean(A), wide, left, jnp.sum(clamps))

    def _squares(self) -> Float[Array, "l m m"]:
        """``Wᵀ⟨wwᵀ⟩W`` of each function."""
        turned = linalg.times_lower(jnp.concatenate([q.mean for q in self.q]).T, self.W)
        total = turned[:, :, None] * turned[:, None, :]
        for rows, q in self._segments(self.W.T):
            if q.root is not None:
                total = total + jax.vmap(lambda r: r @ r.T)(_times_root(rows, q.root))
        return total

    def divergence(self) -> Float[Array, ""]:
        """``KL[q(w) ‖ N(0, I)]``, summed over the functions."""
        return sum((_divergence(q.mean, q.root) for q in self.q), jnp.zeros((), self.Z.dtype))

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
    diagonal = root if root.ndim == 2 else jnp.diagonal(root, axis1=1, axis2=2)
    logdet = jnp.sum(jnp.log(diagonal * diagonal))
    return 0.5 * (jnp.sum(root * root) + jnp.sum(mean * mean) - mean.size - logdet)
