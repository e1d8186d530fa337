"""Positive targets: log-normal, gamma, exponential."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import xlogy
from jaxtyping import Array, Float

from tightgp.likelihoods.base import POSITIVE, ClosedForm, LogLink, Support, positive_per_output
from tightgp.likelihoods.special import log_gamma_peak, log_normal, safe_exp
from tightgp.parameters import Parameter, reader


class LogNormal(ClosedForm):
    """``log y = f + ε`` with ``ε ~ N(0, σ²)``, so ``E[y | f] = exp(f + σ²/2)``. All expectations have closed forms.

    Args:
        noise_variance: the noise variance σ² of log y, one number or one for each output.

    >>> likelihood = tgp.likelihoods.LogNormal(noise_variance=0.5)
    >>> mean, var = likelihood.moments(np.array([[-0.25]]))
    >>> mean
    Array([[1.]], dtype=float64)
    """

    support = POSITIVE
    per_output = ("noise_variance",)
    quadratic = True

    _noise_variance: Parameter
    noise_variance = reader("_noise_variance", "Noise variance σ² of log y.")
    variance = reader("_noise_variance", "Noise variance σ², on the scale of f.")

    def __init__(self, noise_variance=0.1):
        self._noise_variance = positive_per_output(noise_variance, "noise_variance", squared=True)

    def sample(self, key, F):
        return jnp.exp(F + jnp.sqrt(self.variance) * jax.random.normal(key, F.shape, F.dtype))

    def predict(self, mean, var, key=None):
        variance = var + self.variance
        average = jnp.exp(mean + 0.5 * variance)
        return average, average**2 * jnp.expm1(variance)

    def predictive_log_density(self, mean, var, y, key=None):
        return log_normal(jnp.log(y), mean, var + self.variance) - jnp.log(y)


class _Amount(LogLink):
    """``y ~ Gamma(α, rate = α exp(−f))``."""

    shape: eqx.AbstractVar[Float[Array, "*p"] | float]

    def expected_log_density(self, mean, var, y, key=None):
        ratio = y * safe_exp(0.5 * var - mean)  # E[y exp(−f)]
        return log_gamma_peak(jnp.asarray(self.shape)) + self.shape * (1 - mean - ratio) + xlogy(self.shape - 1, y)

    def _variance(self, mean, square):
        return square / self.shape

    def sample(self, key, F):
        return jnp.exp(F + jax.random.loggamma(key, self.shape, F.shape, F.dtype)) / self.shape


class Gamma(_Amount):
    """``y ~ Gamma(α, rate = α exp(−f))``: mean ``exp(f)``, variance ``exp(2f)/α``. The expectation has a closed form.

    Args:
        shape: the shape α, one number or one for each output; the larger, the smaller the variance.

    >>> mean, var = tgp.likelihoods.Gamma(shape=4.0).moments(np.array([[0.0]]))
    >>> mean, var
    (Array([[1.]], dtype=float64), Array([[0.25]], dtype=float64))
    """

    support = POSITIVE
    per_output = ("shape",)

    _shape: Parameter
    shape = reader("_shape", "Shape α, one number or one for each output.")

    def __init__(self, shape=1.0):
        self._shape = positive_per_output(shape, "shape")


class Exponential(_Amount):
    """``p(y | f) = exp(−f − y exp(−f))``: waiting times with mean ``exp(f)``. The expectation has a closed form.

    >>> mean, var = tgp.likelihoods.Exponential().moments(np.array([[0.0]]))
    >>> mean, var
    (Array([[1.]], dtype=float64), Array([[1.]], dtype=float64))
    """

    support = Support("finite and not negative", lambda y: (y < 0) | np.isinf(y))
    shape = 1.0
