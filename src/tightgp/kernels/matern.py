"""The Matérn kernel with any smoothness, which is trained (maths 15.1)."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp.kernels.base import AnyArray
from tightgp.kernels.stationary import Stationary
from tightgp.parameters import Parameter, positive, reader

#: Smoothness is trained above this: rougher functions cannot be told from noise.
LEAST_SMOOTHNESS = 0.25
#: Nodes of the trapezoidal rule, and minus the log of the share of the mixture that the first node leaves out.
_NODES, _LEFT_OUT = 80, 18.0


def _mixture(nu: Float[AnyArray, ""]) -> tuple[Float[Array, " q"], Float[Array, " q"]]:
    """Weights and precisions of the squared exponentials whose mixture the kernel is (maths 15.1b)."""
    few = 7 * jax.lax.rsqrt(nu)
    first, last = -_LEFT_OUT / nu - jnp.minimum(1.0, few), jnp.log1p(24 / nu + few)
    t = first + (last - first) * jnp.linspace(0.0, 1.0, _NODES, dtype=nu.dtype)
    return jax.nn.softmax(nu * (t - jnp.exp(t))), jnp.exp(-t)


@jax.custom_jvp
def matern_correlation(r2: Float[AnyArray, "n k"], nu: Float[AnyArray, ""]) -> Float[Array, "n k"]:
    """``2^(1−ν)/Γ(ν) s^ν K_ν(s)`` with ``s² = 2ν r²``, with an error below 1e-7 for ν ≥ 1/2.

    >>> from tightgp.kernels.matern import matern_correlation
    >>> matern_correlation(np.array([[4.0]]), np.array(0.5)).round(6)  # exp(−2)
    Array([[0.135335]], dtype=float64)
    """

    def add(total, part):
        weight, precision = part
        return total + weight * jnp.exp(-0.5 * precision * r2), None

    return jax.lax.scan(add, jnp.zeros_like(r2), _mixture(nu))[0]


@matern_correlation.defjvp
def _derivative(primals, tangents):
    """Derivatives in r² and ν are summed beside the value, so that no term of the sum has to be kept."""
    (r2, nu), (r2_dot, nu_dot) = primals, tangents
    (weights, precisions), (weight_dots, precision_dots) = jax.jvp(_mixture, (nu,), (jnp.ones_like(nu),))

    def add(totals, part):
        weight, precision, weight_dot, precision_dot = part
        bump = jnp.exp(-0.5 * precision * r2)
        value, by_r2, by_nu = totals
        by_nu = by_nu + (weight_dot - 0.5 * weight * precision_dot * r2) * bump
        return (value + weight * bump, by_r2 - 0.5 * weight * precision * bump, by_nu), None

    zero = jnp.zeros_like(r2)
    parts = (weights, precisions, weight_dots, precision_dots)
    (value, by_r2, by_nu), _ = jax.lax.scan(add, (zero, zero, zero), parts)
    # Rough kernels have a kink at zero; its derivative is taken as zero, as in the other Matérn kernels.
    return value, jnp.where(r2 > 0, by_r2, 0.0) * r2_dot + by_nu * nu_dot


class Matern(Stationary):
    """``k(x, x') = σ_f² 2^(1−ν)/Γ(ν) s^ν K_ν(s)``, ``s² = 2ν r²``, with a trained smoothness ν (maths 15.1).

    It is computed as a mixture of 80 squared exponentials, so that it is a valid kernel whatever the rounding, and
    takes about that many times as long as one. Where ν is known to be 1/2, 3/2 or 5/2, `Matern12`, `Matern32` or
    `Matern52` is the same and quick. Functions are as often differentiable as the largest whole number below ν.

    Args:
        variance: the prior variance σ_f².
        lengthscale: the lengthscale ℓ, one number or one for each active input.
        smoothness: ν, above 1/4. Data say little about it above 3 or so; ν → ∞ is the squared exponential.
        active_dims: the columns of X that the kernel uses; None for all of them.

    >>> kernel = tgp.kernels.Matern(smoothness=0.5)
    >>> kernel(np.array([[0.0], [1.0]]))  # as Matern12
    Array([[1.        , 0.36787944],
           [0.36787944, 1.        ]], dtype=float64)
    """

    _smoothness: Parameter
    smoothness = reader("_smoothness", "Smoothness ν.")

    def __init__(self, variance=1.0, lengthscale=1.0, smoothness=1.5, active_dims=None):
        super().__init__(variance, lengthscale, active_dims)
        self._smoothness = positive(smoothness, name="smoothness", floor=LEAST_SMOOTHNESS, scalar=True)

    def correlation(self, r2):
        return matern_correlation(r2, self.smoothness)
