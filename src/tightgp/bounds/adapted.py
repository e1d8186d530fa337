"""The collapsed bound with an adapted mean: conjugate gradients close the gap of its quadratic term (maths 12.1).

``q(f|u)`` may also have a mean of its own for each row. At the best one the bound's quadratic term is that of the exact
GP, whatever the inducing points, and only its log determinant stays above. Here it is found anew at each value of the
parameters, from the same start, so that the bound is a function of them; its derivative is that at the mean found.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp import means
from tightgp.bounds import collapsed, statistics
from tightgp.bounds.sparse_root import InducingRows, SparseRoot, covariance_times, sparse_root_given
from tightgp.bounds.statistics import Process
from tightgp.bounds.structures import BLOCK, STANDARD, Blocks, Neighbours, ScaledRows, Structure
from tightgp.data.placement import OnDevice, PlacedRows
from tightgp.numerics import linalg

#: The solver stops where the residual's squares, which bound what can still be gained, are so many a row, or after so
#: many steps.
_TOLERANCE, _MOST_STEPS = 1e-8, 100


@dataclass(frozen=True)
class Adapted(Structure):
    """What V is under ``Certified``: that of the bound with neighbours."""

    neighbours: Blocks
    name = "certified"

    @property
    def partition(self):
        return self.neighbours.partition

    @property
    def collected(self):
        """Vecchia with the same neighbours: left-out rows are predicted better by it than by the bound's own q(u)."""
        return replace(self.neighbours, alpha=1.0)

    def for_rows(self, count):
        return Adapted(self.neighbours.for_rows(count))

    def __call__(self, kernel, rows):
        raise _only_sgpr()

    def penalties(self, kernel, rows):
        raise _only_sgpr()

    def V(self, kernel, rows, mean_residual):
        return self.neighbours.V(kernel, rows, mean_residual)


def _only_sgpr() -> ValueError:
    return ValueError(
        "bound='certified' is for tightgp.SGPR alone; use 'neighbours', or 'vecchia' where that is allowed"
    )


def Certified(neighbours: int = 32, block: int = BLOCK, seed: int = 0) -> Structure:
    """`Neighbours` with an adapted mean (maths 12.1): a bound within some hundredths of a nat a row of the evidence.

    Each evaluation takes some tens of products with the N×N kernel matrix, which is never kept: O(N²) time. Rows must
    lie on one device.

    Args:
        neighbours: rows that a block is given, at most.
        block: neighbouring rows that share what they are given.
        seed: of the order in which blocks come.

    >>> data, kernel = tgp.Dataset(X, y), tgp.kernels.SquaredExponential()
    >>> looser, tighter = (tgp.SGPR(kernel, X[:5], 0.1, bound=b) for b in ("neighbours", "certified"))
    >>> float(looser.elbo(data)) < float(tighter.elbo(data)) < float(tgp.ExactGP(kernel, 0.1).log_evidence(data))
    True
    """
    structure = Neighbours(neighbours, block, seed)
    assert isinstance(structure, Blocks)
    return Adapted(structure)


class _Solver(NamedTuple):
    """``C`` and the inverse of its Vecchia approximation (maths 11.3), as functions."""

    process: Process
    rows: ScaledRows
    root: SparseRoot
    seen: Float[Array, "n m"]
    inverse: Float[Array, "m m"]

    def precondition(self, r: Float[Array, "n p"]) -> Float[Array, "n p"]:
        """``Wᵀ(I − Ã(I + ÃᵀÃ)⁻¹Ãᵀ)W r``."""
        v = self.root.apply(r)
        return self.root.transposed(v - self.seen @ (self.inverse.T @ (self.inverse @ (self.seen.T @ v))))


