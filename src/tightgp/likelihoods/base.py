"""The likelihood interface: a density ``p(y|f)`` for each row, and its expectations under a Gaussian q(f).

Latent values ``F`` have shape (..., n, L), with any number of leading axes for draws or quadrature nodes; targets ``y``
have shape (n, P). A likelihood either treats each column of ``y`` by itself, with one latent for each
(``num_latents`` is None, and L = P), or depends on several latents for its one column (P = 1).
"""

import abc
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import ndtr, roots_legendre

from tightgp import checks, parameters
from tightgp.likelihoods import quadrature

#: A Gaussian has no weight in float64 further than this many standard deviations from its mean.
_REACH = 9.0
#: Rows for which `Likelihood.predictive_cdf` integrates at a time.
_ROWS = 8192
#: Whole numbers are exact in float64 up to here, the largest quantile returned.
_LARGEST_COUNT = 2.0**53
_LEGENDRE_NODES, _LEGENDRE_WEIGHTS = roots_legendre(80)


class Support(NamedTuple):
    """The targets that a likelihood accepts.

    ``description`` completes the error message "y must be …"; ``excludes(y)`` marks the targets outside.
    """

    description: str
    excludes: Callable[[np.ndarray], np.ndarray]


FINITE = Support("finite", np.isinf)
POSITIVE = Support("positive and finite", lambda y: (y <= 0) | np.isinf(y))


def whole_numbers(description: str, largest: float | int = np.inf) -> Support:
    """Whole numbers from 0 to ``largest``."""
    return Support(description, lambda y: (y != np.floor(y)) | (y < 0) | (y > largest) | np.isinf(y))


