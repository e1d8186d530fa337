"""Predictive distributions: the distribution of a new target at each row, for means, quantiles, densities and draws."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri, ndtri_exp

from tightgp import checks
from tightgp.estimators.settings import seed_of
from tightgp.estimators.target_transform import TargetTransform
from tightgp.likelihoods import Bernoulli, Likelihood, Ordinal
from tightgp.numerics.chunks import pad_rows, rounded_up

#: Probabilities of three or more classes are means over this many repeats of the likelihood's hundred draws.
_REPEATS = 20
#: Nodes and weights for means under a standard normal distribution.
_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(64)
_WEIGHTS = _WEIGHTS / np.sqrt(2 * np.pi)
#: How many terms of the series of a covariance are summed (maths 13.4).
_TERMS = 24
#: Fewer rows than the last of these are padded to one of them, others to one of four numbers between powers of two.
_PADDED = (16, 128, 1024)
#: Rows whose class probabilities are computed at a time.
_PART = 1024


def on_padded_rows(method: Callable, *arrays: np.ndarray) -> Any:
    """Call ``method`` on arrays of n rows, and return its array or tuple of arrays as NumPy arrays of n rows.

    The rows are padded to one of a few numbers, because JAX compiles a program for each.
    """
    n = len(arrays[0])
    length = min((few for few in _PADDED if n <= few), default=rounded_up(n))
    answer = method(*(pad_rows(a, length) for a in arrays))
    return tuple(np.asarray(a)[:n] for a in answer) if isinstance(answer, tuple) else np.asarray(answer)[:n]


class Prediction(abc.ABC):
    """The distribution of a new number at each of n rows, for one target (n,) or P of them (n, P).

    Attributes:
        mean, sd: mean and standard deviation of each target.
        draw: ``draw(key, num_samples)`` gives joint draws of all rows, (num_samples, n) or (num_samples, n, P).
    """

    mean: np.ndarray
    sd: np.ndarray
    draw: Callable

    @abc.abstractmethod
    def quantile(self, q) -> np.ndarray:
        """Quantiles, shaped like ``mean`` for a number ``q``, with another axis for a list."""

    @abc.abstractmethod
    def cdf(self, y) -> np.ndarray:
        """Probability that a target is at most ``y``: one number, or an array shaped like ``mean``."""

    @abc.abstractmethod
    def log_density(self, y) -> np.ndarray:
        """Log density (or probability) of targets ``y``, in their shape."""

    @abc.abstractmethod
    def take(self, rows) -> "Prediction":
        """The predictions at some of the rows."""

    def sample(self, n_samples: int = 1, random_state=0) -> np.ndarray:
        """Joint draws of the targets of all rows: (n, n_samples) or (n, P, n_samples)."""
        checks.count("n_samples", n_samples)
        return np.moveaxis(self.draw(jax.random.key(seed_of(random_state)), n_samples), 0, -1)

    def interval(self, level: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper ends of central intervals that hold a target with probability ``level``."""
        if not 0 < checks.number("level", level) < 1:
            raise ValueError(f"level must lie between 0 and 1, such as 0.95; got {level!r}")
        ends = self.quantile([(1 - level) / 2, (1 + level) / 2])
        return ends[..., 0], ends[..., 1]


class GaussianPrediction(Prediction):
    """Normal distributions, in the targets' own units."""

    def __init__(self, mean: np.ndarray, sd: np.ndarray, draw: Callable):
        self.mean, self.sd, self.draw = mean, sd, draw

    def take(self, rows) -> "GaussianPrediction":
        return GaussianPrediction(self.mean[rows], self.sd[rows], lambda *how: self.draw(*how)[:, rows])

    def quantile(self, q) -> np.ndarray:
        levels = as_levels(q)
        quantiles = self.mean[..., None] + self.sd[..., None] * ndtri(levels)
        return quantiles.reshape(self.mean.shape + levels.shape)

    def cdf(self, y) -> np.ndarray:
        return ndtr((targets_like(y, self.mean.shape) - self.mean) / self.sd)

    def log_density(self, y) -> np.ndarray:
        z = (targets_like(y, self.mean.shape) - self.mean) / self.sd
        return -0.5 * (np.log(2 * np.pi) + z * z) - np.log(self.sd)


def prediction_of(transform: TargetTransform, mean: np.ndarray, sd: np.ndarray, draw: Callable) -> Prediction:
    """The distribution of targets whose transforms are normal; ``draw`` gives draws of the transformed targets."""
    kind = GaussianPrediction if transform.is_identity else WarpedPrediction
    return kind(mean, sd, draw) if kind is GaussianPrediction else WarpedPrediction(transform, mean, sd, draw)


