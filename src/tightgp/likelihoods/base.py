"""What every likelihood is: a density p(y|f) of each row, and its expectations under a Gaussian q(f).

Latent values ``F`` have shape (..., n, L), with any number of leading axes for draws or quadrature nodes;
targets ``y`` have shape (n, P). A likelihood either treats each column of ``y`` by itself, with one latent
function for each (``num_latents`` is None, so L = P), or ties one column to several latents (P = 1).
"""

import abc
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import ndtr, roots_hermitenorm, roots_legendre

from tightgp import checks, parameters
from tightgp.parameters import Parameter

#: Gauss–Hermite nodes for each latent function.
NUM_NODES = 20
#: Pairs of opposite draws for likelihoods with too many latents for a grid of nodes.
NUM_PAIRS = 50
_MOST_ON_GRID = 2
#: How far from the mean a mode is looked for, in standard deviations, and by how many halvings.
_FURTHEST = 1e6
_HALVINGS = 50

#: What lies further from the mean than this many standard deviations has no weight in float64.
_REACH = 9.0
#: So many rows have their distribution function integrated at a time.
_PART = 8192
_LEGENDRE, _LEGENDRE_WEIGHTS = roots_legendre(80)
_NODES, _WEIGHTS = roots_hermitenorm(NUM_NODES)
_LOG_WEIGHTS = np.log(_WEIGHTS / _WEIGHTS.sum())