class Likelihood(eqx.Module):
    """A density ``p(y | f)``. Subclasses implement `support`, `log_density`, `moments` and `sample`.

    A subclass with closed forms overrides `expected_log_density`, `predict` or `predictive_log_density`. By default
    these integrate numerically: with 20 Gauss–Hermite nodes for each latent, or with draws where a target depends on
    more than two.

    >>> tgp.likelihoods.Poisson().check_targets(np.array([[1.0], [2.5]]))
    Traceback (most recent call last):
    ValueError: y must be counts (whole numbers from 0 on) for Poisson: row 1 is 2.5
    """

    #: A valid target, used in place of missing ones; results at it are discarded.
    filler: ClassVar[float] = 1.0
    #: Names of the parameters that may have one value for each column of targets.
    per_output: ClassVar[tuple[str, ...]] = ()

    #: Whether ``log p(y|f)`` is quadratic in f with the same curvature for every f (maths 4.1).
    quadratic: ClassVar[bool] = False

    @property
    @abc.abstractmethod
    def support(self) -> Support:
        """The targets that can occur."""

    @property
    def num_latents(self) -> int | None:
        """The number of latents of the one column of targets; None where each column has its own latent."""
        return None

    @property
    def numbers_per_row(self) -> int:
        """How many numbers an expectation computes for each target: nodes or draws, times latents."""
        latents = self.num_latents or 1
        on_grid = latents <= quadrature.MAX_GRID_LATENTS
        return latents * (quadrature.NUM_NODES**latents if on_grid else 2 * quadrature.NUM_PAIRS)

    @property
    def variance(self) -> Float[Array, "..."]:
        """Noise variance of a `quadratic` likelihood: minus the inverse of the curvature."""
        raise AttributeError(f"{type(self).__name__} has no noise variance: it is not quadratic in f")

    @abc.abstractmethod
    def log_density(self, F: Float[Array, "*s n l"], y: Float[Array, "n p"]) -> Float[Array, "*s n p"]:
        """``log p(y | f)``."""

    @abc.abstractmethod
    def moments(self, F: Float[Array, "*s n l"]) -> tuple[Float[Array, "*s n p"], Float[Array, "*s n p"]]:
        """Mean and variance of y given f."""

    @abc.abstractmethod
    def sample(self, key, F: Float[Array, "*s n l"]) -> Float[Array, "*s n p"]:
        """Draw y given f."""

    def check_targets(self, y) -> None:
        """Raise ValueError if a target in ``y`` (n, P) cannot occur; NaN stands for a missing one."""
        likelihood, columns = type(self).__name__, y.shape[1]
        if self.num_latents is not None and columns != 1:
            raise ValueError(f"y must have one column for {likelihood}, got {columns}")
        for name in self.per_output:
            shape = jnp.shape(getattr(self, name))
            if shape not in ((), (1,), (columns,)):
                raise ValueError(f"{name} has shape {shape} but y has {columns} column(s); pass 1 or {columns} values")
        if isinstance(y, jax.core.Tracer):
            return
        y = np.asarray(y)
        wrong = self.support.excludes(y) & ~np.isnan(y)
        rows = np.unique(np.nonzero(wrong)[0])
        if len(rows):
            more = f" ({len(rows)} such rows: {checks.listed(rows)})" if len(rows) > 1 else ""
            wanted = f"{self.support.description} for {likelihood}"
            raise ValueError(f"y must be {wanted}: row {rows[0]} is {y[wrong][0]}{more}")

    def expected_log_density(
        self, mean: Float[Array, "n l"], var: Float[Array, "n l"], y: Float[Array, "n p"], key=None
    ) -> Float[Array, "n p"]:
        """``E[log p(y | f)]`` under ``f ~ N(mean, var)``. ``key`` is for draws; None takes a fixed one."""
        if self.quadratic:
            return self.log_density(mean, y) - 0.5 * var / self.variance
        F, log_weights = self._nodes(mean, var, key)
        return jnp.tensordot(jnp.exp(log_weights), self.log_density(F, y), axes=1)

    def predict(
        self, mean: Float[Array, "n l"], var: Float[Array, "n l"], key=None
    ) -> tuple[Float[Array, "n p"], Float[Array, "n p"]]:
        """Mean and variance of a new target, ``E[y]`` and ``Var[y]`` under ``f ~ N(mean, var)``."""
        F, log_weights = self._nodes(mean, var, key)
        weights = jnp.exp(log_weights)
        means, variances = self.moments(F)
        average = jnp.tensordot(weights, means, axes=1)
        return average, jnp.tensordot(weights, variances + (means - average) ** 2, axes=1)

    def predictive_log_density(
        self, mean: Float[Array, "n l"], var: Float[Array, "n l"], y: Float[Array, "n p"], key=None
    ) -> Float[Array, "n p"]:
        """``log E[p(y | f)]`` under ``f ~ N(mean, var)``: the log density of a target given the data."""
        if self.num_latents is None:
            return quadrature.log_expected_density(self, mean, var, y)
        F, log_weights = self._nodes(mean, var, key)
        return jax.nn.logsumexp(self.log_density(F, y) + log_weights[:, None, None], axis=0)

    def cdf(self, F, y) -> np.ndarray:
        """``P(Y ≤ y | f)`` for f (..., n, P) and y (n, P), in NumPy. Only counts without an upper limit have it."""
        raise ValueError(f"{type(self).__name__} has no cdf; Poisson and NegativeBinomial have one")

    def cdf_transition(self, y) -> tuple[np.ndarray, np.ndarray]:
        """The interval of f in which the `cdf` at ``y`` falls from one to zero, up to rounding."""
        raise ValueError(f"{type(self).__name__} has no cdf; Poisson and NegativeBinomial have one")

    def predictive_cdf(self, mean, var, y) -> np.ndarray:
        """``P(Y ≤ y) = E[P(Y ≤ y | f)]`` under ``f ~ N(mean, var)``, all of shape (n, P), in NumPy.

        Left of its transition the cdf is one, and Φ gives the weight of N(mean, var) there. Within the transition both
        factors are smooth, whichever of the two is narrower, and Gauss–Legendre nodes integrate their product.
        """
        mean, var, y = (np.asarray(a, np.float64) for a in (mean, var, y))
        if len(mean) > _ROWS:
            parts = [slice(i, i + _ROWS) for i in range(0, len(mean), _ROWS)]
            return np.concatenate([self.predictive_cdf(mean[rows], var[rows], y[rows]) for rows in parts])
        sd = np.sqrt(np.maximum(var, np.finfo(np.float64).tiny))
        low, high = (np.clip((end - mean) / sd, -_REACH, _REACH) for end in self.cdf_transition(y))
        half = 0.5 * (high - low)
        z = low + half * (1 + _LEGENDRE_NODES[:, None, None])
        density = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
        within = half * np.sum(_LEGENDRE_WEIGHTS[:, None, None] * density * self.cdf(mean + sd * z, y), axis=0)
        return np.clip(np.where(low > -_REACH, ndtr(low), 0.0) + within, 0.0, 1.0)

    def predictive_quantile(self, mean, var, q: float) -> np.ndarray:
        """The smallest count ``y`` with ``P(Y ≤ y) ≥ q`` under ``f ~ N(mean, var)``, of shape (n, P), in NumPy."""
        if not 0 < checks.number("q", q) < 1:
            raise ValueError(f"q must lie between 0 and 1, got {q!r}")
        mean, var = np.asarray(mean, np.float64), np.asarray(var, np.float64)
        # Multiply the guess by four until it is too large, then bisect between low (too small) and high.
        low, high = np.full(mean.shape, -1.0), np.full(mean.shape, np.inf)
        guess = np.ceil(np.exp(np.clip(mean, 0.0, 30.0)))
        while len(rows := np.nonzero(np.any(high - low > 1, axis=1))[0]):
            y = guess[rows]
            reached = (self.predictive_cdf(mean[rows], var[rows], y) >= q) | (y >= _LARGEST_COUNT)
            high[rows] = np.where(reached, y, high[rows])
            low[rows] = np.where(reached, low[rows], y)
            larger = np.minimum(4 * guess, _LARGEST_COUNT)
            guess = np.where(np.isinf(high), larger, np.floor(0.5 * (low + high)))
        return high

    def with_known(self, known: Float[Array, " n"]) -> "Likelihood":
        """This likelihood with known noise variances of the rows, added to its own."""
        return self.of_rows(known, None)

    def of_rows(self, known: Float[Array, " n"] | None, factor: Float[Array, " n"] | None) -> "Likelihood":
        """This likelihood where rows have known noise variances, or factors of the likelihood's own."""
        if known is None and factor is None:
            return self
        raise ValueError(f"noise variances of rows go with Gaussian noise, not with {type(self).__name__}")

    def _nodes(self, mean, var, key) -> tuple[Float[Array, "s n l"], Float[Array, " s"]]:
        """Values of f to average over, and the logarithms of their weights."""
        latents = self.num_latents or 1
        if latents <= quadrature.MAX_GRID_LATENTS:
            return quadrature.gauss_hermite(mean, var, latents)
        return quadrature.antithetic_draws(mean, var, jax.random.key(0) if key is None else key)

    def __repr__(self) -> str:
        return parameters.table(self, type(self).__name__)


