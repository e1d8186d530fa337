"""Kernels of a scaled distance between inputs."""

import abc
import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp.kernels.base import Kernel, dims, per_column
from tightgp.parameters import FLOOR, Parameter, positive, reader


def squared_distance(A: Float[Array, "n a"], B: Float[Array, "k a"] | None = None) -> Float[Array, "n k"]:
    """``‖a_i − b_j‖²`` by one augmented matrix product; exactly zero on the diagonal where ``B`` is None.
    One column needs no product: its differences are taken directly.

    Both sets are first moved by the same vector to the middle of ``B``: distances do not change, and inputs
    far from the origin lose no digits. What is below the rounding of the product, or of that move, is zero, so that
    equal rows of the two sets have distance zero: a kernel with a kink there would otherwise be wrong by √ε.
    """
    same, B = B is None, A if B is None else B
    eps = jnp.finfo(A.dtype).eps
    if A.shape[1] == 1:
        r2, rounding = (A - B.T) ** 2, (4 * eps) ** 2 * jax.lax.stop_gradient(A * A + (B * B).T)
        return jnp.where((r2 <= rounding) & (rounding < jnp.inf), 0.0, r2)
    middle = jax.lax.stop_gradient(jnp.mean(B, axis=0))
    A, B = A - middle, B - middle
    one_a, one_b = jnp.ones((len(A), 1), A.dtype), jnp.ones((len(B), 1), B.dtype)
    norm_a, norm_b = jnp.sum(A * A, axis=1, keepdims=True), jnp.sum(B * B, axis=1, keepdims=True)
    left = jnp.concatenate([-2 * A, norm_a, one_a], axis=1)
    right = jnp.concatenate([B, one_b, norm_b], axis=1)
    r2 = left @ right.T
    rounding = 8 * eps * jax.lax.stop_gradient(norm_a + norm_b.T) + (8 * eps) ** 2 * jnp.sum(middle * middle)
    r2 = jnp.where((r2 <= rounding) & (rounding < jnp.inf), 0.0, r2)  # NaN stays NaN
    return r2 * (1 - jnp.eye(len(A), dtype=A.dtype)) if same else r2


def _distance(r2: Float[Array, "n k"]) -> Float[Array, "n k"]:
    """The root of ``r2``, with a zero derivative at zero.

    The smallest number under the root stands for zero. To ask ``r2 == 0`` would not do: a compiler may compute
    ``r2`` again for each place that uses it, with other rounding, and the answers then contradict each other.
    """
    return jnp.sqrt(jnp.maximum(r2, jnp.finfo(r2.dtype).tiny))


def _fields(variance, lengthscale, active_dims):
    return (
        positive(variance, name="variance", squared=True, scalar=True),
        positive(lengthscale, name="lengthscale", floor=FLOOR),
        dims(active_dims),
    )


class Stationary(Kernel):
    """``variance · profile(r²)`` with ``r² = Σ_d ((x_d − x'_d)/lengthscale_d)²``."""

    _variance: Parameter
    _lengthscale: Parameter
    active_dims: tuple[int, ...] | None = eqx.field(static=True)

    variance = reader("_variance", "Prior variance σ_f² of the function.")
    lengthscale = reader("_lengthscale", "Lengthscale ℓ: one number, or one for each active input.")

    @abc.abstractmethod
    def _profile(self, r2: Float[Array, "n k"]) -> Float[Array, "n k"]:
        """Correlation at squared scaled distance ``r2``."""

    def _matrix(self, X, X2):
        scale = per_column("lengthscale", self.lengthscale, X)
        r2 = squared_distance(X / scale, None if X2 is None else X2 / scale)
        return self.variance * self._profile(r2)

    def _diagonal(self, X):
        return jnp.broadcast_to(self.variance, (X.shape[0],))

    @property
    def stationary(self):
        return True

    def length_scales(self, num_inputs):
        return spread(self.lengthscale, self.active_dims, num_inputs)


def spread(lengthscale, active_dims, num_inputs: int) -> Float[Array, " d"]:
    """A kernel's lengthscales over all inputs, infinite for those that it does not see."""
    if active_dims is None:
        return jnp.broadcast_to(lengthscale, (num_inputs,))
    everywhere = jnp.full(num_inputs, jnp.inf, lengthscale.dtype)
    return everywhere.at[jnp.asarray(active_dims)].set(lengthscale)


