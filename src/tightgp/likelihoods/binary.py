"""Successes out of a number of trials: Bernoulli (one trial) and binomial."""

import math
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import log_ndtr

from tightgp import checks
from tightgp.likelihoods.base import Likelihood, whole_numbers
from tightgp.likelihoods.special import log_beta

#: The logarithm of the probability of success as a function of f; the probability of failure is that at −f.
LOG_PROBABILITY: dict[str, Callable] = {"probit": log_ndtr, "logit": jax.nn.log_sigmoid}


class Bernoulli(Likelihood):
    """``P(y=1 | f) = Φ(f)`` (probit) or ``σ(f)`` (logit), for labels 0 and 1. `predict` gives ``P(y=1)``.

    Under the probit link predictions have a closed form.

    Args:
        link: "probit" or "logit".

    >>> mean, var = tgp.likelihoods.Bernoulli().predict(np.array([[0.0], [3.0]]), np.array([[1.0], [8.0]]))
    >>> mean
    Array([[0.5       ],
           [0.84134475]], dtype=float64)
    """

    support = whole_numbers("a label, 0 or 1 (for labels -1 and 1 pass (y + 1) / 2),", 1)

    link: str = eqx.field(static=True)

    def __init__(self, link="probit"):
        self.link = checks.choice("link", link, tuple(LOG_PROBABILITY))

    def log_density(self, F, y):
        return LOG_PROBABILITY[self.link]((2 * y - 1) * F)

    def moments(self, F):
        log_p = LOG_PROBABILITY[self.link]
        return jnp.exp(log_p(F)), jnp.exp(log_p(F) + log_p(-F))

    def sample(self, key, F):
        return jax.random.bernoulli(key, self.moments(F)[0]).astype(F.dtype)

    def predict(self, mean, var, key=None):
        p = jnp.exp(self.predictive_log_density(mean, var, jnp.ones_like(mean)))
        return p, p * (1 - p)

    def predictive_log_density(self, mean, var, y, key=None):
        if self.link == "probit":
            return self.log_density(mean / jnp.sqrt(1 + var), y)
        return super().predictive_log_density(mean, var, y, key)


class Binomial(Likelihood):
    """``P(y | f) = (n choose y) p(f)^y (1 − p(f))^(n−y)`` with ``p = σ(f)`` (logit) or ``Φ(f)`` (probit).

    Args:
        num_trials: the number of trials n.
        link: "logit" or "probit".

    >>> mean, var = tgp.likelihoods.Binomial(num_trials=8).moments(np.array([[0.0]]))
    >>> mean, var
    (Array([[4.]], dtype=float64), Array([[2.]], dtype=float64))
    """

    num_trials: int = eqx.field(static=True)
    link: str = eqx.field(static=True)

    def __init__(self, num_trials, link="logit"):
        self.num_trials = checks.count("num_trials", num_trials)
        self.link = checks.choice("link", link, tuple(LOG_PROBABILITY))

    @property
    def support(self):
        return whole_numbers(f"whole numbers from 0 to num_trials = {self.num_trials}", self.num_trials)

    def log_density(self, F, y):
        log_p = LOG_PROBABILITY[self.link]
        failures = self.num_trials - y
        log_choose = -log_beta(y + 1, failures + 1) - math.log1p(self.num_trials)
        return log_choose + y * log_p(F) + failures * log_p(-F)

    def moments(self, F):
        log_p = LOG_PROBABILITY[self.link]
        mean = self.num_trials * jnp.exp(log_p(F))
        return mean, mean * jnp.exp(log_p(-F))

    def sample(self, key, F):
        return jax.random.binomial(key, self.num_trials, jnp.exp(LOG_PROBABILITY[self.link](F)), dtype=F.dtype)
