"""Noise that is not one Gaussian: Student's t, and Gaussian noise whose variance is itself a function (maths 14)."""

from dataclasses import dataclass
from typing import Protocol

import jax
import numpy as np

from tightgp.estimators.distributions import on_padded_rows
from tightgp.estimators.mixtures import ScaleMixture, student_t
from tightgp.posterior.posterior import Posterior

#: What ``noise`` may be.
NAMES = ("auto", "gaussian", "student-t", "heteroscedastic")
#: Nodes over the log variance of a row, and the logarithms of their weights.
NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(9)
LOG_WEIGHTS = np.log(_WEIGHTS / np.sqrt(2 * np.pi))


class Noise(Protocol):
    """Noise of new targets, in the units of the model."""

    @property
    def name(self) -> str:
        """One of `NAMES`."""

    def mixture(self, X: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> ScaleMixture:
        """New targets at features X (n, D), where the function has ``mean`` and ``variance`` (n,)."""

    def draw(self, key: jax.Array, X: np.ndarray, mean: np.ndarray, F: np.ndarray) -> np.ndarray:
        """Draws of new targets (s, n), given joint draws F (s, n) of the function, whose mean is ``mean`` (n,)."""

    def variance(self, X: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """Noise variance (n,)."""

    @property
    def typical_variance(self) -> float:
        """Noise variance of a typical row."""

    def describe(self) -> str:
        """The noise in one sentence."""


@dataclass(frozen=True)
class StudentTNoise:
    """``scale`` times a number with Student's distribution of ``df`` degrees of freedom."""

    df: float
    scale: float

    name = "student-t"

    def mixture(self, X, mean, variance) -> ScaleMixture:
        return student_t(mean, variance, self.df, self.scale)

    def draw(self, key, X, mean, F) -> np.ndarray:
        return F + self.scale * np.asarray(jax.random.t(key, self.df, F.shape, F.dtype))

    def variance(self, X, mean) -> np.ndarray:
        return np.full(len(mean), self.typical_variance)

    @property
    def typical_variance(self) -> float:
        return self.scale**2 * self.df / (self.df - 2)

    def describe(self) -> str:
        return f"Noise has Student's distribution with {self.df:.2g} degrees of freedom, so that outliers count little."


@dataclass(frozen=True)
class NoiseFunction:
    """Gaussian noise whose log variance is a Gaussian process of the features and of the predicted mean.

    Attributes:
        posterior: of the log variance.
        low, high: standard deviations that 5 % and 95 % of the training rows have, in the units of the model.
    """

    posterior: Posterior
    low: float
    high: float

    name = "heteroscedastic"

    def mixture(self, X, mean, variance) -> ScaleMixture:
        g, g_var = self.log_variance(X, mean)
        noise = np.exp(g[:, None] + np.sqrt(g_var)[:, None] * NODES)
        return ScaleMixture(mean, variance[:, None] + noise, LOG_WEIGHTS)

    def draw(self, key, X, mean, F) -> np.ndarray:
        log_key, noise_key = jax.random.split(key)
        g = np.asarray(self.posterior.sample_f(log_key, with_mean(X, mean), len(F)))
        return F + np.exp(0.5 * g) * np.asarray(jax.random.normal(noise_key, F.shape, F.dtype))

    def variance(self, X, mean) -> np.ndarray:
        g, g_var = self.log_variance(X, mean)
        return np.exp(g[:, None] + np.sqrt(g_var)[:, None] * NODES) @ np.exp(LOG_WEIGHTS)

    def log_variance(self, X: np.ndarray, mean: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (n,) of the log noise variance."""
        return on_padded_rows(self.posterior.predict_f, with_mean(X, mean))

    @property
    def typical_variance(self) -> float:
        return self.low * self.high

    def describe(self) -> str:
        return (
            "The noise is a function of its own of the inputs and the prediction: its standard deviation differs by a "
            f"factor of {self.high / self.low:.2g} between rows with little and with much."
        )


def with_mean(X: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """What the noise is a function of: features and predicted means, (n, D + 1)."""
    return np.column_stack([X, mean])
