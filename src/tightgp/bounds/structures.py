"""The family of bounds: what V may be in ``q(f|u) = N(Kfu Kuu⁻¹u, D^½ V D^½)`` (maths 1.4, 2.2, §11).

A structure is one forward function of a chunk of rows: it says what the rows and targets look like to q(u), and which
penalty they pay. Everything is in units of the noise: whitened rows ``A = L⁻¹Kuf``, prior covariances and targets are
divided by the noise standard deviation, so that ``R = D/σ²``. With ``r`` the diagonal of R, and ``δ_b`` the log
determinant of the noisy rows of a block given u and the rows that the block is conditioned on:

==============  ======================  =================  ====================================
structure       penalty Φ               rows seen by q(u)  reference
==============  ======================  =================  ====================================
standard        Σ r_i                   as they are        Titsias 2009
spherical       N log1p(mean r)         as they are        Artemev, Burt & van der Wilk 2021
diagonal        Σ log1p(r_i)            as they are        Titsias 2025
block           Σ log|I + R_bb|         as they are        Bui & Titsias 2025
neighbours      Σ δ_b                   as they are        maths 11.2
PowerEP(α)      Σ δ_b/α, R times α      conditioned        Bui, Yan & Turner 2017; α = 1 is FITC, PITC
Vecchia         Σ δ_b                   conditioned        maths 11.3: PowerEP(1) with neighbours
==============  ======================  =================  ====================================

The last two include the log determinant of their own noise, and are no bounds.
"""

import abc
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from tightgp import checks
from tightgp.data.partition import PARTITIONS, Partition
from tightgp.kernels import Kernel
from tightgp.numerics import chunks, stacks
from tightgp.numerics.device import per_backend

#: Blocks with conditioners are taken so many bytes at a time: small enough for a CPU's cache.
_GROUP_BYTES = {"cpu": 8 << 20, "gpu": 4 << 30}
#: So many bytes of rows that blocks are given are gathered at a time: each time costs a pass over all rows' gradient.
_GATHERED_BYTES = {"cpu": 1 << 30, "gpu": 4 << 30}


