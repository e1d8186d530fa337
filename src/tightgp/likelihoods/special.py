"""Functions of numbers, element by element, that keep their digits and their gradients where the obvious do not."""

import math

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, log_ndtr
from jaxtyping import Array, Float

#: From here on the remainder of Stirling's formula is a short series, to all digits of float64.
_LARGE = 16.0
#: Where the limits are closer than this, in units of the density's own scale there, a series is used.
_NARROW = 0.02


def exp(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """``eˣ``, linear just below overflow: an infinite density at a far node would make gradients NaN."""
    curved = jnp.minimum(x, 0.9 * float(np.log(jnp.finfo(x.dtype).max)))
    return jnp.exp(curved) * (1 + (x - curved))


def _remainder(x):
    """``log Γ(x)`` less Stirling's ``(x − ½) log x − x + ½ log 2π``, for large x."""
    u = 1 / (x * x)
    return (1 / 12 - u * (1 / 360 - u * (1 / 1260 - u / 1680))) / x


def log_gamma_peak(a: Float[Array, "..."]) -> Float[Array, "..."]:
    """``a log a − a − log Γ(a)``: the largest log density of ``log x`` where x has shape a, without cancellation."""
    large = jnp.maximum(a, _LARGE)
    series = 0.5 * jnp.log(large / (2 * math.pi)) - _remainder(large)
    return jnp.where(a < _LARGE, a * jnp.log(a) - a - gammaln(a), series)


def log_beta(a: Float[Array, "..."], b: Float[Array, "..."]) -> Float[Array, "..."]:
    """``log B(a, b) = log Γ(a) + log Γ(b) − log Γ(a+b)``, without their cancellation where one is large.

    JAX's ``betaln`` is wrong by up to 1e-6 where the larger one is a little above 8.
    """
    a, b = jnp.minimum(a, b), jnp.maximum(a, b)
    large = jnp.maximum(b, _LARGE)
    total = a + large
    series = _remainder(large) - _remainder(total) - (large - 0.5) * jnp.log1p(a / large) - a * (jnp.log(total) - 1)
    return gammaln(a) + jnp.where(b < _LARGE, gammaln(b) - gammaln(a + b), series)


def log_between(lower: Float[Array, "..."], width: Float[Array, "..."]) -> Float[Array, "..."]:
    """``log(Φ(lower + width) − Φ(lower))``, also where both are in the same tail or almost equal."""
    # Φ(u) − Φ(l) = Φ(−l) − Φ(−u): work on the side where neither is close to one.
    lower = jnp.where(2 * lower + width > 0, -lower - width, lower)
    middle = lower + 0.5 * width
    narrow = width * (1 + jnp.abs(middle)) < _NARROW
    thin = jnp.where(narrow, width, _NARROW)
    series = jnp.log(thin) - 0.5 * (middle**2 + math.log(2 * math.pi)) + (middle**2 - 1) * thin**2 / 24
    upper = lower + jnp.where(narrow, 1.0, width)
    log_upper = log_ndtr(upper)
    difference = log_upper + jnp.log(-jnp.expm1(log_ndtr(lower) - log_upper))
    return jnp.where(narrow, series, difference)
