"""Normal distributions with the same mean and several variances: predictions under noise that is not one Gaussian."""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtr, ndtri, softmax

#: Components of less weight than this change no probability that float64 could show.
_LEAST_WEIGHT = 1e-17
#: Numbers that are computed at a time.
_AT_A_TIME = 1 << 21
#: Steps of Newton's method, safeguarded by bisection, for a quantile, and the relative change that ends them.
_STEPS, _CLOSE = 60, 1e-12


@dataclass(frozen=True)
class ScaleMixture:
    """``Σ_k w_k N(m, v_k)`` at each of n rows (maths 14.1).

    Attributes:
        mean: m (n,).
        variance: v (n, K).
        log_weight: log w (K,), or (n, K).

    >>> from tightgp.estimators.mixtures import ScaleMixture
    >>> one = ScaleMixture(np.zeros(1), np.array([[1.0, 9.0]]), np.log([0.5, 0.5]))
    >>> one.cdf(np.zeros((1, 1)))
    array([[0.5]])
    """

    mean: np.ndarray
    variance: np.ndarray
    log_weight: np.ndarray

    def take(self, rows) -> "ScaleMixture":
        """The distributions of some rows."""
        weights = self.log_weight if self.log_weight.ndim == 1 else self.log_weight[rows]
        return ScaleMixture(self.mean[rows], self.variance[rows], weights)

    @property
    def sd(self) -> np.ndarray:
        """Standard deviations (n,)."""
        return np.sqrt(np.sum(np.exp(self.log_weight) * self.variance, axis=1))

    def log_density(self, z: np.ndarray) -> np.ndarray:
        """Log density at ``z`` (n,)."""
        parts = [self._log_density(z[rows], self.take(rows)) for rows in self._parts()]
        return np.concatenate(parts) if parts else np.zeros(0)

    def cdf(self, z: np.ndarray) -> np.ndarray:
        """``P(Z ≤ z)`` at each row of ``z`` (n, L)."""
        return self._weighted(lambda x, sd: ndtr(x / sd), z - self.mean[:, None])

    def survival(self, z: np.ndarray) -> np.ndarray:
        """``P(Z > z)`` at each row of ``z`` (n, L)."""
        return self._weighted(lambda x, sd: ndtr(-x / sd), z - self.mean[:, None])

    def quantile(self, lower: np.ndarray, upper: np.ndarray) -> np.ndarray:
        """The values (n, L) below which lies the probability ``lower`` (n, L), and above which lies ``upper``.

        They add up to one; both are given, because the smaller one has more digits.
        """
        tail = np.maximum(np.minimum(lower, upper), np.finfo(float).tiny)
        distance = np.concatenate([self.take(rows)._distance(tail[rows]) for rows in self._parts(tail.shape[1])])
        return self.mean[:, None] + np.where(upper < lower, distance, -distance)

    def responsibilities(self, z: np.ndarray) -> np.ndarray:
        """The probability (n, K) of each component, given ``z`` (n,)."""
        square = (z - self.mean)[:, None] ** 2
        logs = self.log_weight - 0.5 * (np.log(self.variance) + square / self.variance)
        return softmax(logs, axis=1)

    def _distance(self, tail: np.ndarray) -> np.ndarray:
        """How far from the mean the upper tail has this probability (n, L), by Newton's method in logarithms."""
        sd, weight = self._main()
        z = -ndtri(tail)
        low, high = (np.log(np.maximum(z * end, 1e-300)) for end in (sd.min(axis=1)[:, None], sd.max(axis=1)[:, None]))
        x = np.clip(
            np.log(np.maximum(z, 1e-300)) + np.log(np.sqrt(np.sum(weight * sd * sd, axis=1)))[:, None], low, high
        )
        for _ in range(_STEPS):
            scaled = np.exp(x)[..., None] / sd[:, None]
            above = np.sum(weight[:, None] * ndtr(-scaled), axis=2)
            slope = np.sum(weight[:, None] * scaled * np.exp(-0.5 * scaled**2), axis=2) / np.sqrt(2 * np.pi)
            error = np.log(np.maximum(above, 1e-320)) - np.log(tail)
            low, high = np.where(error > 0, x, low), np.where(error > 0, high, x)
            with np.errstate(divide="ignore", invalid="ignore"):
                new = x + error * above / slope
            new = np.where((new >= low) & (new <= high), new, 0.5 * (low + high))
            change, x = np.max(np.abs(new - x), initial=0.0), new
            if change < _CLOSE:
                break
        return np.where(z > 0, np.exp(x), 0.0)

    def _main(self) -> tuple[np.ndarray, np.ndarray]:
        """Standard deviations and weights (n, k) of the components that matter."""
        weight = np.broadcast_to(np.exp(self.log_weight), self.variance.shape)
        used = np.any(weight > _LEAST_WEIGHT, axis=0) if len(weight) else slice(None)
        return np.sqrt(self.variance[:, used]), weight[:, used]

    def _weighted(self, of_component, x: np.ndarray) -> np.ndarray:
        found = []
        for rows in self._parts(x.shape[1]):
            sd, weight = self.take(rows)._main()
            found.append(np.sum(weight[:, None] * of_component(x[rows][..., None], sd[:, None]), axis=2))
        return np.concatenate(found) if found else np.zeros(x.shape)

    @staticmethod
    def _log_density(z: np.ndarray, of: "ScaleMixture") -> np.ndarray:
        square = (z - of.mean)[:, None] ** 2
        return logsumexp(of.log_weight - 0.5 * (np.log(2 * np.pi * of.variance) + square / of.variance), axis=1)

    def _parts(self, width: int = 1) -> list[slice]:
        step = max(1, _AT_A_TIME // (width * self.variance.shape[1]))
        return [slice(start, start + step) for start in range(0, len(self.mean), step)]


def student_t(mean: np.ndarray, variance: np.ndarray, df: float, scale: np.ndarray | float) -> ScaleMixture:
    """A normal variable plus ``scale``, a number or (n,), times one with Student's distribution (maths 14.2).

    Noise is Gaussian with the variance ``scale²/λ`` and ``λ ~ Gamma(df/2, df/2)``. Log λ is summed over an even grid,
    down to where it makes noise of 10¹¹ scales or more, so that the density of an outlier and the variance are right.

    >>> from scipy.stats import t
    >>> from tightgp.estimators.mixtures import student_t
    >>> one = student_t(np.zeros(1), np.full(1, 1e-12), df=3.0, scale=0.5)
    >>> np.allclose(one.log_density(np.array([40.0])), t(3.0, scale=0.5).logpdf(40.0))
    True
    """
    log_rate, log_weight = rates(df)
    noise = np.broadcast_to(np.square(scale), mean.shape)[:, None] * np.exp(-log_rate)
    return ScaleMixture(mean, variance[:, None] + noise, log_weight)


def rates(df: float) -> tuple[np.ndarray, np.ndarray]:
    """A grid of log λ and the logarithms of its weights under ``Gamma(df/2, df/2)``, which add up to one."""
    half = 0.5 * df
    step = min(0.4, 0.7 / np.sqrt(half + 0.5))
    # The variance is a sum of exp((df/2 − 1) log λ), which falls slowly where there is hardly a variance.
    lowest = min(-50.0, -10 / (half - 1)) if half > 1 else -50.0
    log_rate = np.arange(lowest, np.log1p(8 * np.sqrt(2 / df) + 72 / df), step)
    log_weight = half * (log_rate - np.exp(log_rate))
    return log_rate, log_weight - logsumexp(log_weight)


def log_survival(mixture: ScaleMixture, z: np.ndarray) -> np.ndarray:
    """``log P(Z > z)`` (n,) for one number or a number a row, which may be -inf."""
    scaled = (mixture.mean - z)[:, None] / np.sqrt(mixture.variance)
    return np.minimum(logsumexp(mixture.log_weight + log_ndtr(scaled), axis=1), 0.0)