class Likelihood(eqx.Module):
    """A density ``p(y | f)``. Subclasses say `log_density`, `moments`, `sample` and `check_targets`.

    Where an expectation has a closed form they override `expected_log_density`, `predict` or
    `predictive_log_density`; the others integrate numerically: 20 Gauss–Hermite nodes for each latent, or
    draws where a row depends on more than two. The predictive density has its nodes where p(y|f)q(f) is.
    """

    #: A valid target to put where one is missing; what it leads to is never used.
    filler: ClassVar[float] = 1.0
    #: Names of the parameters that may have one value for each column of targets.
    outputwise: ClassVar[tuple[str, ...]] = ()

    @property
    def num_latents(self) -> int | None:
        """Latent functions behind one column of targets; None where each column has one of its own."""
        return None

    @property
    def numbers_per_row(self) -> int:
        """How many numbers an expectation holds for a row of targets: its nodes or draws, times its latents."""
        latents = self.num_latents or 1
        return latents * (NUM_NODES**latents if latents <= _MOST_ON_GRID else 2 * NUM_PAIRS)

    @property
    def quadratic(self) -> bool:
        """Whether ``log p(y|f)`` is quadratic in f with a curvature that is the same for every f (maths 4.1)."""
        return False

    @property
    def variance(self) -> Float[Array, "..."]:
        """Noise variance of a row where `quadratic`: the inverse of that curvature."""
        raise AttributeError(f"the noise of {type(self).__name__} has no variance that is the same for every f")

    @abc.abstractmethod
    def log_density(self, F: Float[Array, "*s n l"], y: Float[Array, "n p"]) -> Float[Array, "*s n p"]:
        """``log p(y | f)``."""

    @abc.abstractmethod
    def moments(self, F: Float[Array, "*s n l"]) -> tuple[Float[Array, "*s n p"], Float[Array, "*s n p"]]:
        """Mean and variance of y given f."""

    @abc.abstractmethod
    def sample(self, key, F: Float[Array, "*s n l"]) -> Float[Array, "*s n p"]:
        """Draws of y given f."""

    @abc.abstractmethod
    def check_targets(self, y) -> None:
        """Refuse targets (n, P) that cannot occur, naming the first rows; NaN stands for a missing one."""

    def expected_log_density(
        self, mean: Float[Array, "n l"], var: Float[Array, "n l"], y: Float[Array, "n p"], key=None
    ) -> Float[Array, "n p"]:
        """``E[log p(y | f)]`` under ``f ~ N(mean, var)``."""
        F, log_weights = self._nodes(mean, var, key)
        return jnp.tensordot(jnp.exp(log_weights), self.log_density(F, y), axes=1)

    def predict(
        self, mean: Float[Array, "n l"], var: Float[Array, "n l"], key=None
    ) -> tuple[Float[Array, "n p"], Float[Array, "n p"]]:
        """Mean and variance of a new target."""
        F, log_weights = self._nodes(mean, var, key)
        weights = jnp.exp(log_weights)
        means, variances = self.moments(F)
        average = jnp.tensordot(weights, means, axes=1)
        return average, jnp.tensordot(weights, variances + (means - average) ** 2, axes=1)

    def predictive_log_density(
        self, mean: Float[Array, "n l"], var: Float[Array, "n l"], y: Float[Array, "n p"], key=None
    ) -> Float[Array, "n p"]:
        """``log E[p(y | f)]``: the log density of a target under the predictive distribution."""
        if self.num_latents is None:
            return self._integral_around_mode(mean, var, y)
        F, log_weights = self._nodes(mean, var, key)
        return jax.nn.logsumexp(self.log_density(F, y) + log_weights[:, None, None], axis=0)

    def cdf(self, F, y) -> np.ndarray:
        """``P(Y ≤ y | f)`` for f (..., n, P) and y (n, P), on the host."""
        raise ValueError(f"{type(self).__name__} has no cdf; Poisson and NegativeBinomial have one")

    def fall(self, y) -> tuple[np.ndarray, np.ndarray]:
        """Between which f the `cdf` at ``y`` falls from one to zero; outside it is there but for rounding."""
        raise ValueError(f"{type(self).__name__} has no cdf; Poisson and NegativeBinomial have one")

    def predictive_cdf(self, mean, var, y) -> np.ndarray:
        """``P(Y ≤ y) = E[P(Y ≤ y | f)]`` under ``f ~ N(mean, var)``, all of shape (n, P), on the host.

        For likelihoods whose `cdf` falls as f grows. To the left of its fall it is one, and Φ says how much of
        N(mean, var) is there; within the fall both factors are smooth, however narrow one is beside the other.
        """
        mean, var, y = (np.asarray(a, np.float64) for a in (mean, var, y))
        if len(mean) > _PART:
            parts = [slice(i, i + _PART) for i in range(0, len(mean), _PART)]
            return np.concatenate([self.predictive_cdf(mean[rows], var[rows], y[rows]) for rows in parts])
        sd = np.sqrt(np.maximum(var, np.finfo(np.float64).tiny))
        low, high = (np.clip((end - mean) / sd, -_REACH, _REACH) for end in self.fall(y))
        half = 0.5 * (high - low)
        shape = (-1, *[1] * mean.ndim)
        z = low + half * (1 + _LEGENDRE.reshape(shape))
        density = np.exp(-0.5 * z * z) / np.sqrt(2 * np.pi)
        within = half * np.sum(_LEGENDRE_WEIGHTS.reshape(shape) * density * self.cdf(mean + sd * z, y), axis=0)
        return np.clip(np.where(low > -_REACH, ndtr(low), 0.0) + within, 0.0, 1.0)

    def with_known(self, known) -> "Likelihood":
        """This likelihood for rows of which a part of the noise variance is known."""
        raise ValueError(f"known noise variances go with Gaussian noise, not with {type(self).__name__}")

    def _integral_around_mode(self, mean, var, y):
        """``log ∫ p(y|f) N(f|mean, var) df``, with nodes where the integrand is: y may say far more than N does."""
        sd = _root(var)
        fixed, m, s, target = jax.lax.stop_gradient((self, mean, sd, y))

        def slope(z):
            ones = jnp.ones_like(z)
            return jax.jvp(lambda z: fixed.log_density(m + s * z, target), (z,), (ones,))[1]

        def halve(_, ends):
            low, high = ends
            middle = 0.5 * (low + high)
            rising = slope(middle) > middle
            return jnp.where(rising, middle, low), jnp.where(rising, high, middle)

        # In units of sd the mode is where slope(z) = z.
        ends = jnp.full_like(mean, -_FURTHEST), jnp.full_like(mean, _FURTHEST)
        low, high = jax.lax.fori_loop(0, _HALVINGS, halve, ends)
        mode = 0.5 * (low + high)
        curvature = jax.jvp(slope, (mode,), (jnp.ones_like(mode),))[1]
        width = jax.lax.rsqrt(1 + jnp.maximum(-curvature, 0))
        x, log_weights = hermite(jnp.zeros_like(mean), jnp.ones_like(mean))
        z = mode + width * x
        terms = self.log_density(mean + sd * z, y) - 0.5 * (z - x) * (z + x) + log_weights[:, None, None]
        return jnp.log(width) + jax.nn.logsumexp(terms, axis=0)

    def _nodes(self, mean, var, key) -> tuple[Float[Array, "s n l"], Float[Array, " s"]]:
        """Values of f to average over, and the logs of their weights."""
        if self.num_latents is None:
            return hermite(mean, var)
        sd = _root(var)
        if self.num_latents > _MOST_ON_GRID:
            key = jax.random.key(0) if key is None else key
            draws = jax.random.normal(key, (NUM_PAIRS, *mean.shape), mean.dtype)
            shifts = jnp.concatenate([draws, -draws]) * sd
            return mean + shifts, jnp.full(2 * NUM_PAIRS, -np.log(2 * NUM_PAIRS), mean.dtype)
        grid = np.stack([g.ravel() for g in np.meshgrid(*[_NODES] * self.num_latents, indexing="ij")], axis=1)
        log_weights = sum(g.ravel() for g in np.meshgrid(*[_LOG_WEIGHTS] * self.num_latents, indexing="ij"))
        F = mean + jnp.asarray(grid, mean.dtype)[:, None, :] * sd
        return F, jnp.asarray(log_weights, mean.dtype)

    def __repr__(self) -> str:
        return parameters.table(self, type(self).__name__)


