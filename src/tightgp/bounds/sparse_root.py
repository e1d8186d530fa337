"""A sparse root of the inverse covariance: each block of rows given the noisy inducing rows and earlier neighbours.

With ``C = I + Σ^-½ K Σ^-½`` the covariance of the targets in units of the noise, ``G`` is the closest matrix of its
sparsity with ``GᵀG ≈ C⁻¹`` (maths 12.3). Its rows are those of an exact Cholesky factor where a block is given all that
comes before it. ``GCGᵀ`` has ones on its diagonal and ``−2 log|G| ≥ log|C|``, whatever the rows are given.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from tightgp.bounds.structures import ScaledRows
from tightgp.kernels import Kernel
from tightgp.numerics import chunks, linalg, stacks, tiles
from tightgp.numerics.device import per_backend

#: Groups of rows are taken so many bytes at a time.
_GROUP_BYTES = {"cpu": 32 << 20, "gpu": 2 << 30}


class SparseRoot(NamedTuple):
    """``G``, of rows in the order of their blocks.

    ``rows`` are the inducing rows, ``L`` the Cholesky factor of their part of C, and ``A`` (n, m) holds
    ``C_fz L⁻ᵀ``, zero in the inducing rows themselves. ``w`` are the last rows of each group's inverse factor.
    """

    rows: Int[Array, " m"]
    L: Float[Array, "m m"]
    A: Float[Array, "n m"]
    groups: Int[Array, "b t"]
    w: Float[Array, "b own t"]

    @property
    def logdet(self) -> Float[Array, ""]:
        """``−2 log|G|``, an upper bound on ``log|C|`` (maths 12.2)."""
        own = jnp.diagonal(self.w[:, :, -self.w.shape[1] :], axis1=1, axis2=2)
        return 2 * jnp.sum(jnp.log(jnp.diagonal(self.L))) - 2 * jnp.sum(jnp.log(jnp.where(own > 0, own, 1.0)))

    def apply(self, U: Float[Array, "n p"]) -> Float[Array, "n p"]:
        """``GU``."""
        inducing = _solve(self.L, U[self.rows])
        rest = U.at[self.rows].set(0.0) - self.A @ inducing
        out = jnp.einsum("bot,btp->bop", self.w, rest[self.groups.clip(0)])
        return out.reshape(U.shape).at[self.rows].set(inducing)

    def transposed(self, V: Float[Array, "n p"]) -> Float[Array, "n p"]:
        """``GᵀV``."""
        inducing, rest = V[self.rows], V.at[self.rows].set(0.0)
        parts = jnp.einsum("bot,bop->btp", self.w, rest.reshape(*self.w.shape[:2], -1))
        out = jnp.zeros_like(V).at[self.groups.clip(0).reshape(-1)].add(parts.reshape(-1, V.shape[1]))
        return out.at[self.rows].set(_solve(self.L, inducing - self.A.T @ out, transposed=True))

    def solve(self, V: Float[Array, "n p"], order: Int[Array, " b"]) -> Float[Array, "n p"]:
        """``G⁻¹V``, by substitution; ``order`` are the blocks in the order in which they come."""
        inducing, own = V[self.rows], self.w.shape[1]
        here = self.groups[:, -own:] >= 0
        roots = self.w[:, :, -own:] + jnp.where(here, 0.0, 1.0)[:, :, None] * jnp.eye(own, dtype=V.dtype)

        def block(step, U):
            b = order[step]
            given = self.w[b, :, :-own] @ U[self.groups[b, :-own].clip(0)]
            right = jax.lax.dynamic_slice_in_dim(V, b * own, own) - given
            solved = jnp.where(here[b][:, None], _solve(roots[b], right), 0.0)
            return jax.lax.dynamic_update_slice_in_dim(U, solved, b * own, 0)

        U = jax.lax.fori_loop(0, len(order), block, jnp.zeros_like(V)) + self.A @ inducing
        return U.at[self.rows].set(self.L @ inducing)


def _solve(L, b, transposed=False):
    return jax.lax.linalg.triangular_solve(L, b, left_side=True, lower=True, transpose_a=transposed) if len(L) else b


@linalg.full_precision
def covariance_times(kernel: Kernel, rows: ScaledRows, V: Float[Array, "n p"]) -> Float[Array, "n p"]:
    """``CV`` for ``C = I + Σ^-½KΣ^-½``, of which only some rows exist at a time; differentiable."""
    scale = rows.scale[:, None]
    return jnp.where(scale > 0, V, 0.0) + scale * tiles.product(kernel, rows.X, scale * V)


class InducingRows(NamedTuple):
    """Rows that come before all others: their numbers, the factor of their part of C, and ``A = C_fz L⁻ᵀ``."""

    rows: Int[Array, " m"]
    L: Float[Array, "m m"]
    A: Float[Array, "n m"]

    @property
    def logdet(self) -> Float[Array, ""]:
        """``log|C_zz|``."""
        return 2 * jnp.sum(jnp.log(jnp.diagonal(self.L)))


@linalg.full_precision
def inducing_rows(kernel: Kernel, rows: ScaledRows, which: Int[Array, " m"]) -> InducingRows:
    """Some rows as noisy inducing points."""
    Z, scale = rows.X[which], rows.scale[which]
    C = kernel(Z) * scale[:, None] * scale + jnp.eye(len(Z), dtype=rows.X.dtype)
    L = jnp.linalg.cholesky(C, symmetrize_input=False) if len(Z) else C
    A = _solve(L, (kernel(rows.X, Z) * rows.scale[:, None] * scale).T).T
    return InducingRows(which, L, A.at[which].set(0.0))


@linalg.full_precision
def sparse_root(
    kernel: Kernel, rows: ScaledRows, inducing: InducingRows, groups: Int[Array, "b t"], own: int
) -> SparseRoot:
    """The root given inducing rows and groups (b, t) of rows: what a block is given, then its own; -1 for none.

    No group may hold an inducing row.
    """

    return sparse_root_given(kernel, rows._replace(A=inducing.A), inducing, groups, own)


@linalg.full_precision
def sparse_root_given(
    kernel: Kernel, rows: ScaledRows, inducing: InducingRows, groups: Int[Array, "b t"], own: int
) -> SparseRoot:
    """The root of what ``rows.A`` leaves of C: with inducing points' A, each block is given those too."""

    def roots(A, P, here):
        return stacks.conditional_roots(A, P, own) * here[:, None, :]

    w = _over_groups(kernel, rows, groups, roots)
    return SparseRoot(*inducing, groups, w.reshape(-1, own, groups.shape[1])[: len(groups)])


