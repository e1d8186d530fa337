"""How good predictions are: errors, proper scores, coverage, calibration. NumPy in, NumPy out.

Means and shares are numbers; what is scored row by row comes back as (n,), so that it can be averaged or looked into.
"""

from typing import NamedTuple

import numpy as np
from scipy import special, stats

from tightgp import checks


def rmse(y, mean) -> float:
    """Root mean squared error, ``sqrt(Σ (y_i − m_i)² / n)``."""
    y, mean = _vectors(y=y, mean=mean)
    return float(np.sqrt(np.mean((y - mean) ** 2)))


def mean_absolute_error(y, mean) -> float:
    """``Σ |y_i − m_i| / n``."""
    y, mean = _vectors(y=y, mean=mean)
    return float(np.mean(np.abs(y - mean)))


def crps_gaussian(y, mean, sd) -> np.ndarray:
    """Continuous ranked probability score of ``N(m, s²)`` for each row, in the units of ``y``; smaller is better.

    ``CRPS = ∫ (F(t) − 1{t ≥ y})² dt = s [z (2Φ(z) − 1) + 2φ(z) − 1/√π]`` with ``z = (y − m)/s`` (Gneiting & Raftery
    2007). It is the absolute error where ``s`` is zero.
    """
    y, mean, sd = _vectors(y=y, mean=mean, sd=sd)
    checks.not_negative("sd", sd)
    z = (y - mean) / np.where(sd > 0, sd, 1.0)
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    score = sd * (z * (2 * special.ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi))
    return np.where(sd > 0, score, np.abs(y - mean))


def crps_from_draws(y, draws) -> np.ndarray:
    """The same score for each row from ``draws`` (n, S) of its predictive distribution, without bias.

    ``CRPS = E|T − y| − ½ E|T − T'|``; the second mean is over pairs of different draws, which sorted draws ``t_(k)``
    give as ``E|T − T'| = 2 Σ_k (2k − S − 1) t_(k) / (S (S − 1))``. Needs at least two draws.
    """
    (y,) = _vectors(y=y)
    draws = np.asarray(checks.matrix("draws", draws), float)
    count = draws.shape[1]
    if len(draws) != len(y):
        raise ValueError(f"draws has {len(draws)} row(s) but y has {len(y)}; each target needs its own draws")
    if count < 2:
        raise ValueError("draws needs at least two columns: the score compares draws with each other")
    weights = 2 * np.arange(1, count + 1) - count - 1
    pairs = 2 * np.sort(draws, axis=1) @ weights / (count * (count - 1))
    return np.mean(np.abs(draws - y[:, None]), axis=1) - pairs / 2


def crps_from_quantiles(y, quantiles) -> np.ndarray:
    """The same score for each row from its quantiles (n, K) at the levels ``α_k = (k − ½)/K``, k = 1, ..., K.

    ``CRPS = 2 ∫ (1{y < q(α)} − α)(q(α) − y) dα`` by the midpoint rule; 40 levels err by less than one in a thousand
    where rows come from about what was predicted.
    """
    (y,) = _vectors(y=y)
    q = np.asarray(checks.matrix("quantiles", quantiles), float)
    if len(q) != len(y):
        raise ValueError(f"quantiles has {len(q)} row(s) but y has {len(y)}; each target needs its own quantiles")
    above = q - y[:, None]
    return 2 * np.mean(((above > 0) - midpoints(q.shape[1])) * above, axis=1)


def midpoints(count: int) -> np.ndarray:
    """The levels ``(k − ½)/count`` of equally many equal parts of [0, 1]."""
    return (np.arange(checks.count("count", count)) + 0.5) / count


def coverage(y, low, high) -> float:
    """The share of rows whose interval holds the target: ``#{i: low_i ≤ y_i ≤ high_i} / n``."""
    y, low, high = _vectors(y=y, low=low, high=high)
    return float(np.mean((low <= y) & (y <= high)))


def randomised_pit(below, upto, seed: int = 0) -> np.ndarray:
    """``u_i = P(Y < y_i) + w_i P(Y = y_i)`` with uniform ``w_i``: uniform where the model is right, also for counts.

    ``below`` is P(Y < y_i), that is P(Y ≤ y_i − 1), and ``upto`` P(Y ≤ y_i).
    """
    below, upto = _vectors(below=below, upto=upto)
    if np.any(upto < below - 1e-9):
        raise ValueError("upto must not be smaller than below: it is P(Y ≤ y), and that P(Y < y)")
    share = np.random.default_rng(checks.seed("seed", seed)).uniform(size=len(below))
    return np.clip(below + share * np.maximum(upto - below, 0.0), 0.0, 1.0)


def calibration_curve(pit, levels=None) -> tuple[np.ndarray, np.ndarray]:
    """Nominal levels of central intervals, and the share of rows that they hold: ``#{i: |u_i − ½| ≤ level/2} / n``.

    ``pit`` holds ``u_i = P(Y ≤ y_i)``. Levels are 0.05, 0.10, ..., 0.95 unless given.
    """
    pit = _shares("pit", pit)
    levels = np.arange(1, 20) / 20 if levels is None else _shares("levels", levels)
    distance = np.sort(2 * np.abs(pit - 0.5))
    return levels, np.searchsorted(distance, levels + 1e-12, side="right") / len(pit)


