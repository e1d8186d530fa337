"""Gaussian noise: of one size, known row by row, or itself a function of the input."""

import math
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp.likelihoods.base import Likelihood, hermite, per_output, refuse
from tightgp.likelihoods.special import exp
from tightgp.parameters import FLOOR, Parameter

_LOG_2PI = math.log(2 * math.pi)


def log_normal(y, mean, variance):
    """``log N(y | mean, variance)``, element by element."""
    return -0.5 * (_LOG_2PI + jnp.log(variance) + (y - mean) ** 2 / variance)


class Gaussian(Likelihood):
    """``y = f + ε``, with noise variance σ², one number or one for each output.

    ``noise_variance=None`` stands for data that know all of their noise (``Dataset(..., noise_variance=)``).
    """

    outputwise: ClassVar[tuple[str, ...]] = ("noise_variance",)

    _noise_variance: Parameter | None
    known: Float[Array, "n 1"] | None

    def __init__(self, noise_variance=0.1):
        self.known = None
        self._noise_variance = None
        if noise_variance is not None:
            self._noise_variance = per_output(noise_variance, "noise_variance", floor=FLOOR, squared=True)

    @property
    def noise_variance(self) -> Float[Array, "*p"]:
        """Noise variance σ²; zero where all noise is known from the data."""
        return jnp.zeros(()) if self._noise_variance is None else self._noise_variance.value

    @property
    def quadratic(self) -> bool:
        return True

    @property
    def variance(self) -> Float[Array, "..."]:
        """All noise of a row: σ² and what is known."""
        if self.known is None:
            return self.noise_variance
        return self.known if self._noise_variance is None else self.noise_variance + self.known

    def with_known(self, known) -> "Gaussian":
        return eqx.tree_at(lambda g: g.known, self, known[:, None], is_leaf=lambda x: x is None)

    def log_density(self, F, y):
        return log_normal(y, F, self.variance)

    def moments(self, F):
        return F, jnp.broadcast_to(self.variance, F.shape).astype(F.dtype)

    def sample(self, key, F):
        return F + jnp.sqrt(self.variance) * jax.random.normal(key, F.shape, F.dtype)

    def check_targets(self, y) -> None:
        refuse(self, y, np.isinf, "finite")

    def expected_log_density(self, mean, var, y, key=None):
        return log_normal(y, mean, self.variance) - 0.5 * var / self.variance

    def predict(self, mean, var, key=None):
        return mean, var + self.variance

    def predictive_log_density(self, mean, var, y, key=None):
        return log_normal(y, mean, var + self.variance)


class HeteroscedasticGaussian(Likelihood):
    """``y = f + ε`` with noise variance ``exp(g)``: two latent functions, f and g.

    Everything but the predictive density has a closed form; that one integrates over g alone.
    """

    @property
    def num_latents(self) -> int:
        return 2

    def log_density(self, F, y):
        f, g = F[..., :1], F[..., 1:]
        return -0.5 * (_LOG_2PI + g + (y - f) ** 2 * exp(-g))

    def moments(self, F):
        return F[..., :1], jnp.exp(F[..., 1:])

    def sample(self, key, F):
        return F[..., :1] + jnp.exp(0.5 * F[..., 1:]) * jax.random.normal(key, F[..., :1].shape, F.dtype)

    def check_targets(self, y) -> None:
        refuse(self, y, np.isinf, "finite")

    def expected_log_density(self, mean, var, y, key=None):
        f, g, vf, vg = mean[:, :1], mean[:, 1:], var[:, :1], var[:, 1:]
        return -0.5 * (_LOG_2PI + g + ((y - f) ** 2 + vf) * exp(0.5 * vg - g))

    def predict(self, mean, var, key=None):
        return mean[:, :1], var[:, :1] + jnp.exp(mean[:, 1:] + 0.5 * var[:, 1:])

    def predictive_log_density(self, mean, var, y, key=None):
        g, log_weights = hermite(mean[:, 1:], var[:, 1:])
        # Held so far from zero that (y − f)²/variance² does not overflow: that would make gradients NaN.
        least = float(jnp.finfo(mean.dtype).tiny) ** 0.4
        variance = jnp.maximum(var[:, :1] + exp(g), least)
        return jax.nn.logsumexp(log_normal(y, mean[:, :1], variance) + log_weights[:, None, None], axis=0)