@linalg.full_precision
def lower_bound(
    process: Process, rows: PlacedRows, structure: Adapted, jitter: float
) -> tuple[Float[Array, ""], linalg.Factor, Float[Array, ""], Float[Array, ""]]:
    """The bound in total nats, the factor of ``Kuu``, clamped variances, and how many steps the solver took."""
    if not isinstance(rows, OnDevice):
        raise ValueError("bound='certified' needs all rows on one device; use 'neighbours'")
    inner = structure.neighbours.for_rows(rows.num_rows)
    if inner.partition.pieces(rows.num_rows).number > 1:
        raise ValueError(f"bound='certified' is not for as many as {rows.num_rows} rows; use 'neighbours'")
    sums, factor = statistics.collect(process, rows, inner, jitter)
    data = rows.rows
    variance = statistics.noise_of(process, data)
    scale = jnp.where(data.weight > 0, jax.lax.rsqrt(variance), 0.0)
    y = (data.y - process.mean(data.X)) * scale[:, None]
    scaled = ScaledRows(jnp.zeros((len(y), 0), y.dtype), data.X, y, scale, data.conditioners)
    fixed = jax.lax.stop_gradient((process, scaled, factor.inverse))
    alpha, steps = _solve(*fixed, inner)
    product = covariance_times(process.kernel, scaled, alpha)
    # The residual's quadratic form in Q + σ²I is that of the collapsed bound on targets without a mean.
    rest = jnp.where(scale[:, None] > 0, (y - product) / jnp.where(scale > 0, scale, 1.0)[:, None], 0.0)
    alone = OnDevice(data._replace(y=rest, conditioners=None))
    left = collapsed.quadratic(statistics.collect(process._replace(mean=means.Zero()), alone, STANDARD, jitter)[0])
    gain = collapsed.quadratic(sums) - jnp.sum(alpha * (2 * y - product)) - left
    return collapsed.lower_bound(sums, inner) + 0.5 * gain, factor, sums.clamped, steps


def _solve(process: Process, rows: ScaledRows, W: Float[Array, "m m"], structure: Blocks):
    """``α ≈ C⁻¹y`` by preconditioned conjugate gradients, all outputs at once, and the number of steps."""
    A = linalg.times_lower_t(process.kernel(rows.X, process.Z) * rows.scale[:, None], W)
    own = jnp.where(rows.scale > 0, jnp.arange(len(A)), -1).reshape(-1, structure.size)
    assert rows.conditioners is not None
    groups = jnp.concatenate([rows.conditioners.reshape(len(own), -1), own], axis=1)
    nobody = InducingRows(jnp.zeros(0, jnp.int32), jnp.zeros((0, 0), A.dtype), rows.A)
    root = sparse_root_given(process.kernel, rows._replace(A=A), nobody, groups, structure.size)
    seen = root.apply(A)
    inverse = linalg.factorise(jnp.eye(A.shape[1], dtype=A.dtype) + seen.T @ seen, jitter=0.0).inverse
    solver = _Solver(process, rows, root, seen, inverse)
    enough = _TOLERANCE * jnp.sum(rows.scale > 0)

    def unfinished(state):
        return jnp.any(jnp.sum(state[1] ** 2, axis=0) > enough) & (state[4] < _MOST_STEPS)

    def step(state):
        alpha, r, direction, size, count = state
        product = covariance_times(process.kernel, rows, direction)
        length = size / jnp.maximum(jnp.sum(direction * product, axis=0), jnp.finfo(r.dtype).tiny)
        alpha, r = alpha + length * direction, r - length * product
        z = solver.precondition(r)
        new = jnp.sum(r * z, axis=0)
        return alpha, r, z + new / size * direction, new, count + 1

    alpha = solver.precondition(rows.y)
    r = rows.y - covariance_times(process.kernel, rows, alpha)
    z = solver.precondition(r)
    state = alpha, r, z, jnp.sum(r * z, axis=0), jnp.zeros((), jnp.int32)
    alpha, *_, count = jax.lax.while_loop(unfinished, step, state)
    return jax.lax.stop_gradient(alpha), count.astype(alpha.dtype)
