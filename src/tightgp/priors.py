"""Priors on parameters. A parameter with a prior turns training into MAP estimation.

Densities are of the constrained value that a user reads (a variance, a lengthscale), without the Jacobian of the
softplus, so that the mode does not depend on how a parameter is optimised.
"""

import abc
from dataclasses import dataclass

import jax.numpy as jnp
import jax.scipy.stats as stats
from jaxtyping import Array, Float

from tightgp import checks


class Prior(abc.ABC):
    """A density over one number, applied to each entry of a parameter."""

    @abc.abstractmethod
    def log_density(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        """Log density of each entry of ``value``."""


@dataclass(frozen=True)
class _MeanAndSd(Prior):
    """Priors with a mean and a standard deviation."""

    mean: float = 0.0
    sd: float = 1.0

    def __post_init__(self):
        checks.number("mean", self.mean)
        checks.positive("sd", checks.number("sd", self.sd))


class Normal(_MeanAndSd):
    """``x ~ N(mean, sd²)``.

    Args:
        mean: the mean.
        sd: the standard deviation, positive.

    >>> prior = tgp.priors.Normal(mean=1.0, sd=0.5)
    >>> round(float(prior.log_density(1.0)), 4)
    -0.2258
    """

    def log_density(self, value):
        return stats.norm.logpdf(value, self.mean, self.sd)


class LogNormal(_MeanAndSd):
    """``log x ~ N(mean, sd²)``.

    Args:
        mean: the mean of log x.
        sd: the standard deviation of log x, positive.

    >>> prior = tgp.priors.LogNormal(mean=0.0, sd=0.5)
    >>> round(float(prior.log_density(1.0)), 4)
    -0.2258
    """

    def log_density(self, value):
        return stats.norm.logpdf(jnp.log(value), self.mean, self.sd) - jnp.log(value)


@dataclass(frozen=True)
class Gamma(Prior):
    """``x ~ Gamma(shape, rate)``, with mean ``shape/rate``.

    Args:
        shape: the shape, positive.
        rate: the rate, positive.

    >>> kernel = tgp.with_priors(tgp.kernels.Matern32(), {"lengthscale": tgp.priors.Gamma(shape=2.0, rate=1.0)})
    """

    shape: float
    rate: float

    def __post_init__(self):
        checks.positive("shape", checks.number("shape", self.shape))
        checks.positive("rate", checks.number("rate", self.rate))

    def log_density(self, value):
        return stats.gamma.logpdf(value, self.shape, scale=1 / self.rate)
