"""Counts: without a limit, or out of a number of trials."""

import math
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln

from tightgp import checks
from tightgp.likelihoods.base import Likelihood, per_output, refuse
from tightgp.likelihoods.binary import LINKS
from tightgp.likelihoods.special import exp, log_beta
from tightgp.parameters import FLOOR, Parameter, reader

#: Above this rate counts are drawn from a Gaussian: JAX draws them in float32 and as integers, which overflow.
_MANY = 1e5


def whole(y, most=np.inf):
    """Marks what is no whole number from 0 to ``most``."""
    return (y != np.floor(y)) | (y < 0) | (y > most) | np.isinf(y)


def _draw(key, rate):
    few = jax.random.poisson(key, jnp.minimum(rate, _MANY)).astype(rate.dtype)
    many = jnp.round(rate + jnp.sqrt(rate) * jax.random.normal(key, rate.shape, rate.dtype))
    return jnp.where(rate < _MANY, few, many)


class Poisson(Likelihood):
    """Counts with rate ``exp(f)``. The expectation has a closed form."""

    def log_density(self, F, y):
        return y * F - exp(F) - gammaln(y + 1)

    def moments(self, F):
        rate = jnp.exp(F)
        return rate, rate

    def sample(self, key, F):
        return _draw(key, exp(F))

    def check_targets(self, y) -> None:
        refuse(self, y, whole, "counts (whole numbers from 0 on)")

    def expected_log_density(self, mean, var, y, key=None):
        return y * mean - exp(mean + 0.5 * var) - gammaln(y + 1)

    def predict(self, mean, var, key=None):
        rate = jnp.exp(mean + 0.5 * var)
        return rate, rate + rate**2 * jnp.expm1(var)


class NegativeBinomial(Likelihood):
    """Counts with mean ``μ = exp(f)`` and variance ``μ + dispersion·μ²``; dispersion → 0 is `Poisson`."""

    outputwise: ClassVar[tuple[str, ...]] = ("dispersion",)

    _dispersion: Parameter
    dispersion = reader("_dispersion", "What is added to the squared coefficient of variation; one for each output.")

    def __init__(self, dispersion=1.0):
        self._dispersion = per_output(dispersion, "dispersion", floor=FLOOR)

    def log_density(self, F, y):
        size, logit = 1 / self.dispersion, F + jnp.log(self.dispersion)
        ways = -log_beta(size, y + 1) - jnp.log(size + y)
        return ways + y * jax.nn.log_sigmoid(logit) - size * jax.nn.softplus(logit)

    def moments(self, F):
        mean = jnp.exp(F)
        return mean, mean + self.dispersion * mean**2

    def sample(self, key, F):
        key, key_rate = jax.random.split(key)
        size = 1 / self.dispersion
        return _draw(key, exp(F + jax.random.loggamma(key_rate, size, F.shape, F.dtype) - jnp.log(size)))

    def check_targets(self, y) -> None:
        refuse(self, y, whole, "counts (whole numbers from 0 on)")

    def predict(self, mean, var, key=None):
        average = jnp.exp(mean + 0.5 * var)
        return average, average + average**2 * (jnp.expm1(var) + self.dispersion * jnp.exp(var))


class Binomial(Likelihood):
    """How many of ``num_trials`` succeed, each with probability ``σ(f)`` ("logit") or ``Φ(f)`` ("probit")."""

    num_trials: int = eqx.field(static=True)
    link: str = eqx.field(static=True)

    def __init__(self, num_trials, link="logit"):
        self.num_trials = checks.count("num_trials", num_trials)
        checks.choice("link", link, tuple(LINKS))
        self.link = link

    def log_density(self, F, y):
        _, log_probability = LINKS[self.link]
        failures = self.num_trials - y
        ways = -log_beta(y + 1, failures + 1) - math.log1p(self.num_trials)
        return ways + y * log_probability(F) + failures * log_probability(-F)

    def moments(self, F):
        probability, _ = LINKS[self.link]
        mean = self.num_trials * probability(F)
        return mean, mean * probability(-F)

    def sample(self, key, F):
        probability, _ = LINKS[self.link]
        return jax.random.binomial(key, self.num_trials, probability(F), dtype=F.dtype)

    def check_targets(self, y) -> None:
        wanted = f"whole numbers from 0 to num_trials = {self.num_trials}"
        refuse(self, y, lambda y: whole(y, self.num_trials), wanted)
