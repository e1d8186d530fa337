"""q(u) as a trained Gaussian, and its natural-gradient step (maths 4.4)."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp.bounds.latents import Whitened
from tightgp.numerics import linalg
from tightgp.numerics.linalg import Factor
from tightgp.parameters import Parameter, reader, real, triangular

COVARIANCES = ("full", "diagonal", "fixed")


class VariationalGaussian(eqx.Module):
    """``N(mean_l, R_l R_lᵀ)`` for each of l functions, over whitened inducing variables or over u itself.

    ``root`` holds lower triangular matrices (l, m, m), or diagonals (l, m).
    """

    _mean: Parameter
    _root: Parameter

    mean = reader("_mean", "Means (m, l).")
    root = reader("_root", "Lower triangular roots (l, m, m) of the covariances, or diagonal ones (l, m).")

    @classmethod
    def prior(cls, lower: Float[Array, "m m"] | None, m: int, count: int, covariance: str, dtype):
        """The prior of ``count`` functions, to start from; ``lower`` is the factor of Kuu, or None if q is whitened."""
        mean = real(jnp.zeros((m, count), dtype))
        if covariance == "full" or (covariance == "fixed" and lower is not None):
            full = jnp.eye(m, dtype=dtype) if lower is None else lower
            root = triangular(jnp.broadcast_to(full, (count, m, m)), frozen=covariance == "fixed")
        else:
            sd = jnp.ones(m, dtype) if lower is None else jnp.sqrt(jnp.sum(lower * lower, axis=1))
            root = real(jnp.broadcast_to(sd, (count, m)), frozen=covariance == "fixed")
        return cls(mean, root)

    def whitened(self) -> Whitened:
        """This q, which is over whitened variables already."""
        return Whitened(self.mean, self.root)

    @linalg.full_precision
    def unwhitened(self, factor: Factor) -> Whitened:
        """This q over u as a q over ``w = L⁻¹u``."""
        W, root = factor.inverse, self.root
        turned = W * root[:, None, :] if root.ndim == 2 else jax.vmap(linalg.times_lower, (None, 0))(W, root)
        return Whitened(W @ self.mean, turned)

    @linalg.full_precision
    def natural_step(self, gradient: "VariationalGaussian", rate: Float[Array, ""] | float) -> "VariationalGaussian":
        """One step of size ``rate`` along the natural gradient (maths 4.4), shortened where S would not stay positive.

        ``gradient`` holds the objective's gradients in ``mean`` and ``root``; a frozen one is None and stays as it is.
        """
        root, root_bar, rate = self.root, gradient._root.raw, jnp.asarray(rate, self.mean.dtype)
        rates = jnp.broadcast_to(rate, len(root))
        if root_bar is not None:
            root, rates = jax.vmap(_shrink, (0, 0, None))(root, root_bar, rate)
        new = eqx.tree_at(lambda q: q._root.raw, self, root)
        if gradient._mean.raw is None:
            return new
        mean = self.mean + rates * jax.vmap(_covariance_times, (0, 1), 1)(root, gradient._mean.raw)
        return eqx.tree_at(lambda q: q._mean.raw, new, mean)


class KnownValues(eqx.Module):
    """Whitened inducing variables (m, l) themselves, in the place of a q over them (maths 16.2)."""

    _mean: Parameter

    mean = reader("_mean", "The values (m, l).")

    @classmethod
    def of(cls, values: Float[Array, "m l"]) -> "KnownValues":
        """From whitened values."""
        return cls(real(values))

    def whitened(self) -> Whitened:
        """The values, without any spread."""
        return Whitened(self.mean, None)

    def unwhitened(self, factor: Factor) -> Whitened:
        """The same: the values are whitened already."""
        return self.whitened()


def _shrink(root, root_bar, rate):
    if root.ndim == 2:
        return linalg.shrink_root(root, linalg.mirror(root.T @ jnp.tril(root_bar)), rate)
    room = jnp.max(root * root_bar)
    rate = jnp.where(rate * room >= 1, 0.5 / jnp.where(room > 0, room, 1.0), rate)
    return root * jax.lax.rsqrt(1 - rate * root * root_bar), rate


def _covariance_times(root, x):
    return root * root * x if root.ndim == 1 else root @ (root.T @ x)