class ClosedForm(Likelihood):
    """Likelihoods with closed forms of `predict` and `predictive_log_density`, which give the rest at variance zero."""

    def log_density(self, F, y):
        return self.predictive_log_density(F, jnp.zeros_like(F), y)

    def moments(self, F):
        return self.predict(F, jnp.zeros_like(F))


class ClosedExpectation(Likelihood):
    """Likelihoods with closed forms of `predict` and `expected_log_density`, which give the rest at variance zero."""

    def log_density(self, F, y):
        return self.expected_log_density(F, jnp.zeros_like(F), y)

    def moments(self, F):
        return self.predict(F, jnp.zeros_like(F))


class LogLink(ClosedExpectation):
    """Likelihoods with mean ``μ = exp(f)`` and a variance that is linear in μ and μ².

    `predict` follows: ``E[μ] = exp(m + s²/2)`` and ``E[μ²] = E[μ]² exp(s²)`` under ``f ~ N(m, s²)``. A subclass without
    a closed form of `expected_log_density` overrides `log_density` instead.
    """

    @abc.abstractmethod
    def _variance(self, mean: Float[Array, "..."], square: Float[Array, "..."]) -> Float[Array, "..."]:
        """Variance of y, from μ and μ² or from their expectations."""

    def predict(self, mean, var, key=None):
        average = jnp.exp(mean + 0.5 * var)
        square = average**2
        return average, self._variance(average, square * jnp.exp(var)) + square * jnp.expm1(var)


def positive_per_output(value, name: str, **options) -> parameters.Parameter:
    """A positive parameter that is one number or has one for each output."""
    return parameters.check_per_output(name, parameters.positive(value, name=name, floor=parameters.FLOOR, **options))
