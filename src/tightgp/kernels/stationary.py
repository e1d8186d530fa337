"""Kernels of a scaled distance between inputs."""

import abc
import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp.kernels.base import ConstantVariance, check_per_column
from tightgp.parameters import FLOOR, Parameter, positive, reader


def squared_distance(A: Float[Array, "n a"], B: Float[Array, "k a"] | None = None) -> Float[Array, "n k"]:
    """``‖a_i − b_j‖²`` as one matrix product; exactly zero on the diagonal where ``B`` is None.

    Both sets are first centred on the mean of ``B``, so that inputs far from the origin lose no digits. Values below
    the rounding error become zero, so that equal rows have distance zero: a kernel with a kink at zero would otherwise
    be wrong by √ε. One column needs no matrix product; its differences are taken directly.
    """
    same, B = B is None, A if B is None else B
    eps = jnp.finfo(A.dtype).eps
    if A.shape[1] == 1:
        return _zero_below((A - B.T) ** 2, (4 * eps) ** 2 * jax.lax.stop_gradient(A * A + (B * B).T))
    centre = jax.lax.stop_gradient(jnp.mean(B, axis=0))
    A, B = A - centre, B - centre
    norm_a, norm_b = jnp.sum(A * A, axis=1, keepdims=True), jnp.sum(B * B, axis=1, keepdims=True)
    left = jnp.concatenate([-2 * A, norm_a, jnp.ones_like(norm_a)], axis=1)
    right = jnp.concatenate([B, jnp.ones_like(norm_b), norm_b], axis=1)
    rounding = 8 * eps * jax.lax.stop_gradient(norm_a + norm_b.T) + (8 * eps) ** 2 * jnp.sum(centre * centre)
    r2 = _zero_below(left @ right.T, rounding)
    return r2 * (1 - jnp.eye(len(A), dtype=A.dtype)) if same else r2


def _zero_below(r2, rounding):
    """``r2`` with values up to ``rounding`` set to zero; an infinite or NaN ``rounding`` changes nothing."""
    return jnp.where((r2 <= rounding) & (rounding < jnp.inf), 0.0, r2)


