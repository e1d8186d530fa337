"""Counts: without a limit, or out of a number of trials."""

import math
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from scipy import special

from tightgp import checks
from tightgp.likelihoods.base import Likelihood, per_output, refuse
from tightgp.likelihoods.binary import LINKS
from tightgp.likelihoods.special import exp, log_beta
from tightgp.parameters import FLOOR, Parameter, reader

#: Above this rate counts are drawn from a Gaussian: JAX draws them in float32 and as integers, which overflow.
_MANY = 1e5
#: What is less probable than exp(-36) is nothing beside one, in float64.
_NEVER = 36.0
#: Exponentials of more than this overflow.
_STEEPEST = 700.0
#: Whole numbers up to here are exact in float64; a quantile that is larger is given as this.
_LARGEST = 2.0**53


def whole(y, most=np.inf):
    """Marks what is no whole number from 0 to ``most``."""
    return (y != np.floor(y)) | (y < 0) | (y > most) | np.isinf(y)


def _draw(key, rate):
    few = jax.random.poisson(key, jnp.minimum(rate, _MANY)).astype(rate.dtype)
    many = jnp.round(rate + jnp.sqrt(rate) * jax.random.normal(key, rate.shape, rate.dtype))
    return jnp.where(rate < _MANY, few, many)


def _log_gamma_range(shape):
    """Limits of ``log(G/shape)`` with ``G ~ Gamma(shape)``, by Chernoff's bound ``exp(−shape (eᵘ − 1 − u))``."""
    c = _NEVER / shape
    return -(np.sqrt(2 * c) + c), np.log1p(np.sqrt(2 * c) + 2 * c)


def _crossing(y) -> tuple[np.ndarray, np.ndarray]:
    """Limits of the log rate at which a Poisson process has its count number ``y + 1``; none below zero."""
    shape = np.maximum(np.floor(y), 0) + 1
    low, high = (np.where(y < 0, -np.inf, np.log(shape) + end) for end in _log_gamma_range(shape))
    return low, high


class _Counts(Likelihood):
    """Counts without a limit, the larger the larger f is."""

    def check_targets(self, y) -> None:
        refuse(self, y, whole, "counts (whole numbers from 0 on)")

    def predictive_quantile(self, mean, var, q: float) -> np.ndarray:
        """The smallest count ``y`` with ``P(Y ≤ y) ≥ q`` under ``f ~ N(mean, var)``, by bisection, on the host."""
        if not 0 < checks.number("q", q) < 1:
            raise ValueError(f"q must lie between 0 and 1, got {q!r}")
        mean, var = np.asarray(mean, np.float64), np.asarray(var, np.float64)
        low, high = np.full(mean.shape, -1.0), np.ceil(np.exp(np.clip(mean, 0.0, 30.0)))

        def reached(rows, y):
            return self.predictive_cdf(mean[rows], var[rows], y) >= q

        rows = np.arange(len(mean))
        while len(rows):
            short = ~reached(rows, high[rows]) & (high[rows] < _LARGEST)
            low[rows] = np.where(short, high[rows], low[rows])
            high[rows] = np.where(short, np.minimum(4 * high[rows], _LARGEST), high[rows])
            rows = rows[np.any(short, axis=1)]
        while len(rows := np.nonzero(np.any(high - low > 1, axis=1))[0]):
            middle = np.floor(0.5 * (low[rows] + high[rows]))
            enough = reached(rows, middle)
            low[rows] = np.where(enough, low[rows], middle)
            high[rows] = np.where(enough, middle, high[rows])
        return high


class Poisson(_Counts):
    """Counts with rate ``exp(f)``. The expectation has a closed form."""

    def log_density(self, F, y):
        return y * F - exp(F) - gammaln(y + 1)

    def moments(self, F):
        rate = jnp.exp(F)
        return rate, rate

    def sample(self, key, F):
        return _draw(key, exp(F))

    def cdf(self, F, y):
        F, y = np.asarray(F, np.float64), np.floor(np.asarray(y, np.float64))
        # SciPy's: JAX's incomplete gamma function is slow, and loses digits, where counts are large.
        return np.where(y < 0, 0.0, special.gammaincc(np.maximum(y, 0) + 1, np.exp(np.minimum(F, _STEEPEST))))

    def fall(self, y):
        return _crossing(y)

    def expected_log_density(self, mean, var, y, key=None):
        return y * mean - exp(mean + 0.5 * var) - gammaln(y + 1)

    def predict(self, mean, var, key=None):
        rate = jnp.exp(mean + 0.5 * var)
        return rate, rate + rate**2 * jnp.expm1(var)


class NegativeBinomial(_Counts):
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

    def cdf(self, F, y):
        dispersion = np.asarray(self.dispersion, np.float64)
        y = np.floor(np.asarray(y, np.float64))
        logit, size, above = np.broadcast_arrays(F + np.log(dispersion), 1 / dispersion, np.maximum(y, 0) + 1)
        rare, out = logit < 0, np.empty(logit.shape)
        # Of a probability and what it leaves of one, the smaller has all its digits.
        out[rare] = special.betaincc(above[rare], size[rare], special.expit(logit[rare]))
        out[~rare] = special.betainc(size[~rare], above[~rare], special.expit(-logit[~rare]))
        return np.where(y < 0, 0.0, out)

    def fall(self, y):
        low, high = _crossing(y)
        less, more = _log_gamma_range(1 / np.asarray(self.dispersion, np.float64))
        return low - more, high - less

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
