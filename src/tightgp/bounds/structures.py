"""The family of bounds: what V may be in ``q(f|u) = N(Kfu Kuu⁻¹u, D^½ V D^½)`` (maths 1.4, 2.2).

A structure is one forward function of a chunk of rows: it says what the rows and targets look like to q(u), and which
penalty they pay. Everything is in units of the noise: whitened rows ``A = L⁻¹Kuf``, prior covariances and targets are
divided by the noise standard deviation, so that ``R = D/σ²``. With ``r`` the diagonal of R:

=============  ======================  =================  ====================================
structure      penalty Φ               noise seen by q(u)  reference
=============  ======================  =================  ====================================
standard       Σ r_i                   1                  Titsias 2009
spherical      N log1p(mean r)         1                  Artemev, Burt & van der Wilk 2021
diagonal       Σ log1p(r_i)            1                  Titsias 2025
block          Σ log|I + R_bb|         1                  Bui & Titsias 2025
PowerEP(α)     Σ log1p(α r_i)/α        1 + α r_i          Bui, Yan & Turner 2017; α = 1 is FITC
PowerEP, block Σ log|I + α R_bb|/α     I + α R_bb         α = 1 is PITC
=============  ======================  =================  ====================================

The penalty of Power EP includes the log determinant of its own noise.
"""

import abc
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp import checks
from tightgp.data.partition import PARTITIONS, Partition
from tightgp.kernels import Kernel
from tightgp.numerics import stacks


class Seen(NamedTuple):
    """A chunk of rows and targets as q(u) sees them, and sums over the chunk.

    ``penalty`` is its part of Φ, ``residual`` is Σ r, ``clamped`` counts residual variances below zero by rounding.
    """

    A: Float[Array, "n m"]
    y: Float[Array, "n p"]
    penalty: Float[Array, ""]
    residual: Float[Array, ""]
    clamped: Float[Array, ""]


