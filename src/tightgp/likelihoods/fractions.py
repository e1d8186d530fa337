"""Fractions between 0 and 1."""

import jax
import jax.numpy as jnp

from tightgp.likelihoods.base import Likelihood, Support, positive_per_output
from tightgp.likelihoods.special import log_beta
from tightgp.parameters import Parameter, reader


class Beta(Likelihood):
    """``y ~ Beta(μφ, (1−μ)φ)`` with mean ``μ = σ(f)`` and variance ``μ(1−μ)/(1+φ)``.

    Args:
        precision: the precision φ, one number or one for each output; the larger, the smaller the variance.

    >>> mean, var = tgp.likelihoods.Beta(precision=4.0).moments(np.array([[0.0]]))
    >>> mean, var
    (Array([[0.5]], dtype=float64), Array([[0.05]], dtype=float64))
    """

    support = Support("above 0 and below 1", lambda y: (y <= 0) | (y >= 1))
    filler = 0.5
    per_output = ("precision",)

    _precision: Parameter
    precision = reader("_precision", "Precision φ, one number or one for each output.")

    def __init__(self, precision=10.0):
        self._precision = positive_per_output(precision, "precision")

    def _shapes(self, F):
        return self.precision * jax.nn.sigmoid(F), self.precision * jax.nn.sigmoid(-F)

    def log_density(self, F, y):
        a, b = self._shapes(F)
        # 1/B(a, b) = ab / (φ(1+φ) B(1+a, 1+b)): as μ → 0 or 1, log a or log b is a log sigmoid, linear in f.
        log_ab = jax.nn.log_sigmoid(F) + jax.nn.log_sigmoid(-F) + 2 * jnp.log(self.precision)
        log_inverse = log_ab - log_beta(1 + a, 1 + b) - jnp.log(self.precision) - jnp.log1p(self.precision)
        return log_inverse + (a - 1) * jnp.log(y) + (b - 1) * jnp.log1p(-y)

    def moments(self, F):
        mean = jax.nn.sigmoid(F)
        return mean, mean * jax.nn.sigmoid(-F) / (1 + self.precision)

    def sample(self, key, F):
        draws = jax.random.beta(key, *self._shapes(F), shape=F.shape, dtype=F.dtype)
        limits = jnp.finfo(F.dtype)
        return jnp.clip(draws, limits.tiny, 1 - limits.epsneg)  # rounding could give 0 or 1
