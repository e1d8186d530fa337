"""Counts without an upper limit: Poisson and negative binomial, also with more zeros."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from scipy import special

from tightgp import checks
from tightgp.likelihoods.base import Likelihood, LogLink, positive_per_output, whole_numbers
from tightgp.likelihoods.special import log_beta, safe_exp
from tightgp.parameters import FLOOR, Parameter, positive, reader

COUNTS = whole_numbers("counts (whole numbers from 0 on)")
#: Above this rate a Gaussian replaces JAX's Poisson sampler, which works in float32 and with integers that overflow.
_LARGE_RATE = 1e5
#: Probabilities below exp(-36) are lost beside one in float64.
_LOG_EPSILON = 36.0
#: The exponential of anything larger overflows.
_MAX_EXPONENT = 700.0


def _sample_poisson(key, rate):
    small = jax.random.poisson(key, jnp.minimum(rate, _LARGE_RATE)).astype(rate.dtype)
    large = jnp.round(rate + jnp.sqrt(rate) * jax.random.normal(key, rate.shape, rate.dtype))
    return jnp.where(rate < _LARGE_RATE, small, large)


def _log_gamma_range(shape):
    """Limits of ``log(G/shape)`` for ``G ~ Gamma(shape)``, by Chernoff's bound ``exp(−shape (eᵘ − 1 − u))``."""
    c = _LOG_EPSILON / shape
    return -(np.sqrt(2 * c) + c), np.log1p(np.sqrt(2 * c) + 2 * c)


class Poisson(LogLink):
    """``p(y | f) = exp(y f − exp(f)) / y!``: counts with rate ``exp(f)``. The expectation has a closed form.

    >>> mean, var = tgp.likelihoods.Poisson().predict(np.array([[0.0]]), np.array([[2.0]]))
    >>> mean
    Array([[2.71828183]], dtype=float64)
    """

    support = COUNTS

    def _variance(self, mean, square):
        return mean

    def sample(self, key, F):
        return _sample_poisson(key, safe_exp(F))

    def expected_log_density(self, mean, var, y, key=None):
        return y * mean - safe_exp(mean + 0.5 * var) - gammaln(y + 1)

    def cdf(self, F, y):
        # SciPy's, since JAX's incomplete gamma function is slow and inaccurate at large counts.
        y = np.asarray(y, np.float64)
        return np.where(y < 0, 0.0, special.pdtr(np.maximum(y, 0), np.exp(np.minimum(F, _MAX_EXPONENT))))

    def cdf_transition(self, y):
        # P(Y ≤ y) at rate λ is P(G > λ) for G ~ Gamma(⌊y⌋ + 1).
        shape = np.maximum(np.floor(y), 0) + 1
        low, high = (np.where(y < 0, -np.inf, np.log(shape) + end) for end in _log_gamma_range(shape))
        return low, high


class NegativeBinomial(LogLink):
    """Counts with mean ``μ = exp(f)`` and variance ``μ + d μ²``: ``y ~ NB(1/d, 1/(1 + dμ))``; d → 0 is `Poisson`.

    Args:
        dispersion: the dispersion d, one number or one for each output.

    >>> mean, var = tgp.likelihoods.NegativeBinomial(dispersion=0.5).moments(np.array([[0.0]]))
    >>> mean, var
    (Array([[1.]], dtype=float64), Array([[1.5]], dtype=float64))
    """

    support = COUNTS
    per_output = ("dispersion",)

    _dispersion: Parameter
    dispersion = reader("_dispersion", "Dispersion d, one number or one for each output.")

    def __init__(self, dispersion=1.0):
        self._dispersion = positive_per_output(dispersion, "dispersion")

    def log_density(self, F, y):
        size, logit = 1 / self.dispersion, F + jnp.log(self.dispersion)
        log_choose = -log_beta(size, y + 1) - jnp.log(size + y)
        return log_choose + y * jax.nn.log_sigmoid(logit) - size * jax.nn.softplus(logit)

    def _variance(self, mean, square):
        return mean + self.dispersion * square

    def sample(self, key, F):
        key, key_rate = jax.random.split(key)
        size = 1 / self.dispersion
        log_rate = F + jax.random.loggamma(key_rate, size, F.shape, F.dtype) - jnp.log(size)
        return _sample_poisson(key, safe_exp(log_rate))

    def cdf(self, F, y):
        dispersion, y = np.asarray(self.dispersion, np.float64), np.asarray(y, np.float64)
        failure = special.expit(-F - np.log(dispersion))
        return np.where(y < 0, 0.0, special.betainc(1 / dispersion, np.maximum(np.floor(y), 0) + 1, failure))

    def cdf_transition(self, y):
        low, high = Poisson().cdf_transition(y)
        smallest, largest = _log_gamma_range(1 / np.asarray(self.dispersion, np.float64))
        return low - largest, high - smallest


class ZeroInflated(Likelihood):
    """Counts that are zero with probability π whatever f, and otherwise follow Poisson or `NegativeBinomial`.

    Args:
        counts: `Poisson` or `NegativeBinomial`.
        share: π, the share of zeros beyond those of ``counts``.

    >>> likelihood = tgp.likelihoods.ZeroInflated(tgp.likelihoods.Poisson(), share=0.5)
    >>> mean, var = likelihood.moments(np.array([[0.0]]))
    >>> mean, var
    (Array([[0.5]], dtype=float64), Array([[0.75]], dtype=float64))
    """

    support = COUNTS

    counts: Poisson | NegativeBinomial
    _odds: Parameter

    def __init__(self, counts, share=0.1):
        if not isinstance(counts, Poisson | NegativeBinomial):
            raise ValueError(f"counts must be Poisson() or NegativeBinomial(), got {type(counts).__name__}")
        share = checks.number("share", share)
        if not 0 < share < 1:
            raise ValueError(f"share must lie between 0 and 1, got {share!r}")
        self.counts = counts
        self._odds = positive(share / (1 - share), name="odds of share", floor=FLOOR, scalar=True)

    @property
    def share(self):
        """The share π of zeros beyond those of the counts."""
        odds = self._odds.value
        return odds / (1 + odds)

    def log_density(self, F, y):
        odds = self._odds.value
        inside = self.counts.log_density(F, y)
        return jnp.where(y == 0, jnp.logaddexp(jnp.log(odds), inside), inside) - jnp.log1p(odds)

    def moments(self, F):
        share = self.share
        mean, variance = self.counts.moments(F)
        return (1 - share) * mean, (1 - share) * (variance + share * mean**2)

    def predict(self, mean, var, key=None):
        share = self.share
        average, variance = self.counts.predict(mean, var)
        return (1 - share) * average, (1 - share) * (variance + share * average**2)

    def sample(self, key, F):
        count_key, zero_key = jax.random.split(key)
        is_zero = jax.random.bernoulli(zero_key, self.share, F.shape)
        return jnp.where(is_zero, 0.0, self.counts.sample(count_key, F))

    def cdf(self, F, y):
        share = float(self.share)
        return np.where(np.asarray(y) < 0, 0.0, share + (1 - share) * self.counts.cdf(F, y))

    def cdf_transition(self, y):
        return self.counts.cdf_transition(y)

    def predictive_cdf(self, mean, var, y):
        share, y = float(self.share), np.asarray(y)
        return np.where(y < 0, 0.0, share + (1 - share) * self.counts.predictive_cdf(mean, var, y))