class WarpedPrediction(Prediction):
    """Targets ``y = w⁻¹(z)`` whose transform z is normal, cut off below that of the lowest target (maths 13.3).

    >>> from tightgp.estimators.distributions import WarpedPrediction
    >>> from tightgp.estimators.target_transform import TargetTransform, Warp
    >>> prediction = WarpedPrediction(TargetTransform((Warp("log"),)), np.zeros(1), np.ones(1), None)
    >>> prediction.mean  # of a log-normal: exp(1/2)
    array([1.64872127])
    """

    def __init__(self, transform: TargetTransform, z_mean: np.ndarray, z_sd: np.ndarray, draw: Callable):
        self._transform, self._mean, self._sd, self._draw = transform, z_mean, z_sd, draw
        #: Log of the share of the normal distribution that is not cut off.
        self._log_above = log_ndtr((z_mean - transform.least) / z_sd)
        values = self._targets(_NODES)
        self.mean = values @ _WEIGHTS
        self.sd = np.sqrt((values - self.mean[..., None]) ** 2 @ _WEIGHTS)

    def take(self, rows) -> "WarpedPrediction":
        draw = None if self._draw is None else (lambda *how: self._draw(*how)[:, rows])
        return WarpedPrediction(self._transform, self._mean[rows], self._sd[rows], draw)

    def draw(self, key, num_samples: int) -> np.ndarray:
        normal = (self._draw(key, num_samples) - self._mean) / self._sd
        return self._transform.inverse(self._transformed(normal, self._mean, self._sd, self._log_above), axis=2)

    def quantile(self, q) -> np.ndarray:
        levels = as_levels(q)
        return self._targets(ndtri(np.atleast_1d(levels))).reshape(self.mean.shape + levels.shape)

    def cdf(self, y) -> np.ndarray:
        y = targets_like(y, self.mean.shape)
        above = np.exp(log_ndtr((self._mean - self._transform.forward(y)) / self._sd) - self._log_above)
        return np.where(self._is_possible(y), 1 - above, 0.0)

    def log_density(self, y) -> np.ndarray:
        y = targets_like(y, self.mean.shape)
        possible = self._is_possible(y)
        inside = np.where(possible, y, self.quantile(0.5))
        z = (self._transform.forward(inside) - self._mean) / self._sd
        density = -0.5 * (np.log(2 * np.pi) + z * z) - np.log(self._sd) - self._log_above
        return np.where(possible, density + self._transform.log_slope(inside), -np.inf)

    def covariance(self, correlation: np.ndarray) -> np.ndarray:
        """Covariances (n, n) or (n, n, P), given the correlations of the transformed targets (maths 13.4)."""
        values, he, before = self._targets(_NODES), _NODES, np.ones(len(_NODES))
        total, factor = np.zeros_like(correlation), np.ones_like(correlation)
        for term in range(1, _TERMS + 1):
            coefficient = values @ (he * _WEIGHTS)
            factor = factor * correlation / term
            total = total + coefficient[:, None] * coefficient[None] * factor
            he, before = _NODES * he - term * before, he
        return total

    def _is_possible(self, y: np.ndarray) -> np.ndarray:
        """Whether a target may be as small as this."""
        lowest = np.array([warp.lowest for warp in self._transform.warps])
        return (y > lowest) | ((y == lowest) & (self._transform.least > -np.inf))

    def _targets(self, normal: np.ndarray) -> np.ndarray:
        """Targets (n, K) or (n, P, K) at K quantiles of a standard normal distribution."""
        z = self._transformed(normal, *(a[..., None] for a in (self._mean, self._sd, self._log_above)))
        return self._transform.inverse(z, axis=1)

    def _transformed(self, normal, mean, sd, log_above) -> np.ndarray:
        """Transformed targets at quantiles of a standard normal distribution, which is cut off below."""
        cut = mean - sd * ndtri_exp(np.minimum(log_above + log_ndtr(-normal), 0.0))
        return np.where(log_above > -1e-14, mean + sd * normal, cut)


