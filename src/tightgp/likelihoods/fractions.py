"""Fractions between 0 and 1."""

from typing import ClassVar

import jax
import jax.numpy as jnp

from tightgp.likelihoods.base import Likelihood, per_output, refuse
from tightgp.likelihoods.special import log_beta
from tightgp.parameters import FLOOR, Parameter, reader


class Beta(Likelihood):
    """``y ~ Beta(μφ, (1−μ)φ)`` with mean ``μ = σ(f)`` and variance ``μ(1−μ)/(1+φ)``, φ the precision."""

    filler: ClassVar[float] = 0.5
    outputwise: ClassVar[tuple[str, ...]] = ("precision",)

    _precision: Parameter
    precision = reader("_precision", "Precision φ, one number or one for each output; more of it is less spread.")

    def __init__(self, precision=10.0):
        self._precision = per_output(precision, "precision", floor=FLOOR)

    def _shapes(self, F):
        return self.precision * jax.nn.sigmoid(F), self.precision * jax.nn.sigmoid(-F)

    def log_density(self, F, y):
        a, b = self._shapes(F)
        # 1/B(a, b) = ab / (φ(1+φ) B(1+a, 1+b)): as μ → 0 or 1 the log of a or b is that of a sigmoid, linear in f.
        log_ab = jax.nn.log_sigmoid(F) + jax.nn.log_sigmoid(-F) + 2 * jnp.log(self.precision)
        log_inverse = log_ab - log_beta(1 + a, 1 + b) - jnp.log(self.precision) - jnp.log1p(self.precision)
        return log_inverse + (a - 1) * jnp.log(y) + (b - 1) * jnp.log1p(-y)

    def moments(self, F):
        mean = jax.nn.sigmoid(F)
        return mean, mean * jax.nn.sigmoid(-F) / (1 + self.precision)

    def sample(self, key, F):
        draws = jax.random.beta(key, *self._shapes(F), shape=F.shape, dtype=F.dtype)
        limits = jnp.finfo(F.dtype)
        return jnp.clip(draws, limits.tiny, 1 - limits.epsneg)  # rounding must not make it 0 or 1

    def check_targets(self, y) -> None:
        refuse(self, y, lambda y: (y <= 0) | (y >= 1), "above 0 and below 1")
