"""Positive data: a logarithm with Gaussian noise, waiting times, amounts."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp.likelihoods.base import Likelihood, per_output, refuse
from tightgp.likelihoods.gaussian import log_normal
from tightgp.likelihoods.special import exp, log_gamma_peak
from tightgp.parameters import FLOOR, Parameter, reader


def _not_positive(y):
    return (y <= 0) | np.isinf(y)


class LogNormal(Likelihood):
    """``log y = f + ε`` with noise variance σ², one number or one for each output; ``E[y|f] = exp(f + σ²/2)``."""

    outputwise: ClassVar[tuple[str, ...]] = ("noise_variance",)

    _noise_variance: Parameter
    noise_variance = reader("_noise_variance", "Noise variance σ² of log y.")

    def __init__(self, noise_variance=0.1):
        self._noise_variance = per_output(noise_variance, "noise_variance", floor=FLOOR, squared=True)

    @property
    def quadratic(self) -> bool:
        return True

    @property
    def variance(self) -> Float[Array, "*p"]:
        """All noise of a row, on the scale of f: σ²."""
        return self.noise_variance

    def log_density(self, F, y):
        return log_normal(jnp.log(y), F, self.variance) - jnp.log(y)

    def moments(self, F):
        mean = jnp.exp(F + 0.5 * self.variance)
        return mean, mean**2 * jnp.expm1(self.variance)

    def sample(self, key, F):
        return jnp.exp(F + jnp.sqrt(self.variance) * jax.random.normal(key, F.shape, F.dtype))

    def check_targets(self, y) -> None:
        refuse(self, y, _not_positive, "positive and finite")

    def expected_log_density(self, mean, var, y, key=None):
        return self.log_density(mean, y) - 0.5 * var / self.variance

    def predict(self, mean, var, key=None):
        total = var + self.variance
        average = jnp.exp(mean + 0.5 * total)
        return average, average**2 * jnp.expm1(total)

    def predictive_log_density(self, mean, var, y, key=None):
        return log_normal(jnp.log(y), mean, var + self.variance) - jnp.log(y)


def _gamma_log_density(shape, scaled, F, y):
    """``log Gamma(y)`` of mean exp(F), given the shape and ``scaled``: y·exp(−F), or what is expected of it."""
    return log_gamma_peak(shape) + shape * (1 + jnp.log(y) - F - scaled) - jnp.log(y)


class Gamma(Likelihood):
    """``y ~ Gamma(shape, rate = shape·exp(−f))``: mean ``exp(f)``, variance ``exp(2f)/shape``.

    The expectation has a closed form.
    """

    outputwise: ClassVar[tuple[str, ...]] = ("shape",)

    _shape: Parameter
    shape = reader("_shape", "Shape α, one number or one for each output; more of it is less spread.")

    def __init__(self, shape=1.0):
        self._shape = per_output(shape, "shape", floor=FLOOR)

    def log_density(self, F, y):
        return _gamma_log_density(self.shape, y * exp(-F), F, y)

    def moments(self, F):
        mean = jnp.exp(F)
        return mean, mean**2 / self.shape

    def sample(self, key, F):
        return jnp.exp(F + jax.random.loggamma(key, self.shape, F.shape, F.dtype)) / self.shape

    def check_targets(self, y) -> None:
        refuse(self, y, _not_positive, "positive and finite")

    def expected_log_density(self, mean, var, y, key=None):
        return _gamma_log_density(self.shape, y * exp(0.5 * var - mean), mean, y)

    def predict(self, mean, var, key=None):
        average = jnp.exp(mean + 0.5 * var)
        return average, average**2 * (jnp.expm1(var) + jnp.exp(var) / self.shape)


class Exponential(Likelihood):
    """Waiting times with density ``exp(−f − y·exp(−f))``: mean ``exp(f)``. The expectation has a closed form."""

    def log_density(self, F, y):
        return -F - y * exp(-F)

    def moments(self, F):
        mean = jnp.exp(F)
        return mean, mean**2

    def sample(self, key, F):
        return jnp.exp(F) * jax.random.exponential(key, F.shape, F.dtype)

    def check_targets(self, y) -> None:
        refuse(self, y, lambda y: (y < 0) | np.isinf(y), "finite and not negative")

    def expected_log_density(self, mean, var, y, key=None):
        return -mean - y * exp(0.5 * var - mean)

    def predict(self, mean, var, key=None):
        average = jnp.exp(mean + 0.5 * var)
        return average, average**2 * (2 * jnp.exp(var) - 1)