class CountPrediction(Prediction):
    """Counts whose log rate f is Gaussian at each row, with mean and variance (n, 1)."""

    def __init__(self, likelihood: Any, f_mean: np.ndarray, f_var: np.ndarray, draw: Callable):
        self._likelihood, self._f, self.draw = likelihood, (f_mean, f_var), draw
        mean, var = on_padded_rows(lambda *f: _call(likelihood, "predict", *f), f_mean, f_var)
        self.mean, self.sd = mean[:, 0], np.sqrt(var[:, 0])

    def take(self, rows) -> "CountPrediction":
        mean, var = self._f
        return CountPrediction(self._likelihood, mean[rows], var[rows], lambda *how: self.draw(*how)[:, rows])

    def quantile(self, q) -> np.ndarray:
        """The smallest counts that reach each level."""
        levels = as_levels(q)
        columns = [self._likelihood.predictive_quantile(*self._f, level) for level in levels.reshape(-1).tolist()]
        return np.concatenate(columns, axis=1).reshape(self.mean.shape + levels.shape)

    def cdf(self, y) -> np.ndarray:
        return self._likelihood.predictive_cdf(*self._f, targets_like(y, self.mean.shape)[:, None])[:, 0]

    def log_density(self, y) -> np.ndarray:
        y = targets_like(y, self.mean.shape)[:, None]
        self._likelihood.check_targets(y)
        return on_padded_rows(lambda *f: _call(self._likelihood, "predictive_log_density", *f), *self._f, y)[:, 0]


class ClassPrediction:
    """The probability of each class at each of n rows.

    Attributes:
        classes: the labels (C,).
        log_probability: (n, C), in the order of ``classes``.
    """

    def __init__(self, classes: np.ndarray, log_probability: np.ndarray):
        self.classes, self.log_probability = classes, log_probability

    @property
    def probability(self) -> np.ndarray:
        """The probability of each class (n, C)."""
        return np.exp(self.log_probability)

    @property
    def mode(self) -> np.ndarray:
        """The most probable class of each row (n,)."""
        return self.classes[np.argmax(self.log_probability, axis=1)]

    def log_density(self, y) -> np.ndarray:
        """The log probability of each row's own label in ``y`` (n,)."""
        labels = np.asarray(y)
        if labels.shape != (len(self.log_probability),):
            raise ValueError(
                f"y must have shape ({len(self.log_probability)},), a label for each row of X; got {labels.shape}"
            )
        positions = {label: i for i, label in enumerate(self.classes.tolist())}
        chosen = [positions.get(label, -1) for label in labels.tolist()]
        if -1 in chosen:
            row = chosen.index(-1)
            raise ValueError(f"y has {labels[row]} in row {row}, which is not one of classes_: {self.classes.tolist()}")
        return self.log_probability[np.arange(len(labels)), chosen]

    def sample(self, n_samples: int = 1, random_state=0) -> np.ndarray:
        """Draws of labels (n, n_samples), independent for each row."""
        checks.count("n_samples", n_samples)
        rng = np.random.default_rng(seed_of(random_state))
        noise = rng.gumbel(size=(len(self.log_probability), n_samples, len(self.classes)))
        return self.classes[np.argmax(self.log_probability[:, None] + noise, axis=2)]


@eqx.filter_jit
def _call(likelihood: Likelihood, method: str, *arrays):
    return getattr(likelihood, method)(*arrays)


@eqx.filter_jit
def class_log_probabilities(likelihood: Likelihood, mean, var):
    """Log probabilities (n, C) of classes, given means and variances (n, L) of the latent functions.

    Those of a row depend on that row alone.
    """
    if isinstance(likelihood, Bernoulli | Ordinal):
        count = likelihood.num_levels if isinstance(likelihood, Ordinal) else 2
        y = jnp.arange(count, dtype=mean.dtype) + 0 * mean
        return likelihood.predictive_log_density(mean + 0 * y, var + 0 * y, y)
    keys = jax.random.split(jax.random.key(0), _REPEATS)

    def log_probabilities(row):
        m, v = row
        draws = jax.lax.map(lambda key: likelihood.predict(m[None], v[None], key)[0][0], keys)
        return jnp.log(jnp.mean(draws, axis=0))

    return jax.lax.map(log_probabilities, (mean, var), batch_size=_PART if isinstance(mean.shape[0], int) else None)


def as_levels(q) -> np.ndarray:
    """Levels of quantiles: one number, or a list of them."""
    levels = np.asarray(checks.floats("q", q), float)
    if levels.ndim > 1 or not levels.size or not np.all((levels > 0) & (levels < 1)):
        raise ValueError(f"q must be a number between 0 and 1, or a list of them; got {q!r}")
    return levels


def targets_like(y, shape: tuple[int, ...]) -> np.ndarray:
    """Targets in the shape of the predictions; ``y`` may be one number for all."""
    values = np.asarray(checks.floats("y", y), float)
    if values.shape not in ((), shape):
        raise ValueError(f"y must have shape {shape}, like the predictions at X; got {values.shape}")
    if np.any(np.isnan(values)):
        raise ValueError("y has NaN; give a number for each row of X")
    return np.broadcast_to(values, shape)