class ScaledRows(NamedTuple):
    """A chunk of rows over the standard deviation of their noise: whitened rows, inputs, targets.

    ``scale`` is one over that deviation, zero for padding. ``conditioners`` are numbers of rows of the chunk, -1 for
    none: a block's are those of all its rows together (maths 11.1).
    """

    A: Float[Array, "*n m"]
    X: Float[Array, "*n d"]
    y: Float[Array, "*n p"]
    scale: Float[Array, "*n"]
    conditioners: Int[Array, "_ w"] | None = None


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
    """What V may be."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """What users call it."""

    @property
    def is_bound(self) -> bool:
        """Whether the objective is a lower bound on the log evidence; that of Power EP is not."""
        return True

    @property
    def as_bound(self) -> "Structure":
        """The structure with the same blocks and neighbours that gives a bound."""
        return self

    @property
    def collected(self) -> "Structure":
        """The structure whose sums over the data the posterior is made of."""
        return self

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
        """Which rows share a block and which they are conditioned on; single rows where V is diagonal."""
        return Partition(1)

    def for_rows(self, count: int) -> "Structure":
        """This structure for so many rows: blocks are no larger than the data."""
        return self

    @abc.abstractmethod
    def __call__(self, kernel: Kernel, rows: ScaledRows) -> Seen:
        """What a chunk adds to the bound."""

    @abc.abstractmethod
    def penalties(self, kernel: Kernel, rows: ScaledRows) -> tuple[Float[Array, " b"], Float[Array, ""]]:
        """The term of Φ of each row or block, and how many residual variances were below zero."""

    def penalty(self, total: Float[Array, ""], count: Float[Array, ""]) -> Float[Array, ""]:
        """Φ from the sum of `penalties` over ``count`` rows."""
        return total

    @abc.abstractmethod
    def V(self, kernel: Kernel, rows: ScaledRows, mean_residual: Float[Array, ""]) -> Float[Array, "b s s"]:
        """The diagonal blocks of the optimal V (maths 1.4); ``mean_residual`` is over all rows."""


class Rowwise(Structure):
    """V is diagonal: each row by itself."""

    def __call__(self, kernel, rows):
        r, clamped = self.residuals(kernel, rows)
        return Seen(rows.A, rows.y, jnp.sum(self.row_penalties(r)), jnp.sum(r), clamped)

    def penalties(self, kernel, rows):
        r, clamped = self.residuals(kernel, rows)
        return self.row_penalties(r), clamped

    def residuals(self, kernel: Kernel, rows: ScaledRows) -> tuple[Float[Array, " n"], Float[Array, ""]]:
        """``r`` of each row, and how many were below zero by rounding."""
        r = kernel.diagonal(rows.X) * rows.scale**2 - jnp.sum(rows.A * rows.A, axis=1)
        return jnp.maximum(r, 0.0), jnp.sum((r < 0).astype(r.dtype))

    @abc.abstractmethod
    def row_penalties(self, r: Float[Array, " n"]) -> Float[Array, " n"]:
        """The term of Φ of each row; where all rows share one v, what `penalty` makes Φ of."""

    def V(self, kernel, rows, mean_residual):
        return self.scales(self.residuals(kernel, rows)[0], mean_residual)[:, None, None]

    @abc.abstractmethod
    def scales(self, r: Float[Array, " n"], mean_residual: Float[Array, ""]) -> Float[Array, " n"]:
        """The optimal v of each row (maths 1.4); ``mean_residual`` is over all rows."""


@dataclass(frozen=True)
class Standard(Rowwise):
    """V = I: the bound of Titsias (2009)."""

    name = "standard"
    uniform = True

    def row_penalties(self, r):
        return r

    def scales(self, r, mean_residual):
        return jnp.ones_like(r)


@dataclass(frozen=True)
class Spherical(Rowwise):
    """V = v·I, with one v for all rows."""

    name = "spherical"
    uniform = pooled = True

    def row_penalties(self, r):
        return r

    def penalty(self, total, count):
        return count * jnp.log1p(total / count)

    def scales(self, r, mean_residual):
        return jnp.full_like(r, 1 / (1 + mean_residual))


@dataclass(frozen=True)
class Diagonal(Rowwise):
    """V = diag(v), with a v for each row: the bound of Titsias (2025)."""

    name = "diagonal"

    def row_penalties(self, r):
        return jnp.log1p(r)

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

    @property
    def as_bound(self) -> Structure:
        return DIAGONAL

    def row_penalties(self, r):
        return jnp.log1p(self.alpha * r) / self.alpha

    def __call__(self, kernel, rows):
        r, clamped = self.residuals(kernel, rows)
        scale = jax.lax.rsqrt(1 + self.alpha * r)[:, None]
        A = scale.astype(rows.A.dtype) * rows.A
        return Seen(A, scale * rows.y, jnp.sum(self.row_penalties(r)), jnp.sum(r), clamped)

    def scales(self, r, mean_residual):
        raise no_V(self)


@dataclass(frozen=True)
class Blocks(Structure):
    """Blocks of rows, each given up to ``neighbours`` earlier rows; Power EP where ``alpha`` is not zero.

    Without neighbours V is full within blocks. With them ``V⁻¹`` is the closest matrix to ``I + R`` whose inverse has a
    sparse triangular root: each block sees itself and what it is given (maths 11.2).
    """

    size: int
    how: str = "locality"
    seed: int = 0
    alpha: float = 0.0
    neighbours: int = 0

    @property
    def name(self) -> str:
        if not self.alpha:
            return "neighbours" if self.neighbours else "block"
        if self.neighbours and self.alpha == 1:
            return "vecchia"
        if self.neighbours:
            return f"PowerEP({self.alpha:g}, block={self.size}, neighbours={self.neighbours})"
        return f"PowerEP({self.alpha:g}, block={self.size})"

    @property
    def is_bound(self) -> bool:
        return not self.alpha

    @property
    def as_bound(self) -> Structure:
        return replace(self, alpha=0.0)

    @property
    def partition(self) -> Partition:
        return Partition(self.size, self.how, self.seed, self.neighbours)

    def for_rows(self, count: int) -> "Blocks":
        return replace(self, size=min(self.size, count))

    def __call__(self, kernel, rows):
        if not self.neighbours:
            return self.seen(kernel, self.groups(rows))
        own, (n, m) = self._own(rows), rows.A.shape
        assert own.conditioners is not None
        t = self.size + own.conditioners.shape[1]
        row_bytes = rows.A.dtype.itemsize * t

        def seen_at_once(own):
            return self._in_chunks(
                partial(self.seen, kernel),
                self._with_given(rows, own),
                per_backend(_GROUP_BYTES) // (row_bytes * (m + t)),
            )

        seen = self._in_chunks(seen_at_once, own, per_backend(_GATHERED_BYTES) // (row_bytes * m))
        return seen._replace(A=seen.A[:n], y=seen.y[:n])

    def _in_chunks(self, function: Callable[[ScaledRows], Seen], blocks: ScaledRows, most: int) -> Seen:
        """``function`` of all blocks, taken at most so many at a time; the derivative computes each chunk again."""
        count = len(blocks.scale)
        plan = chunks.plan(count, most)
        if plan.number == 1:
            return function(blocks)
        function = jax.checkpoint(
            function,
            prevent_cse=False,
            policy=jax.checkpoint_policies.save_only_these_names(stacks.ROOTS),
        )

        def body(sums, chunk):
            A, y, *parts = function(chunk)
            return tuple(a + b for a, b in zip(sums, parts, strict=True)), (A, y)

        padded = chunks.cut(blocks, plan)
        real = (jnp.arange(plan.size * plan.number) < count).reshape(plan.number, plan.size, 1)
        padded = padded._replace(scale=jnp.where(real, padded.scale, 0.0))
        zero = jnp.zeros((), blocks.scale.dtype)
        sums, (A, y) = chunks.scan(body, (zero, zero, zero), padded, plan)
        rows = count * self.size
        return Seen(A.reshape(-1, A.shape[-1])[:rows], y.reshape(-1, y.shape[-1])[:rows], *sums)

    def penalties(self, kernel, rows):
        return self.group_penalties(kernel, self.groups(rows))

    def group_penalties(self, kernel: Kernel, groups: ScaledRows) -> tuple[Float[Array, " b"], Float[Array, ""]]:
        """`penalties` of blocks that come as groups (b, t, ·): first the rows that a block is given, then its own."""
        groups = self._present(groups)
        A, P = groups.A, _prior(kernel, groups)
        logdets, residual = stacks.conditional_logdets(A, P, self.size, self._is_rounded(A, P))
        return logdets, residual.clamped

    def groups(self, rows: ScaledRows) -> ScaledRows:
        """Groups (b, t, ·) of rows: first those that a block is conditioned on, last the block's own."""
        own = self._own(rows)
        return self._with_given(rows, own) if self.neighbours else own

    def _own(self, rows: ScaledRows) -> ScaledRows:
        """The rows of each block (b, size, ·), and the numbers (b, ·) of those that it is conditioned on."""
        blocks = len(rows.A) // self.size
        own = jax.tree.map(lambda a: a.reshape(blocks, self.size, *a.shape[1:]), rows._replace(conditioners=None))
        if not self.neighbours:
            return own
        assert rows.conditioners is not None
        return own._replace(conditioners=rows.conditioners.reshape(blocks, -1))

    def _with_given(self, rows: ScaledRows, own: ScaledRows) -> ScaledRows:
        """Some blocks with the rows that they are conditioned on before their own."""
        index, own = own.conditioners, own._replace(conditioners=None)
        assert index is not None
        given = jax.tree.map(lambda a: a[jnp.maximum(index, 0)], rows._replace(conditioners=None))
        given = given._replace(scale=jnp.where(index < 0, 0.0, given.scale))
        return jax.tree.map(lambda a, b: jnp.concatenate([a, b], axis=1), given, own)

    def _present(self, groups: ScaledRows) -> ScaledRows:
        """Groups whose absent rows are zero: then they say nothing, and pay nothing."""
        if not self.neighbours:
            return groups
        here = (groups.scale > 0)[..., None]
        return groups._replace(A=jnp.where(here, groups.A, 0.0), y=jnp.where(here, groups.y, 0.0))

    def _is_rounded(self, A, P) -> bool:
        """Whether R may be indefinite by rounding: in short numbers, and under neighbours, where a variance that runs
        away from the noise leaves errors above the noise."""
        return self.neighbours > 0 or A.dtype != P.dtype

    def seen(self, kernel: Kernel, groups: ScaledRows) -> Seen:
        """What q(u) sees of blocks that come as groups (b, t, ·), as in `group_penalties`."""
        groups = self._present(groups)
        A, y, P = groups.A, groups.y, _prior(kernel, groups)
        rounded = self._is_rounded(A, P)
        if self.alpha:
            A, y, logdets, residual = stacks.conditioned(A, P, y, self.alpha, self.size, rounded)
        else:
            logdets, residual = stacks.conditional_logdets(A, P, self.size, rounded)
            A, y = A[:, -self.size :], y[:, -self.size :]
        penalty = jnp.sum(logdets) / (self.alpha or 1.0)
        sums = penalty, jnp.sum(residual.variances), residual.clamped
        return Seen(A.reshape(-1, A.shape[2]), y.reshape(-1, y.shape[2]), *sums)

    def V(self, kernel, rows, mean_residual):
        if self.alpha or self.neighbours:
            raise no_V(self)
        groups = self.groups(rows)
        W = stacks.conditional_roots(groups.A, _prior(kernel, groups), self.size)
        return jnp.einsum("bki,bkj->bij", W, W)