def binomial_range(count: int, share: float, confidence: float = 0.99) -> tuple[float, float]:
    """Between which shares ``k/n`` chance keeps a count ``k ~ Binomial(n, share)``, with at least ``confidence``.

    The ends are the quantiles ``(1 ± confidence)/2`` of the binomial distribution, divided by ``n``.
    """
    checks.count("count", count)
    tail = (1 - checks.number("confidence", confidence)) / 2
    low, high = stats.binom.ppf([tail, 1 - tail], count, checks.number("share", share))
    return float(low) / count, float(high) / count


def brier(labels, probabilities) -> float:
    """Brier score; smaller is better.

    ``probabilities`` (n, C): ``Σ_i Σ_c (p_ic − 1{y_i = c})² / n``, between 0 and 2. Of two classes the second's
    probability may be given as (n,): ``Σ_i (p_i − y_i)² / n``, half of it. ``labels`` are class numbers from 0.
    """
    if np.ndim(probabilities) == 1:
        p = _shares("probabilities", probabilities)
        return float(np.mean((p - _labels(labels, len(p), 2)) ** 2))
    p = _probabilities(probabilities)
    hit = np.arange(p.shape[1]) == _labels(labels, *p.shape)[:, None]
    return float(np.mean(np.sum((p - hit) ** 2, axis=1)))


def log_loss(labels, probabilities) -> float:
    """Mean negative log probability of what came, ``−Σ_i log p_i,y_i / n``, in nats; probabilities are (n, C).

    A probability of zero counts as the smallest positive one that there is, so the loss stays finite.
    """
    p = _probabilities(probabilities)
    chosen = p[np.arange(len(p)), _labels(labels, *p.shape)]
    return float(-np.mean(np.log(np.maximum(chosen, np.finfo(float).tiny))))


class Reliability(NamedTuple):
    """Bins of stated probability that hold any row: its mean, how often it came true, and how many rows."""

    stated: np.ndarray
    observed: np.ndarray
    counts: np.ndarray


def reliability(stated, happened, bins: int = 10) -> Reliability:
    """What came of the probabilities stated, in equal ``bins`` of [0, 1].

    In bin b: ``Σ p_i / n_b`` against ``Σ 1{happened_i} / n_b``.
    """
    stated = _shares("stated", stated)
    happened = np.asarray(happened)
    if happened.shape != stated.shape:
        raise ValueError(f"happened must have shape {stated.shape}, like stated; got {happened.shape}")
    checks.count("bins", bins)
    number = np.minimum((stated * bins).astype(int), bins - 1)
    counts = np.bincount(number, minlength=bins)
    full = counts > 0
    sums = (np.bincount(number, weights, bins)[full] for weights in (stated, happened.astype(float)))
    means, shares = (total / counts[full] for total in sums)
    return Reliability(means, shares, counts[full])


def confusion(labels, predicted, num_classes: int) -> np.ndarray:
    """How often class ``j`` was predicted where ``i`` came: entry (i, j) of a (C, C) table of counts."""
    checks.count("num_classes", num_classes)
    labels = _labels(labels, len(np.atleast_1d(labels)), num_classes)
    predicted = _labels(predicted, len(labels), num_classes, "predicted")
    return np.bincount(labels * num_classes + predicted, minlength=num_classes**2).reshape(num_classes, num_classes)


def _vectors(**named) -> list[np.ndarray]:
    """Finite float arrays (n,) of the same, positive length."""
    out: list[np.ndarray] = []
    for name, value in named.items():
        array = np.asarray(checks.floats(name, value), float)
        checks.finite(name, array)
        first = next(iter(named))
        if array.ndim != 1 or not len(array):
            raise ValueError(f"{name} must have shape (n,) with n at least 1, got {array.shape}")
        if out and len(array) != len(out[0]):
            raise ValueError(f"{name} has {len(array)} row(s) but {first} has {len(out[0])}; both need the same")
        out.append(array)
    return out


def _shares(name: str, value) -> np.ndarray:
    (array,) = _vectors(**{name: value})
    if np.any((array < 0) | (array > 1)):
        raise ValueError(f"{name} must lie between 0 and 1, got {array.min():g} to {array.max():g}")
    return array


def _probabilities(value) -> np.ndarray:
    p = np.asarray(checks.matrix("probabilities", value), float)
    off = np.abs(p.sum(axis=1) - 1) > 1e-4
    if np.any((p < 0) | (p > 1)) or np.any(off):
        raise ValueError("probabilities must have rows of numbers from 0 to 1 that sum to 1")
    return p


def _labels(value, rows: int, classes: int, name: str = "labels") -> np.ndarray:
    array = np.asarray(value)
    if array.shape != (rows,) or array.dtype.kind not in "iub":
        raise ValueError(f"{name} must be class numbers of shape ({rows},), got {array.dtype} of shape {array.shape}")
    array = array.astype(np.int64)
    if rows and (array.min() < 0 or array.max() >= classes):
        raise ValueError(f"{name} must be from 0 to {classes - 1}, got {array.min()} to {array.max()}")
    return array