class SquaredExponential(Stationary):
    """``σ_f² exp(−r²/2)``: infinitely smooth functions."""

    def __init__(self, variance=1.0, lengthscale=1.0, active_dims=None):
        self._variance, self._lengthscale, self.active_dims = _fields(variance, lengthscale, active_dims)

    def _profile(self, r2):
        return jnp.exp(-0.5 * r2)


class Matern12(Stationary):
    """``σ_f² exp(−r)``: continuous, nowhere differentiable functions."""

    def __init__(self, variance=1.0, lengthscale=1.0, active_dims=None):
        self._variance, self._lengthscale, self.active_dims = _fields(variance, lengthscale, active_dims)

    def _profile(self, r2):
        return jnp.exp(-_distance(r2))


class Matern32(Stationary):
    """``σ_f² (1 + √3 r) exp(−√3 r)``: once differentiable functions."""

    def __init__(self, variance=1.0, lengthscale=1.0, active_dims=None):
        self._variance, self._lengthscale, self.active_dims = _fields(variance, lengthscale, active_dims)

    def _profile(self, r2):
        s = math.sqrt(3.0) * _distance(r2)
        return (1 + s) * jnp.exp(-s)


class Matern52(Stationary):
    """``σ_f² (1 + √5 r + 5r²/3) exp(−√5 r)``: twice differentiable functions."""

    def __init__(self, variance=1.0, lengthscale=1.0, active_dims=None):
        self._variance, self._lengthscale, self.active_dims = _fields(variance, lengthscale, active_dims)

    def _profile(self, r2):
        s = math.sqrt(5.0) * _distance(r2)
        return (1 + s + s * s / 3) * jnp.exp(-s)


class RationalQuadratic(Stationary):
    """``σ_f² (1 + r²/(2α))^(−α)``: a mixture of squared exponentials over lengthscales."""

    _alpha: Parameter
    alpha = reader("_alpha", "Weight α of the short lengthscales; α → ∞ is the squared exponential.")

    def __init__(self, variance=1.0, lengthscale=1.0, alpha=1.0, active_dims=None):
        self._variance, self._lengthscale, self.active_dims = _fields(variance, lengthscale, active_dims)
        self._alpha = positive(alpha, name="alpha", floor=FLOOR, scalar=True)

    def _profile(self, r2):
        return jnp.exp(-self.alpha * jnp.log1p(r2 / (2 * self.alpha)))


class Periodic(Kernel):
    """``σ_f² exp(−2 Σ_d sin²(π(x_d − x'_d)/p_d)/ℓ_d²)``: the squared exponential on circles of circumference ``p``."""

    _variance: Parameter
    _lengthscale: Parameter
    _period: Parameter
    active_dims: tuple[int, ...] | None = eqx.field(static=True)

    variance = reader("_variance", "Prior variance σ_f² of the function.")
    lengthscale = reader("_lengthscale", "Lengthscale ℓ on the unit circle.")
    period = reader("_period", "Period p of the function.")

    def __init__(self, variance=1.0, lengthscale=1.0, period=1.0, active_dims=None):
        self._variance, self._lengthscale, self.active_dims = _fields(variance, lengthscale, active_dims)
        self._period = positive(period, name="period", floor=FLOOR)

    def _on_circles(self, X):
        angle = 2 * jnp.pi * X / per_column("period", self.period, X)
        scale = per_column("lengthscale", self.lengthscale, X)
        return jnp.concatenate([jnp.cos(angle) / scale, jnp.sin(angle) / scale], axis=1)

    def _matrix(self, X, X2):
        r2 = squared_distance(self._on_circles(X), None if X2 is None else self._on_circles(X2))
        return self.variance * jnp.exp(-0.5 * r2)

    def _diagonal(self, X):
        return jnp.broadcast_to(self.variance, (X.shape[0],))

    @property
    def stationary(self):
        return True

    def length_scales(self, num_inputs):
        return spread(self.lengthscale * self.period / (2 * jnp.pi), self.active_dims, num_inputs)