def _distance(r2: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """``√r2``, with derivative zero at zero.

    The smallest positive number stands for zero under the root. A branch on ``r2 == 0`` would not be safe: a compiler
    may recompute ``r2`` with other rounding for each use, and the branches would then disagree.
    """
    return jnp.sqrt(jnp.maximum(r2, jnp.finfo(r2.dtype).tiny))


class Stationary(ConstantVariance):
    """``k(x, x') = σ_f² ρ(r²)`` with ``r² = Σ_d ((x_d − x'_d)/ℓ_d)²``. Subclasses implement the correlation ``ρ``.

    Args:
        variance: the prior variance σ_f².
        lengthscale: the lengthscale ℓ, one number or one for each active input.
        active_dims: the columns of X that the kernel uses; None for all of them.
    """

    _lengthscale: Parameter
    lengthscale = reader("_lengthscale", "Lengthscale ℓ: one number, or one for each active input.")

    def __init__(self, variance=1.0, lengthscale=1.0, active_dims=None):
        super().__init__(variance, active_dims)
        self._lengthscale = positive(lengthscale, name="lengthscale", floor=FLOOR)

    @abc.abstractmethod
    def correlation(self, r2: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """``ρ(r²)``, one at zero."""

    def scaled(self, X: Float[Array, "n a"]) -> Float[Array, "n s"]:
        """Inputs whose Euclidean distance is r."""
        return X / check_per_column("lengthscale", self.lengthscale, X)

    def matrix(self, X, X2):
        r2 = squared_distance(self.scaled(X), None if X2 is None else self.scaled(X2))
        return self.variance * self.correlation(r2)

    def length_scales(self, num_inputs):
        return self.over_all_inputs(self.lengthscale, num_inputs, jnp.inf)


class SquaredExponential(Stationary, init=False):
    """``k(x, x') = σ_f² exp(−r²/2)`` with ``r² = Σ_d ((x_d − x'_d)/ℓ_d)²``: infinitely differentiable functions.

    Args:
        variance: the prior variance σ_f².
        lengthscale: the lengthscale ℓ, one number or one for each active input.
        active_dims: the columns of X that the kernel uses; None for all of them.

    >>> kernel = tgp.kernels.SquaredExponential(variance=2.0, lengthscale=[0.5, 1.5])
    >>> kernel(X[:5], X).shape
    (5, 60)
    """

    def correlation(self, r2):
        return jnp.exp(-0.5 * r2)


class Matern12(Stationary, init=False):
    """``k(x, x') = σ_f² exp(−r)`` with ``r² = Σ_d ((x_d − x'_d)/ℓ_d)²``: continuous, not differentiable functions.

    Args:
        variance: the prior variance σ_f².
        lengthscale: the lengthscale ℓ, one number or one for each active input.
        active_dims: the columns of X that the kernel uses; None for all of them.

    >>> kernel = tgp.kernels.Matern12(lengthscale=0.5)
    >>> kernel(np.array([[0.0], [1.0]]))
    Array([[1.        , 0.13533528],
           [0.13533528, 1.        ]], dtype=float64)
    """

    def correlation(self, r2):
        return jnp.exp(-_distance(r2))


class Matern32(Stationary, init=False):
    """``k(x, x') = σ_f² (1 + √3 r) exp(−√3 r)`` with ``r² = Σ_d ((x_d − x'_d)/ℓ_d)²``: once differentiable functions.

    Args:
        variance: the prior variance σ_f².
        lengthscale: the lengthscale ℓ, one number or one for each active input.
        active_dims: the columns of X that the kernel uses; None for all of them.

    >>> kernel = tgp.kernels.Matern32(variance=2.0, lengthscale=[0.5, 1.5])
    >>> kernel.diagonal(X[:3])
    Array([2., 2., 2.], dtype=float64)
    """

    def correlation(self, r2):
        s = math.sqrt(3.0) * _distance(r2)
        return (1 + s) * jnp.exp(-s)


class Matern52(Stationary, init=False):
    """``k(x, x') = σ_f² (1 + √5 r + 5r²/3) exp(−√5 r)`` with ``r² = Σ_d ((x_d − x'_d)/ℓ_d)²``.

    Functions are twice differentiable.

    Args:
        variance: the prior variance σ_f².
        lengthscale: the lengthscale ℓ, one number or one for each active input.
        active_dims: the columns of X that the kernel uses; None for all of them.

    >>> kernel = tgp.kernels.Matern52(lengthscale=0.5, active_dims=[1])
    >>> kernel.length_scales(2)
    Array([inf, 0.5], dtype=float64)
    """

    def correlation(self, r2):
        s = math.sqrt(5.0) * _distance(r2)
        return (1 + s + s * s / 3) * jnp.exp(-s)


class RationalQuadratic(Stationary):
    """``k(x, x') = σ_f² (1 + r²/(2α))^(−α)`` with ``r² = Σ_d ((x_d − x'_d)/ℓ_d)²``.

    A mixture of squared exponentials with different lengthscales; α → ∞ is the squared exponential.

    Args:
        variance: the prior variance σ_f².
        lengthscale: the lengthscale ℓ, one number or one for each active input.
        alpha: the shape α; the smaller, the heavier the tails.
        active_dims: the columns of X that the kernel uses; None for all of them.

    >>> kernel = tgp.kernels.RationalQuadratic(lengthscale=0.5, alpha=0.5)
    >>> kernel(X[:5], X).shape
    (5, 60)
    """

    _alpha: Parameter
    alpha = reader("_alpha", "Shape α; the smaller, the heavier the tails.")

    def __init__(self, variance=1.0, lengthscale=1.0, alpha=1.0, active_dims=None):
        super().__init__(variance, lengthscale, active_dims)
        self._alpha = positive(alpha, name="alpha", floor=FLOOR, scalar=True)

    def correlation(self, r2):
        return jnp.exp(-self.alpha * jnp.log1p(r2 / (2 * self.alpha)))


class Periodic(Stationary):
    """``k(x, x') = σ_f² exp(−2 Σ_d sin²(π(x_d − x'_d)/p_d)/ℓ_d²)``: periodic functions.

    The squared exponential of the points ``(cos, sin)(2πx_d/p_d)`` on the unit circle.

    Args:
        variance: the prior variance σ_f².
        lengthscale: the lengthscale ℓ on the unit circle, one number or one for each active input.
        period: the period p, one number or one for each active input.
        active_dims: the columns of X that the kernel uses; None for all of them.

    >>> kernel = tgp.kernels.Periodic(period=2.0)
    >>> kernel(np.array([[0.0]]), np.array([[2.0], [4.0]]))
    Array([[1., 1.]], dtype=float64)
    """

    _period: Parameter
    period = reader("_period", "Period p: one number, or one for each active input.")

    def __init__(self, variance=1.0, lengthscale=1.0, period=1.0, active_dims=None):
        super().__init__(variance, lengthscale, active_dims)
        self._period = positive(period, name="period", floor=FLOOR)

    def scaled(self, X):
        angle = 2 * jnp.pi * X / check_per_column("period", self.period, X)
        scale = check_per_column("lengthscale", self.lengthscale, X)
        return jnp.concatenate([jnp.cos(angle) / scale, jnp.sin(angle) / scale], axis=1)

    def correlation(self, r2):
        return jnp.exp(-0.5 * r2)

    def length_scales(self, num_inputs):
        # At short distances the kernel is a squared exponential with lengthscale ℓp/(2π).
        return self.over_all_inputs(self.lengthscale * self.period / (2 * jnp.pi), num_inputs, jnp.inf)
