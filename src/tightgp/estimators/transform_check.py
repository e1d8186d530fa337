"""Whether a transform of the targets predicts left-out rows better than none, from thousands of rows (maths 13.2)."""

from dataclasses import replace

import numpy as np

from tightgp import distributed
from tightgp.data.neighbours import NeighbourSearch
from tightgp.data.scaling import mean_and_scale
from tightgp.estimators import dense
from tightgp.estimators.dense import Hyperparameters
from tightgp.estimators.mixtures import ScaleMixture, student_t
from tightgp.estimators.noise_function import cross_fitted
from tightgp.estimators.noise_training import learn_student_t
from tightgp.estimators.settings import DEFAULT_KERNEL
from tightgp.estimators.target_transform import TargetTransform, Warp

#: Rows that hyperparameters are learnt on, rows that are predicted, and rows from which; neighbours of each prediction.
_TRAINED, _PREDICTED, _ROWS, _NEIGHBOURS = 400, 1000, 20_000, 64
_STEPS = 20
#: Rows that are predicted at a time.
_AT_A_TIME = 64


def confirmed(transform: TargetTransform, X: np.ndarray, y: np.ndarray, noise: str, seed: int) -> TargetTransform:
    """The transform, without that of columns where left-out rows have a higher density as they are.

    A GP learnt from some of the rows predicts a thousand of them, each from its nearest others among up to 20 000.
    ``noise`` is what is to be fitted: "auto" compares under the best of all kinds of noise, because targets that look
    skewed or heavy-tailed under one Gaussian need not be so under others.

    Args:
        transform: to be confirmed.
        X: features (n, D), of this process.
        y: targets (n,) or (n, P).
        noise: one of `tightgp.estimators.noise.NAMES`.
        seed: draws the rows.
    """
    if transform.is_identity:
        return transform
    all_y = distributed.gather(y)
    order = np.random.default_rng(seed).permutation(len(all_y))[:_ROWS]
    X, all_y = distributed.rows_at(X, order), all_y[order]
    columns = all_y.T if all_y.ndim == 2 else [all_y]
    warps = [
        warp if warp.name == "none" or _density(warp, X, column, noise, seed) > _density(Warp(), X, column, noise, seed)
        else Warp()
        for warp, column in zip(transform.warps, columns, strict=True)
    ]  # fmt: skip
    return replace(transform, warps=tuple(warps))


def _density(warp: Warp, X: np.ndarray, y: np.ndarray, noise: str, seed: int) -> float:
    """The mean log density of left-out targets, in their own units."""
    z = warp.forward(y)
    center, scale = mean_and_scale(z)
    z, d = (z - center) / scale, X.shape[1]
    start = Hyperparameters(np.full(d, max(1.0, 0.5 * np.sqrt(d))), 0.8, 0.2)
    some = X[:_TRAINED], z[:_TRAINED, None]
    theta = dense.train(start, DEFAULT_KERNEL, *some, _STEPS, 1e-3 * _TRAINED).best
    rows = np.arange(min(len(z), _PREDICTED))
    mean, variance = from_neighbours(theta, DEFAULT_KERNEL, X, z, rows, _NEIGHBOURS)
    own, ones, z = theta.noise, np.ones(len(rows)), z[rows]
    found = []
    if noise in ("auto", "gaussian"):
        found.append(ScaleMixture(mean, (variance + own)[:, None], np.zeros(1)).log_density(z))
    if noise in ("auto", "student-t"):
        heavy = learn_student_t(z, mean, variance, ones)
        found.append(student_t(mean, variance, heavy.df, heavy.scale).log_density(z))
    if noise in ("auto", "heteroscedastic"):
        found.append(cross_fitted(X[rows], z, mean, variance, ones, seed))
    best = max(float(np.mean(one)) for one in found)
    return best - float(np.log(scale)) + float(np.mean(warp.log_slope(y[rows])))


def from_neighbours(
    theta: Hyperparameters, kernel: str, X: np.ndarray, z: np.ndarray, rows: np.ndarray, count: int
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (q,) of the function at some rows, each given its ``count`` nearest others."""
    count = min(count, len(X) - 1)
    near = NeighbourSearch.of(X, theta.lengthscale).nearest(X[rows], count + 1)
    order = np.argsort(near == rows[:, None], axis=1, kind="stable")
    near = np.take_along_axis(near, order, axis=1)[:, :count]
    correlation, scaled = dense.CORRELATIONS[kernel], X / theta.lengthscale
    mean, variance = np.empty(len(rows)), np.empty(len(rows))
    for start in range(0, len(rows), _AT_A_TIME):
        part = slice(start, start + _AT_A_TIME)
        given = scaled[near[part]] - scaled[rows[part], None]
        squares = np.sum(given * given, axis=2)
        between = squares[:, :, None] + squares[:, None] - 2 * given @ np.swapaxes(given, 1, 2)
        K = theta.variance * correlation(np.maximum(between, 0.0), theta.alpha).value + theta.noise * np.eye(count)
        cross = theta.variance * correlation(squares, theta.alpha).value
        weights = np.linalg.solve(K, cross[..., None])[..., 0]
        mean[part] = np.sum(weights * z[near[part]], axis=1)
        variance[part] = theta.variance - np.sum(weights * cross, axis=1)
    return mean, np.maximum(variance, 0.0)
