"""Scores of predictive distributions that scikit-learn does not have: CRPS, coverage and calibration of intervals."""

import numpy as np
from scipy import stats
from sklearn.metrics import mean_pinball_loss

from tightgp import checks

#: The levels of intervals whose coverage a calibration curve shows: 0.05, 0.10, ..., 0.95.
LEVELS = np.arange(1, 20) / 20


def crps_gaussian(y, mean, sd) -> float:
    """Mean continuous ranked probability score of ``N(m_i, s_i²)``, in the units of ``y``; smaller is better.

    ``CRPS = ∫ (F(t) − 1{t ≥ y})² dt = s [z (2Φ(z) − 1) + 2φ(z) − 1/√π]`` with ``z = (y − m)/s`` (Gneiting & Raftery
    2007). It is the absolute error where ``s`` is zero.

    >>> round(crps_gaussian([0.0], [0.0], [1.0]), 4)
    0.2337
    """
    y, mean, sd = _vectors(y=y, mean=mean, sd=sd)
    checks.not_negative("sd", sd)
    z = (y - mean) / np.where(sd > 0, sd, 1.0)
    score = sd * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    return float(np.mean(np.where(sd > 0, score, np.abs(y - mean))))


def crps_from_quantiles(y, quantiles) -> float:
    """Mean continuous ranked probability score from quantiles (n, K) at the levels `midpoints(K)`.

    ``CRPS = 2 ∫ (1{y < q(α)} − α)(q(α) − y) dα``, twice the pinball loss averaged over the levels. With 40 levels the
    error is below one in a thousand for a calibrated prediction.
    """
    levels, columns = midpoints(np.shape(quantiles)[1]), np.transpose(quantiles)
    losses = [mean_pinball_loss(y, column, alpha=level) for level, column in zip(levels, columns, strict=True)]
    return 2 * float(np.mean(losses))


def midpoints(count: int) -> np.ndarray:
    """The midpoints ``(k − ½)/count`` of equal parts of [0, 1].

    >>> midpoints(2)
    array([0.25, 0.75])
    """
    return (np.arange(checks.count("count", count)) + 0.5) / count


def coverage(y, low, high) -> float:
    """The share of rows whose interval contains the target: ``#{i: low_i ≤ y_i ≤ high_i} / n``.

    >>> coverage([1.0, 2.0], low=[0.0, 0.0], high=[1.5, 1.5])
    0.5
    """
    y, low, high = _vectors(y=y, low=low, high=high)
    return float(np.mean((low <= y) & (y <= high)))


def randomised_pit(below, upto, seed: int = 0) -> np.ndarray:
    """Randomised probability integral transform ``u_i = P(Y < y_i) + w_i P(Y = y_i)`` with uniform ``w_i``.

    It is uniform if the predictive distributions are right, for counts too. ``below`` is P(Y < y_i) and ``upto``
    P(Y ≤ y_i).
    """
    below, upto = _vectors(below=below, upto=upto)
    if np.any(upto < below - 1e-9):
        raise ValueError("upto must not be smaller than below: it is P(Y ≤ y), and below is P(Y < y)")
    w = np.random.default_rng(checks.seed("seed", seed)).uniform(size=len(below))
    return np.clip(below + w * np.maximum(upto - below, 0.0), 0.0, 1.0)


def coverage_curve(pit, levels=LEVELS) -> np.ndarray:
    """Coverage of the central intervals at ``levels``, from ``pit`` values ``u_i = P(Y ≤ y_i)``.

    The interval at a level contains row i if ``|u_i − ½| ≤ level/2``.

    >>> coverage_curve([0.5, 0.1, 0.9], levels=[0.5, 0.9])
    array([0.33333333, 1.        ])
    """
    (pit,) = _vectors(pit=pit)
    if np.any((pit < 0) | (pit > 1)):
        raise ValueError(f"pit must lie between 0 and 1, got {pit.min():g} to {pit.max():g}")
    return np.mean(2 * np.abs(pit[:, None] - 0.5) <= np.asarray(levels) + 1e-12, axis=0)


def binomial_range(count: int, share: float, confidence: float = 0.99) -> tuple[float, float]:
    """The range of the observed share ``k/n`` of a binomial ``k ~ B(n, share)``, with probability ``confidence``.

    >>> binomial_range(200, 0.95)
    (0.905, 0.985)
    """
    checks.count("count", count)
    low, high = stats.binom.interval(checks.number("confidence", confidence), count, checks.number("share", share))
    return float(low) / count, float(high) / count


def _vectors(**named) -> list[np.ndarray]:
    """Finite float vectors (n,) of one length, n at least 1."""
    vectors: list[np.ndarray] = []
    for name, value in named.items():
        vector = np.asarray(checks.floats(name, value), float)
        checks.finite(name, vector)
        if vector.ndim != 1 or not len(vector):
            raise ValueError(f"{name} must have shape (n,) with n at least 1, got {vector.shape}")
        if vectors and len(vector) != len(vectors[0]):
            raise ValueError(f"{name} has {len(vector)} row(s) but {next(iter(named))} has {len(vectors[0])}")
        vectors.append(vector)
    return vectors
