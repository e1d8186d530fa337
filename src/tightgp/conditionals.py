"""The structures of V in ``q(f|u) = N(Kfu Kuu⁻¹u, D^½ V D^½)``: one table row a bound (maths 1.4, 2.2).

Everything here is in units of the noise: rows of ``A = L⁻¹Kuf``, the kernel and the targets arrive divided by
the noise standard deviation, so ``R = D/σ²`` and a bound is a function of ``R`` alone. With ``r`` its diagonal:

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

The penalty of Power EP already holds the log determinant of its own noise.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp import checks, linalg

PARTITIONS = ("locality", "rows", "random")


class Local(NamedTuple):
    """What a chunk of rows gives: rows and targets as q(u) sees them, and sums over its points.

    ``root`` (b, s, s) is what the derivative wants to find again of its blocks: ``L⁻¹`` of ``I + c·R_bb = L Lᵀ``.
    """

    A: Float[Array, "n m"]
    y: Float[Array, "n p"]
    penalty: Float[Array, ""]
    excess: Float[Array, ""]
    clamped: Float[Array, ""]
    root: Float[Array, "b s s"] | None


class Cotangents(NamedTuple):
    """Derivatives of an objective with respect to the sums over all rows; ``G`` is that of S plus its transpose."""

    G: Float[Array, "m m"]
    b: Float[Array, "m p"]
    yy: Float[Array, ""]
    penalty: Float[Array, ""]
    excess: Float[Array, ""]


@dataclass(frozen=True)
class Conditional:
    """One row of the table: ``penalty = log1p(curvature·r)/curvature``, noise ``1 + inflation·r``.

    ``pooled`` shares one v among all rows; ``size`` rows of a block share a full V. ``metric`` fixes the
    lengthscales by which neighbours are told apart; None takes the kernel's.
    """

    name: str
    curvature: float = 0.0
    inflation: float = 0.0
    pooled: bool = False
    size: int = 1
    partition: str = "rows"
    metric: tuple[float, ...] | None = field(default=None, compare=False)
    seed: int = 0

    def __post_init__(self):
        if self.curvature != self.inflation and (self.inflation or self.curvature not in (0.0, 1.0)):
            raise ValueError(
                "a bound has curvature 0 or 1 and no inflation; Power EP has equal curvature and inflation"
            )
        if self.curvature == 0 and (self.size > 1 or self.pooled):
            raise ValueError("blocks and a pooled v need curvature: without it V is the identity")

    @property
    def even(self) -> bool:
        """Whether what is left of the prior counts alike in every row, as it does where Φ is a function of its sum."""
        return not self.inflation and (self.pooled or not self.curvature)

    @property
    def is_bound(self) -> bool:
        """Whether the objective is a lower bound on the evidence (Power EP's is not)."""
        return self.inflation == 0.0

    def local(self, A: Float[Array, "n m"], k: Float[Array, "..."], y: Float[Array, "n p"]) -> Local:
        """A chunk's contribution, from its whitened rows, its prior (co)variances and its targets."""
        R, clamped = self.residuals(A, k)
        if self.size == 1:
            penalty, root, seen = jnp.sum(self.penalties(R)), None, (A, y)
            if self.inflation:
                scale = jax.lax.rsqrt(1 + self.inflation * R)
                seen = (self._times(scale, A), self._times(scale, y))
            return Local(*seen, penalty, jnp.sum(R), clamped, root)
        root = self._root_of(R, A)
        penalty = -2 * jnp.sum(jnp.log(jnp.diagonal(root, axis1=1, axis2=2))) / self.curvature
        seen = (self._times(root, A), self._times(root, y)) if self.inflation else (A, y)
        return Local(*seen, penalty, jnp.sum(jnp.diagonal(R, axis1=1, axis2=2)), clamped, root)

    def pull(
        self,
        A: Float[Array, "n m"],
        k: Float[Array, "..."],
        y: Float[Array, "n p"],
        root: Float[Array, "b s s"] | None,
        bar: Cotangents,
    ) -> tuple[Float[Array, "n m"], Float[Array, "..."], Float[Array, "n p"]]:
        """The derivative of `local`, by hand (maths 3.4): cotangents of the rows, of ``k`` and of the targets.

        ``even`` structures have a shorter one (3.5), and do not come here. ``root`` is `Local`'s, or None where it was
        not kept.
        """
        if self.size == 1:
            R = self.residuals(A, k)[0]
            C = 1 / (1 + self.curvature * R)
        else:
            root = self._root_of(self.residuals(A, k)[0], A) if root is None else root
            C = jnp.einsum("bki,bkj->bij", root, root)
        seen_A, seen_y = (self._times(C, A), self._times(C, y)) if self.inflation else (A, y)
        A_bar = seen_A @ bar.G + linalg.thin_outer(seen_y, bar.b).astype(A.dtype)
        y_bar = linalg.thin(seen_A, bar.b) + 2 * bar.yy * seen_y
        R_bar = bar.penalty * C + bar.excess * self._eye(C)
        if self.inflation:
            R_bar = R_bar - 0.5 * self.inflation * (self._products(A_bar, seen_A) + self._products(y_bar, seen_y))
        prior = k if self.size == 1 else jnp.diagonal(k, axis1=1, axis2=2)
        clamped = (prior < jnp.sum(A * A, axis=1).reshape(prior.shape)).astype(A.dtype)
        R_bar = R_bar * (1 - (clamped if self.size == 1 else clamped[:, None, :] * self._eye(C)))
        return A_bar - 2 * self._times(R_bar, A), R_bar, y_bar

    def residuals(self, A: Float[Array, "n m"], k: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, ""]]:
        """What the inducing points leave of the prior: r (n,), or R (b, s, s) of each block; and clamps counted."""
        if self.size == 1:
            R = k - jnp.sum(A * A, axis=1)
            return jnp.maximum(R, 0.0), jnp.sum((R < 0).astype(R.dtype))
        R = k - linalg.grams(A.reshape(-1, self.size, A.shape[1]))
        below = jnp.minimum(jnp.diagonal(R, axis1=1, axis2=2), 0.0)
        return R - below[:, None, :] * self._eye(R), jnp.sum((below < 0).astype(R.dtype))

    def _eye(self, like):
        """Ones where the variances are."""
        return jnp.ones((), like.dtype) if self.size == 1 else jnp.eye(self.size, dtype=like.dtype)

    def penalties(self, R: Float[Array, "..."]) -> Float[Array, " b"]:
        """The term of Φ of each row or block (maths 1.4); where v is pooled, what `penalty` makes Φ of."""
        if not self.curvature or self.pooled:
            return R
        if self.size == 1:
            return jnp.log1p(self.curvature * R) / self.curvature
        return linalg.log_determinants(self._eye(R) + self.curvature * R) / self.curvature

    def root(self, R: Float[Array, "b s s"]) -> Float[Array, "b s s"]:
        """``L⁻¹`` of each block's ``I + c·R_bb = L Lᵀ``."""
        return linalg.inverse_roots(self._eye(R) + self.curvature * R)

    def _root_of(self, R, A):
        """`root`, from rows in the precision of ``A``: where that is shorter, their rounding may have to be covered."""
        short = A.dtype != R.dtype
        return linalg.inverse_roots_with_noise(self.curvature * R) if short else self.root(R)

    def _times(self, C, a):
        """Each row of ``a`` times its number, or the rows of each block times its matrix."""
        C = C.astype(a.dtype)
        if self.size == 1:
            return C[:, None] * a
        return jnp.einsum("bij,bjm->bim", C, a.reshape(len(C), self.size, -1)).reshape(a.shape)

    def _products(self, a, b):
        """The products of each row with its like, or of the rows of a block with all of its like, made symmetric."""
        if self.size == 1:
            return jnp.sum(a * b, axis=1)
        P = jnp.einsum("bim,bjm->bij", *(x.reshape(-1, self.size, x.shape[1]) for x in (a, b)))
        return 0.5 * (P + jnp.swapaxes(P, 1, 2))

    def penalty(self, total: Float[Array, ""], count: Float[Array, ""]) -> Float[Array, ""]:
        """Φ from the sum over all rows."""
        if not self.pooled:
            return total
        return count * jnp.log1p(self.curvature * total / count) / self.curvature

    def optimal_V(
        self, A: Float[Array, "n m"], k: Float[Array, "..."], mean_excess: Float[Array, ""]
    ) -> Float[Array, "b s s"]:
        """The diagonal blocks of the optimal V for some rows (maths 1.4); ``mean_excess`` is over all rows."""
        if not self.is_bound:
            raise ValueError(f"{self.name} has no q(f|u) and so no V; use a bound such as 'diagonal'")
        if self.size == 1:
            return self.scales(self.residuals(A, k)[0], mean_excess)[:, None, None]
        R, _ = self.residuals(A, k)
        W = self.root(R)
        return jnp.einsum("bki,bkj->bij", W, W)

    def scales(self, r: Float[Array, " n"], mean_excess: Float[Array, ""]) -> Float[Array, " n"]:
        """The optimal v of rows by themselves, from what is left of their prior variances."""
        return 1 / (1 + self.curvature * (jnp.full_like(r, mean_excess) if self.pooled else r))


