"""Elementwise functions that keep their digits and gradients where the textbook formulas lose them."""

import math

import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln, log_ndtr
from jaxtyping import Array, Float

#: Above this the series of Stirling's remainder has all digits of float64.
_LARGE = 16.0
#: Intervals narrower than this, relative to the scale of the density there, use a series.
_NARROW = 0.02
_LOG_2PI = math.log(2 * math.pi)


def log_normal(y, mean, variance) -> Float[Array, "..."]:
    """``log N(y | mean, variance)``, element by element."""
    return -0.5 * (_LOG_2PI + jnp.log(variance) + (y - mean) ** 2 / variance)


def safe_exp(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """``eˣ``, continued linearly just below overflow: an infinite density would make gradients NaN."""
    clipped = jnp.minimum(x, 0.9 * float(np.log(jnp.finfo(x.dtype).max)))
    return jnp.exp(clipped) * (1 + (x - clipped))


def _remainder(x):
    """``log Γ(x)`` minus Stirling's ``(x − ½) log x − x + ½ log 2π``, for large x."""
    u = 1 / (x * x)
    return (1 / 12 - u * (1 / 360 - u * (1 / 1260 - u / 1680))) / x


def log_gamma_peak(a: Float[Array, "..."]) -> Float[Array, "..."]:
    """``a log a − a − log Γ(a)`` without cancellation: the highest log density of ``log x`` for ``x ~ Gamma(a)``."""
    large = jnp.maximum(a, _LARGE)
    series = 0.5 * jnp.log(large / (2 * math.pi)) - _remainder(large)
    return jnp.where(a < _LARGE, a * jnp.log(a) - a - gammaln(a), series)


def log_beta(a: Float[Array, "..."], b: Float[Array, "..."]) -> Float[Array, "..."]:
    """``log B(a, b) = log Γ(a) + log Γ(b) − log Γ(a+b)``, without cancellation where one argument is large.

    JAX's ``betaln`` has errors up to 1e-6 where the larger argument is a little above 8.
    """
    a, b = jnp.minimum(a, b), jnp.maximum(a, b)
    large = jnp.maximum(b, _LARGE)
    total = a + large
    series = _remainder(large) - _remainder(total) - (large - 0.5) * jnp.log1p(a / large) - a * (jnp.log(total) - 1)
    return gammaln(a) + jnp.where(b < _LARGE, gammaln(b) - gammaln(a + b), series)


def log_ndtr_difference(lower: Float[Array, "..."], width: Float[Array, "..."]) -> Float[Array, "..."]:
    """``log(Φ(lower + width) − Φ(lower))``, accurate also where both ends are in one tail or almost equal."""
    # Φ(u) − Φ(l) = Φ(−l) − Φ(−u): use the side where neither is close to one.
    lower = jnp.where(2 * lower + width > 0, -lower - width, lower)
    middle = lower + 0.5 * width
    narrow = width * (1 + jnp.abs(middle)) < _NARROW
    safe_width = jnp.where(narrow, width, _NARROW)
    series = jnp.log(safe_width) - 0.5 * (middle**2 + _LOG_2PI) + (middle**2 - 1) * safe_width**2 / 24
    upper = lower + jnp.where(narrow, 1.0, width)
    log_upper = log_ndtr(upper)
    difference = log_upper + jnp.log(-jnp.expm1(log_ndtr(lower) - log_upper))
    return jnp.where(narrow, series, difference)
