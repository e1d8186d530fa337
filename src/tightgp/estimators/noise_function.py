"""Learn the log variance of noise as a function, from errors of predictions of left-out rows (maths 14.4)."""

from typing import NamedTuple

import numpy as np

from tightgp import inducing
from tightgp.data.dataset import Dataset
from tightgp.data.scaling import mean_and_scale
from tightgp.estimators import dense
from tightgp.estimators.dense import Hyperparameters
from tightgp.estimators.mixtures import ScaleMixture
from tightgp.estimators.noise import LOG_WEIGHTS, NODES, NoiseFunction, with_mean
from tightgp.estimators.settings import KERNELS
from tightgp.means import Constant
from tightgp.models import SGPR

_KERNEL = "matern52"
#: Rows that hyperparameters are learnt on, rows of the final function, and its inducing points.
_ROWS, _MOST_ROWS, _POINTS = 512, 10_000, 100
#: The log of a squared standard normal number has this mean and variance.
_LOG_MEAN, _LOG_VARIANCE = -1.2703628454614782, np.pi**2 / 2
_STEPS, _FISHER_STEPS = 30, 5
#: A squared error counts as at most so many times its expectation in one step, and as at least this share in logs.
_MOST, _LEAST = 9.0, 1e-4
#: The least that a squared error is expected to be, in units of standardised targets, so that it has a logarithm.
_LEAST_SQUARE = 1e-12
#: How many times as uncertain as its noise the function may be before a row says no more of the noise.
_MOST_RATIO = 30.0


class LogVariance(NamedTuple):
    """A Gaussian process of the log noise variance: its mean, hyperparameters, rows, and what they say of it.

    ``target`` (n,) with noise variances ``uncertainty`` (n,) stand for the squared errors.
    """

    level: float
    theta: Hyperparameters
    X: np.ndarray
    target: np.ndarray
    uncertainty: np.ndarray

    def at(self, X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (m,) at rows X (m, D)."""
        of_rows = self.X, self.target - self.level, self.uncertainty
        mean, var = dense.conditional(self.theta, _KERNEL, *of_rows, X)
        return self.level + mean, var


def learn(X: np.ndarray, square: np.ndarray, variance: np.ndarray) -> LogVariance:
    """Learn from squared errors (n,) of the predictions of left-out rows, whose function has ``variance`` (n,).

    Hyperparameters are learnt from the logarithms of the squares; the function by Fisher scoring, for which each square
    is a target with the noise variance ``2((v + exp g)/exp g)²``.
    """
    d, expected = X.shape[1], max(float(np.mean(square)), _LEAST_SQUARE)
    logs = np.log(np.maximum(square, _LEAST * expected)) - _LOG_MEAN
    level = float(np.mean(logs))
    lengths = mean_and_scale(X)[1] * max(1.0, np.sqrt(d) / 2)
    starts = [Hyperparameters(lengths * one, 0.5, _LOG_VARIANCE) for one in (1.0, 4.0)]
    targets, gain = (logs - level)[:, None], 1e-3 * len(X)
    runs = [dense.train(start, _KERNEL, X, targets, _STEPS, gain) for start in starts]
    best = max(runs, key=lambda run: run.evidence).best
    g = level + dense.conditional(best, _KERNEL, X, logs - level, np.full(len(X), best.noise), X)[0]
    target, uncertainty = g, np.ones(len(X))
    for _ in range(_FISHER_STEPS):
        target, uncertainty = pseudo_targets(g, square, variance)
        level = float(np.sum(target / uncertainty) / np.sum(1 / uncertainty))
        g = level + dense.conditional(best, _KERNEL, X, target - level, uncertainty, X)[0]
    return LogVariance(level, best, X, target, uncertainty)


def pseudo_targets(g: np.ndarray, square: np.ndarray, variance: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One step of Fisher scoring from g: what the squared errors say of the log variance, and how uncertain it is."""
    noise = np.exp(g)
    ratio = np.minimum((variance + noise) / noise, _MOST_RATIO)
    return g + np.minimum(square / (variance + noise) - 1, _MOST) * ratio, 2 * ratio**2


def cross_fitted(
    X: np.ndarray, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, factor: np.ndarray, seed: int
) -> np.ndarray:
    """Log densities (n,) of targets at rows whose noise is learnt from the other half of the rows.

    ``factor`` (n,) multiplies each row's noise.
    """
    order, density = np.random.default_rng(seed).permutation(len(y)), np.empty(len(y))
    inputs, square, spread = with_mean(X, mean), (y - mean) ** 2 / factor, variance / factor
    halves = np.array_split(order, 2)
    for mine, others in (halves, halves[::-1]):
        some = others[:_ROWS]
        g, g_var = learn(inputs[some], square[some], spread[some]).at(inputs[mine])
        noise = factor[mine, None] * np.exp(g[:, None] + np.sqrt(g_var)[:, None] * NODES)
        density[mine] = ScaleMixture(mean[mine], variance[mine, None] + noise, LOG_WEIGHTS).log_density(y[mine])
    return density


def noise_function(
    X: np.ndarray, y: np.ndarray, mean: np.ndarray, variance: np.ndarray, factor: np.ndarray, seed: int
) -> NoiseFunction:
    """The noise of all rows, from targets (n,) and the predictions of each by the others."""
    order = np.random.default_rng(seed).permutation(len(y))[:_MOST_ROWS]
    inputs, square = with_mean(X, mean)[order], ((y - mean) ** 2 / factor)[order]
    spread, first = (variance / factor)[order], slice(2 * _ROWS)
    learnt = learn(inputs[first], square[first], spread[first])
    g = learnt.at(inputs)[0]
    target, uncertainty = pseudo_targets(g, square, spread)
    distinct = np.unique(inputs, axis=0)
    Z = inducing.kmeans(distinct, min(_POINTS, len(distinct)), seed=seed)
    kernel = KERNELS[_KERNEL](variance=learnt.theta.variance, lengthscale=learnt.theta.lengthscale)
    model = SGPR(kernel, Z, None, "standard", mean=Constant(learnt.level))
    low, high = np.exp(0.5 * np.quantile(g, [0.05, 0.95]))
    return NoiseFunction(model.posterior(Dataset(inputs, target, uncertainty)).without_rows(), float(low), float(high))