STANDARD = Conditional("standard")
SPHERICAL = Conditional("spherical", curvature=1.0, pooled=True)
DIAGONAL = Conditional("diagonal", curvature=1.0)


def Block(size: int = 64, partition: str = "locality", seed: int = 0) -> Conditional:
    """V full within blocks of ``size`` rows (maths 1.4, 1.6).

    ``partition`` says which rows share a block: "locality" groups neighbours, "rows" takes them as they come,
    "random" shuffles them by ``seed``. It is made once before training and stays fixed (`fit(..., refresh=1)` makes it
    anew between rounds of training). Minibatches are made of whole blocks; rows of `Batches` are grouped in each batch.
    """
    checks.count("size", size)
    checks.choice("partition", partition, PARTITIONS)
    checks.seed("seed", seed)
    return Conditional("block", curvature=1.0, size=size, partition=partition, seed=seed)


def PowerEP(alpha: float, block: int = 1, partition: str = "locality", seed: int = 0) -> Conditional:
    """Power EP (maths 2.2): ``alpha`` → 0 is the standard bound, 1 is FITC, or PITC with blocks.

    Its objective approximates the log evidence from neither side: it is no bound.
    """
    if not 0 < checks.number("alpha", alpha) <= 1:
        raise ValueError(f"alpha must lie in (0, 1], got {alpha!r}; 0 itself is bound='standard'")
    checks.count("block", block)
    checks.choice("partition", partition, PARTITIONS)
    checks.seed("seed", seed)
    name = f"PowerEP({alpha:g})" if block == 1 else f"PowerEP({alpha:g}, block={block})"
    return Conditional(name, float(alpha), float(alpha), size=block, partition=partition, seed=seed)


def named(bound: Any) -> Conditional:
    """A structure from its name."""
    if isinstance(bound, Conditional):
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