def _root(var):
    return jnp.sqrt(jnp.maximum(var, jnp.finfo(var.dtype).tiny))


def hermite(mean: Float[Array, "*n"], var: Float[Array, "*n"]) -> tuple[Float[Array, "s *n"], Float[Array, " s"]]:
    """Gauss–Hermite nodes of ``N(mean, var)``, element by element, and the logs of their weights."""
    nodes = jnp.asarray(_NODES, mean.dtype).reshape(-1, *[1] * mean.ndim)
    return mean + nodes * _root(var), jnp.asarray(_LOG_WEIGHTS, mean.dtype)


def per_output(value, name: str, **how) -> Parameter:
    """A positive parameter that is one number or has one for each output."""
    p = parameters.positive(value, name=name, **how)
    if p.raw.ndim > 1:
        raise ValueError(f"{name} must be one number or have shape (P,), got {p.raw.shape}")
    return p


def several(name: str, value, instead: str, least: int = 2) -> int:
    """A number of classes or levels; ``instead`` says what to use for fewer."""
    if checks.count(name, value) < least:
        raise ValueError(f"{name} must be at least {least}, got {value}; {instead}")
    return int(value)


def refuse(likelihood: Likelihood, y, bad: Callable[[np.ndarray], np.ndarray], wanted: str) -> None:
    """Say which targets are not ``wanted``; ``bad`` marks them. Missing ones (NaN) pass."""
    whose, columns = type(likelihood).__name__, y.shape[1]
    if likelihood.num_latents is not None and columns != 1:
        raise ValueError(f"y must have one column for {whose}, got {columns}")
    for name in likelihood.outputwise:
        shape = jnp.shape(getattr(likelihood, name))
        if shape not in ((), (1,), (columns,)):
            raise ValueError(
                f"{name} has shape {shape} but y has {columns} column(s); give one number, or one for each"
            )
    if not isinstance(y, jax.core.Tracer):
        y = np.asarray(y)
        wrong = bad(y) & ~np.isnan(y)
        rows = np.unique(np.nonzero(wrong)[0])
        if len(rows):
            raise ValueError(
                f"y must be {wanted} for {whose}: row {rows[0]} is {y[wrong][0]}"
                + (f" ({len(rows)} such rows: {checks.listed(rows)})" if len(rows) > 1 else "")
            )