class Structure(abc.ABC):
    """What V may be. Rows are whitened rows ``A`` (n, m) over the noise, ``prior`` their prior (co)variances."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """What users call it."""

    @property
    def is_bound(self) -> bool:
        """Whether the objective is a lower bound on the log evidence; that of Power EP is not."""
        return True

    @property
    def uniform(self) -> bool:
        """Whether Φ depends on Σ r alone, so that every row counts alike."""
        return False

    @property
    def pooled(self) -> bool:
        """Whether all rows share one v."""
        return False

    @property
    def partition(self) -> Partition:
        """Which rows share a block; blocks of one row where V is diagonal."""
        return Partition(1)

    def for_rows(self, count: int) -> "Structure":
        """This structure for so many rows: blocks are no larger than the data."""
        return self

    @abc.abstractmethod
    def prior(self, kernel: Kernel, X: Float[Array, "n d"]) -> Float[Array, "..."]:
        """Prior variances (n,), or covariances (b, s, s) of consecutive blocks of rows."""

    @abc.abstractmethod
    def scaled(self, R: Float[Array, "..."], s: Float[Array, " n"]) -> Float[Array, "..."]:
        """(Co)variances of rows that are multiplied by ``s``."""

    @abc.abstractmethod
    def residuals(
        self, A: Float[Array, "n m"], prior: Float[Array, "..."]
    ) -> tuple[Float[Array, "..."], Float[Array, ""]]:
        """What the inducing points leave of the prior: ``R``, shaped like ``prior``; and how many were clamped."""

    @abc.abstractmethod
    def penalties(self, R: Float[Array, "..."]) -> Float[Array, " b"]:
        """The term of Φ of each row or block; where all rows share one v, what `penalty` makes Φ of."""

    def seen(
        self, A: Float[Array, "n m"], prior: Float[Array, "..."], y: Float[Array, "n p"]
    ) -> tuple[Float[Array, "n m"], Float[Array, "n p"], Float[Array, " b"], Float[Array, "..."], Float[Array, ""]]:
        """Rows and targets as q(u) sees them, `penalties`, and `residuals`."""
        R, clamped = self.residuals(A, prior)
        return A, y, self.penalties(R), R, clamped

    def __call__(self, A: Float[Array, "n m"], prior: Float[Array, "..."], y: Float[Array, "n p"]) -> Seen:
        """What a chunk adds to the bound."""
        A, y, penalties, R, clamped = self.seen(A, prior, y)
        return Seen(A, y, jnp.sum(penalties), self.trace(R), clamped)

    @abc.abstractmethod
    def trace(self, R: Float[Array, "..."]) -> Float[Array, ""]:
        """``Σ r``."""

    def penalty(self, total: Float[Array, ""], count: Float[Array, ""]) -> Float[Array, ""]:
        """Φ from the sum of `penalties` over ``count`` rows."""
        return total

    @abc.abstractmethod
    def optimal_V(self, R: Float[Array, "..."], mean_residual: Float[Array, ""]) -> Float[Array, "b s s"]:
        """The diagonal blocks of the optimal V (maths 1.4); ``mean_residual`` is over all rows."""


class Rowwise(Structure):
    """V is diagonal: each row by itself."""

    def prior(self, kernel, X):
        return kernel.diagonal(X)

    def scaled(self, R, s):
        return R * s * s

    def residuals(self, A, prior):
        r = prior - jnp.sum(A * A, axis=1)
        return jnp.maximum(r, 0.0), _count(r < 0, r.dtype)

    def trace(self, R):
        return jnp.sum(R)

    def optimal_V(self, R, mean_residual):
        return self.scales(R, mean_residual)[:, None, None]

    @abc.abstractmethod
    def scales(self, r: Float[Array, " n"], mean_residual: Float[Array, ""]) -> Float[Array, " n"]:
        """The optimal v of each row."""


@dataclass(frozen=True)
class Standard(Rowwise):
    """V = I: the bound of Titsias (2009)."""

    name = "standard"
    uniform = True

    def penalties(self, R):
        return R

    def scales(self, r, mean_residual):
        return jnp.ones_like(r)


@dataclass(frozen=True)
class Spherical(Rowwise):
    """V = v·I, with one v for all rows."""

    name = "spherical"
    uniform = pooled = True

    def penalties(self, R):
        return R

    def penalty(self, total, count):
        return count * jnp.log1p(total / count)

    def scales(self, r, mean_residual):
        return jnp.full_like(r, 1 / (1 + mean_residual))


@dataclass(frozen=True)
class Diagonal(Rowwise):
    """V = diag(v), with a v for each row: the bound of Titsias (2025)."""

    name = "diagonal"

    def penalties(self, R):
        return jnp.log1p(R)

    def scales(self, r, mean_residual):
        return 1 / (1 + r)


@dataclass(frozen=True)
class RowPowerEP(Rowwise):
    """Power EP, row by row."""

    alpha: float

    is_bound = False

    @property
    def name(self) -> str:
        return f"PowerEP({self.alpha:g})"

    def penalties(self, R):
        return jnp.log1p(self.alpha * R) / self.alpha

    def seen(self, A, prior, y):
        R, clamped = self.residuals(A, prior)
        scale = jax.lax.rsqrt(1 + self.alpha * R)[:, None]
        return scale.astype(A.dtype) * A, scale * y, self.penalties(R), R, clamped

    def scales(self, r, mean_residual):
        raise _no_V(self)


@dataclass(frozen=True)
class Blocks(Structure):
    """V is full within blocks of rows, or Power EP with such blocks where ``alpha`` is not zero."""

    size: int
    how: str = "locality"
    seed: int = 0
    alpha: float = 0.0

    @property
    def name(self) -> str:
        return f"PowerEP({self.alpha:g}, block={self.size})" if self.alpha else "block"

    @property
    def is_bound(self) -> bool:
        return not self.alpha

    @property
    def partition(self) -> Partition:
        return Partition(self.size, self.how, self.seed)

    def for_rows(self, count: int) -> "Blocks":
        return Blocks(min(self.size, count), self.how, self.seed, self.alpha)

    def prior(self, kernel, X):
        return jax.vmap(kernel)(X.reshape(-1, self.size, X.shape[1]))

    def scaled(self, R, s):
        s = s.reshape(-1, self.size)
        return R * s[:, :, None] * s[:, None, :]

    def residuals(self, A, prior):
        R = prior - stacks.grams(A.reshape(-1, self.size, A.shape[1]))
        below = jnp.minimum(jnp.diagonal(R, axis1=1, axis2=2), 0.0)
        return R - below[:, None, :] * jnp.eye(self.size, dtype=R.dtype), _count(below < 0, R.dtype)

    def penalties(self, R):
        return stacks.noisy_logdets(self._power * R) / self._power

    def seen(self, A, prior, y):
        R, clamped = self.residuals(A, prior)
        rounded = A.dtype != R.dtype  # rows in a shorter precision: their rounding may have to be covered
        if not self.alpha:
            return A, y, stacks.noisy_logdets(R, rounded), R, clamped
        roots = stacks.noisy_roots(self.alpha * R, rounded)
        penalties = stacks.logdets_of_roots(roots) / self.alpha
        return self._times(roots, A), self._times(roots, y), penalties, R, clamped

    def trace(self, R):
        return jnp.sum(jnp.diagonal(R, axis1=1, axis2=2))

    def optimal_V(self, R, mean_residual):
        if self.alpha:
            raise _no_V(self)
        W = stacks.noisy_roots(R)
        return jnp.einsum("bki,bkj->bij", W, W)

    @property
    def _power(self) -> float:
        return self.alpha or 1.0

    def _times(self, roots, a):
        """The rows of each block times its matrix."""
        blocks = a.reshape(len(roots), self.size, -1)
        return jnp.einsum("bij,bjm->bim", roots.astype(a.dtype), blocks).reshape(a.shape)


def _count(mask, dtype) -> Float[Array, ""]:
    return jnp.sum(mask.astype(dtype))


def _no_V(structure: Structure) -> ValueError:
    return ValueError(f"{structure.name} has no q(f|u) and so no V; use a bound such as 'diagonal'")


STANDARD, SPHERICAL, DIAGONAL = Standard(), Spherical(), Diagonal()


def Block(size: int = 64, partition: str = "locality", seed: int = 0) -> Structure:
    """V full within blocks of rows (maths 1.4, 1.6).

    Minibatches are made of whole blocks; the rows of `Batches` are grouped within each batch.

    Args:
        size: rows in a block.
        partition: which rows share a block: "locality" groups neighbours, "rows" takes consecutive rows, "random"
            shuffles. Made once before training; ``fit(..., refresh=1)`` makes it again after.
        seed: of the shuffle.

    >>> Block(32).name
    'block'
    """
    _check_blocks("size", size, partition, seed)
    return Blocks(size, partition, seed) if size > 1 else DIAGONAL


def PowerEP(alpha: float, block: int = 1, partition: str = "locality", seed: int = 0) -> Structure:
    """Power EP (maths 2.2), which approximates the log evidence from neither side: it is no bound.

    Args:
        alpha: power, above 0 (near the standard bound) and at most 1 (FITC, or PITC with blocks).
        block: rows in a block; 1 treats each row by itself.
        partition: which rows share a block, as in `Block`.
        seed: of the partition "random".

    >>> PowerEP(0.5, block=64).name
    'PowerEP(0.5, block=64)'
    """
    if not 0 < checks.number("alpha", alpha) <= 1:
        raise ValueError(f"alpha must lie in (0, 1], got {alpha!r}; 0 itself is bound='standard'")
    _check_blocks("block", block, partition, seed)
    return Blocks(block, partition, seed, float(alpha)) if block > 1 else RowPowerEP(float(alpha))


def _check_blocks(name: str, size: int, partition: str, seed: int) -> None:
    checks.count(name, size)
    checks.choice("partition", partition, PARTITIONS)
    checks.seed("seed", seed)


def named(bound: Any) -> Structure:
    """A structure from its name, or the structure itself."""
    if isinstance(bound, Structure):
        return bound
    table = {
        "standard": STANDARD,
        "spherical": SPHERICAL,
        "diagonal": DIAGONAL,
        "block": Block(),
        "power_ep": PowerEP(0.5, block=64),
    }
    if not isinstance(bound, str) or bound not in table:
        raise ValueError(
            f"bound must be one of {', '.join(map(repr, table))}, or an object such as "
            f"tightgp.Block(64) or tightgp.PowerEP(0.5); got {bound!r}"
        )
    return table[bound]