@linalg.full_precision
def conditional_logdet(kernel: Kernel, rows: ScaledRows, groups: Int[Array, "b t"], own: int) -> Float[Array, ""]:
    """``Σ_b log|Cov(y_b | y_c, u)|``, where ``rows.A`` is what the rows know of u (maths 11.1)."""
    parts = _over_groups(kernel, rows, groups, lambda A, P, here: stacks.pivot_logdets(A, P, own))
    return jnp.sum(parts.reshape(-1)[: len(groups)])


def _over_groups(kernel: Kernel, rows: ScaledRows, groups, function):
    """``function`` of whitened rows, prior covariances and presence of some groups at a time, absent rows as zeros."""
    b, t = groups.shape
    plan = chunks.plan(b, per_backend(_GROUP_BYTES) // (t * (rows.A.shape[1] + 4 * t) * rows.X.dtype.itemsize))

    def some(_, index):
        here, at = index >= 0, index.clip(0)
        scale = jnp.where(here, rows.scale[at], 0.0)
        P = jax.vmap(kernel)(rows.X[at]) * scale[:, :, None] * scale[:, None, :]
        return None, function(jnp.where(here[..., None], rows.A[at], 0.0), P, here)

    return chunks.scan(some, None, chunks.cut(groups, plan), plan)[1]