def _prior(kernel: Kernel, groups: ScaledRows) -> Float[Array, "b t t"]:
    """Prior covariances within groups, over the noise."""
    return jax.vmap(kernel)(groups.X) * (groups.scale[:, :, None] * groups.scale[:, None, :])


def no_V(structure: Structure) -> ValueError:
    """The error where a structure is asked for blocks of V, and has none."""
    if structure.is_bound:
        return ValueError(f"V has no blocks under bound={structure.name!r}; use one such as 'block' or 'diagonal'")
    return ValueError(f"{structure.name} has no q(f|u) and so no V; use a bound such as 'diagonal'")


#: Rows that share what they are given, unless the user says otherwise.
BLOCK = 16
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


def Neighbours(neighbours: int = 32, block: int = BLOCK, seed: int = 0) -> Structure:
    """Each block of rows is given its nearest earlier rows (maths 11.2): a bound, never looser than `Block`.

    Args:
        neighbours: rows that a block is given, at most.
        block: neighbouring rows that share what they are given; 1 gives each row its own neighbours.
        seed: of the order in which blocks come: what is earlier is drawn at random.

    >>> Neighbours(32).is_bound
    True
    """
    _check_neighbours(neighbours, block, seed)
    return Blocks(block, "locality", seed, 0.0, neighbours)


