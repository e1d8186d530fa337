"""Priors on parameters. A parameter with a prior turns training into MAP estimation.

Densities are on the constrained value that a user reads (a variance, a lengthscale), without the Jacobian of
the softplus underneath, so the mode does not depend on how a parameter is optimised.
"""

import abc
from dataclasses import dataclass

import jax.numpy as jnp
import jax.scipy.stats as stats
from jaxtyping import Array, Float

from tightgp import checks


class Prior(abc.ABC):
    """A density over one positive or real number, applied to each entry of a parameter."""

    @abc.abstractmethod
    def log_density(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        """Log density of each entry of ``value``."""


def _check_normal(prior):
    checks.number("mean", prior.mean)
    checks.positive("sd", checks.number("sd", prior.sd))


@dataclass(frozen=True)
class Normal(Prior):
    """``N(x | mean, sd²)``."""

    mean: float = 0.0
    sd: float = 1.0

    def __post_init__(self):
        _check_normal(self)

    def log_density(self, value):
        return stats.norm.logpdf(value, self.mean, self.sd)


@dataclass(frozen=True)
class LogNormal(Prior):
    """``log x ~ N(mean, sd²)``."""

    mean: float = 0.0
    sd: float = 1.0

    def __post_init__(self):
        _check_normal(self)

    def log_density(self, value):
        return stats.norm.logpdf(jnp.log(value), self.mean, self.sd) - jnp.log(value)


@dataclass(frozen=True)
class Gamma(Prior):
    """``x ~ Gamma(shape, rate)``, with mean shape/rate."""

    shape: float
    rate: float

    def __post_init__(self):
        checks.positive("shape", checks.number("shape", self.shape))
        checks.positive("rate", checks.number("rate", self.rate))

    def log_density(self, value):
        return stats.gamma.logpdf(value, self.shape, scale=1 / self.rate)
