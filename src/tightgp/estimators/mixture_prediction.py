"""Predictive distributions of targets whose transforms are mixtures of normals."""

from collections.abc import Callable

import numpy as np
from scipy.special import ndtr, roots_legendre

from tightgp.estimators.distributions import Prediction, as_levels, targets_like
from tightgp.estimators.mixtures import ScaleMixture, log_survival
from tightgp.estimators.target_transform import TargetTransform

#: Heavy tails of a transformed target may leave the target without a mean: mean and standard deviation are then those
#: of all but the outermost 0.1 %, which lie between these quantiles of a standard normal distribution.
_OUTERMOST = 3.29
_NODES, _WEIGHTS = roots_legendre(48)


class MixturePrediction(Prediction):
    """Targets whose transform is a `ScaleMixture`, cut off below that of the lowest target (maths 14.3).

    Mean and standard deviation of transformed targets leave out the outermost 0.1 % of the distribution.

    >>> from tightgp.estimators.mixture_prediction import MixturePrediction
    >>> from tightgp.estimators.mixtures import student_t
    >>> from tightgp.estimators.target_transform import TargetTransform, Warp
    >>> heavy = student_t(np.zeros(1), np.zeros(1), df=3.0, scale=1.0)
    >>> MixturePrediction(TargetTransform((Warp(),)), heavy, None).interval(0.95)
    (array([-3.18244631]), array([3.18244631]))
    """

    def __init__(self, transform: TargetTransform, mixture: ScaleMixture, draw: Callable | None):
        self._transform, self._mixture, self._draw = transform, mixture, draw
        self._least = float(transform.least[0])
        #: Log of the share of the distribution that is not cut off.
        self._log_above = np.zeros(len(mixture.mean))
        if self._least > -np.inf:
            self._log_above = log_survival(mixture, np.full(len(mixture.mean), self._least))
        if transform.is_identity:
            self.mean, self.sd = mixture.mean, mixture.sd
        else:
            self.mean, self.sd = self._moments()

    def take(self, rows) -> "MixturePrediction":
        draw = None if self._draw is None else (lambda *how: self._draw(*how)[:, rows])
        return MixturePrediction(self._transform, self._mixture.take(rows), draw)

    def draw(self, key, num_samples: int) -> np.ndarray:
        assert self._draw is not None
        z = np.asarray(self._draw(key, num_samples))
        if self._least > -np.inf and np.min(self._log_above, initial=0.0) < -1e-14:
            z = self._cut(self._mixture.survival(z.T)).T
        return self._transform.inverse(z)

    def quantile(self, q) -> np.ndarray:
        levels = as_levels(q)
        above = np.broadcast_to(1 - np.atleast_1d(levels), (len(self.mean), levels.size))
        return self._transform.inverse(self._cut(above)).reshape(self.mean.shape + levels.shape)

    def cdf(self, y) -> np.ndarray:
        y = targets_like(y, self.mean.shape)
        above = self._mixture.survival(self._transform.forward(y)[:, None])[:, 0]
        return np.where(self._is_possible(y), 1 - above / np.exp(self._log_above), 0.0)

    def log_density(self, y) -> np.ndarray:
        y = targets_like(y, self.mean.shape)
        possible = self._is_possible(y)
        inside = y if np.all(possible) else np.where(possible, y, self.quantile(0.5))
        density = self._mixture.log_density(self._transform.forward(inside)) - self._log_above
        return np.where(possible, density + self._transform.log_slope(inside), -np.inf)

    def _is_possible(self, y: np.ndarray) -> np.ndarray:
        """Whether a target may be as small as this."""
        lowest = self._transform.warps[0].lowest
        return (y > lowest) | ((y == lowest) & (self._least > -np.inf))

    def _cut(self, above: np.ndarray) -> np.ndarray:
        """Transformed targets (n, L) above which lies the probability ``above`` of what is not cut off."""
        upper = np.exp(self._log_above)[:, None] * above
        lower = np.where(self._log_above[:, None] < 0, 1 - upper, 1 - above)
        return np.maximum(self._mixture.quantile(lower, upper), self._least)

    def _moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation between the outermost quantiles, by the density on a grid that spreads out."""
        outside = ndtr(-_OUTERMOST)
        ends = self._cut(np.broadcast_to([1 - outside, outside], (len(self._log_above), 2)))
        middle, unit = self._mixture.mean[:, None], np.sqrt(np.min(self._mixture.variance, axis=1))[:, None]
        low, high = np.arcsinh((ends - middle) / unit).T
        spread = low[:, None] + 0.5 * (high - low)[:, None] * (1 + _NODES)
        z = middle + unit * np.sinh(spread)
        densities = np.stack([self._mixture.log_density(column) for column in z.T], axis=1)
        weights = _WEIGHTS * np.exp(densities) * np.cosh(spread)
        weights /= np.sum(weights, axis=1, keepdims=True)
        values = self._transform.inverse(z)
        mean = np.sum(weights * values, axis=1)
        return mean, np.sqrt(np.sum(weights * (values - mean[:, None]) ** 2, axis=1))