def Vecchia(neighbours: int = 32, block: int = BLOCK, seed: int = 0) -> Structure:
    """The density of each block given its nearest earlier rows and u (maths 11.3): close to the evidence, no bound.

    Args:
        neighbours: rows that a block is given, at most.
        block: neighbouring rows that share what they are given; 1 gives each row its own neighbours.
        seed: of the order in which blocks come: what is earlier is drawn at random.

    >>> Vecchia(32).is_bound
    False
    """
    _check_neighbours(neighbours, block, seed)
    return Blocks(block, "locality", seed, 1.0, neighbours)


def PowerEP(alpha: float, block: int = 1, partition: str = "locality", seed: int = 0, neighbours: int = 0) -> Structure:
    """Power EP (maths 2.2), which approximates the log evidence from neither side: it is no bound.

    Args:
        alpha: power, above 0 (near the standard bound) and at most 1 (FITC, or PITC with blocks).
        block: rows in a block; 1 treats each row by itself.
        partition: which rows share a block, as in `Block`.
        seed: of the partition "random", and of the order of blocks with neighbours.
        neighbours: rows that each block is given, as in `Vecchia`, which is the case of power 1.

    >>> PowerEP(0.5, block=64).name
    'PowerEP(0.5, block=64)'
    """
    if not 0 < checks.number("alpha", alpha) <= 1:
        raise ValueError(f"alpha must lie in (0, 1], got {alpha!r}; 0 itself is bound='standard'")
    _check_blocks("block", block, partition, seed)
    if checks.seed("neighbours", neighbours):
        _check_neighbours(neighbours, block, seed)
        if partition != "locality":
            raise ValueError(f"neighbours goes with partition='locality', not {partition!r}")
    several = block > 1 or neighbours > 0
    return Blocks(block, partition, seed, float(alpha), neighbours) if several else RowPowerEP(float(alpha))


def _check_blocks(name: str, size: int, partition: str, seed: int) -> None:
    checks.count(name, size)
    checks.choice("partition", partition, PARTITIONS)
    checks.seed("seed", seed)


def _check_neighbours(neighbours: int, block: int, seed: int) -> None:
    checks.count("neighbours", neighbours)
    checks.count("block", block)
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
        "neighbours": Neighbours(),
        "vecchia": Vecchia(),
        "power_ep": PowerEP(0.5, block=64),
    }
    if not isinstance(bound, str) or bound not in table:
        raise ValueError(
            f"bound must be one of {', '.join(map(repr, table))}, or an object such as "
            f"tightgp.Block(64) or tightgp.Vecchia(32); got {bound!r}"
        )
    return table[bound]
