"""Whether whole numbers are counts: which distribution predicts left-out rows best (maths 13.5)."""

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.special import ndtr

from tightgp.estimators.encoding import Encoding
from tightgp.estimators.profile import ProfiledGP
from tightgp.estimators.target_transform import choose

#: Rows that the test looks at.
_ROWS = 512
#: The dispersions of negative binomials that are tried; the least is nearly Poisson.
_DISPERSIONS = np.geomspace(0.01, 20, 24)
#: The shares of zeros beyond those of the counts that are tried.
_SHARES = np.array([0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9])
#: Nats a row that counts may lose to Gaussian noise, whose predictions are no whole numbers, and the share of zeros
#: from which they are counts at all.
_MOST_LOSS, _LEAST_ZEROS = 0.05, 0.005
#: Nats a row that a likelihood with one more number must gain; more on few rows, where rates are badly known.
_LEAST_GAIN, _LEAST_GAIN_OF_ALL = 0.05, 8.0

#: How many numbers each likelihood has beside the rate.
_NUMBERS = {
    "poisson": 0,
    "zero_inflated_poisson": 1,
    "negative_binomial": 1,
    "zero_inflated_negative_binomial": 2,
}
_REASONS = {
    "poisson": "with zeros, and the variance of Poisson counts",
    "negative_binomial": "with zeros, and more variance than Poisson counts",
    "zero_inflated_poisson": "with more zeros than Poisson counts",
    "zero_inflated_negative_binomial": "with more zeros and variance than Poisson counts",
}


class CountChoice(NamedTuple):
    """The mean log probability of left-out rows under each distribution, the best of counts, that of all, and why."""

    scores: dict[str, float]
    counts: str
    best: str
    reason: str


def compare_counts(X: Any, y: np.ndarray, seed: int = 0) -> CountChoice:
    """Test whether whole numbers ``y`` (n,) are Poisson, overdispersed or zero-inflated counts, or have Gaussian noise.

    A GP predicts each of a few hundred rows from the others. Its mean is that of the counts; Gaussian noise, after the
    best transform of the targets, has the probability of the interval of length one around each whole number.

    >>> from tightgp.estimators.count_choice import compare_counts
    >>> compare_counts(X, np.round(10 + y)).best
    'gaussian'
    """
    chosen = np.sort(np.random.default_rng(seed).choice(len(y), min(len(y), _ROWS), replace=False))
    X, y = (X.iloc[chosen] if hasattr(X, "iloc") else X[chosen]), np.asarray(y, float)[chosen]
    if np.ptp(y) == 0:
        return CountChoice({}, "poisson", "gaussian", "which are all the same")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        features = Encoding.fit_transform(X)[1]
    gp = ProfiledGP.of(features)
    rates = _rates(gp, y)
    scores = {"gaussian": _gaussian(gp, features, y, seed), **_of_counts(y, rates)}
    counts, price = "poisson", _LEAST_GAIN + _LEAST_GAIN_OF_ALL / len(y)
    for name in ("zero_inflated_poisson", "negative_binomial", "zero_inflated_negative_binomial"):
        # Each must gain on what is simpler; of the two with one more number the better one is taken.
        numbers = _NUMBERS[name] - _NUMBERS[counts]
        if scores[name] - scores[counts] > max(numbers, 0) * price:
            counts = name
    if np.sum(y == 0) < max(2, _LEAST_ZEROS * len(y)):
        return CountChoice(scores, counts, "gaussian", "but hardly a zero")
    if scores[counts] < scores["gaussian"] - _MOST_LOSS:
        return CountChoice(scores, counts, "gaussian", "which Gaussian noise predicts better than counts do")
    return CountChoice(scores, counts, counts, _REASONS[counts])


def _rates(gp: ProfiledGP, y: np.ndarray) -> np.ndarray:
    """The mean count of each row, given all others: by a GP of the counts or of their roots, whichever is better."""
    least = 0.1 * (y.mean() + 0.5 / len(y))
    plain, root = gp.left_out(y), gp.left_out(np.sqrt(y + 0.375))
    # The variance of a root is 1/4 under Poisson, and the rest is that of the rate's root.
    rooted = root[0] ** 2 + np.maximum(root[1] - 0.25, 0)
    found = [np.maximum(rates * y.sum() / max(rates.sum(), 1e-9), least) for rates in (np.maximum(plain[0], 0), rooted)]
    return max(found, key=lambda rates: np.mean(stats.poisson.logpmf(y, rates)))


def _of_counts(y: np.ndarray, rates: np.ndarray) -> dict[str, float]:
    """The mean log probability of counts with these means, under the best numbers of each distribution."""
    dispersed = [float(np.mean(_negative_binomial(y, rates, d))) for d in _DISPERSIONS]
    inflated, both = [], []
    for share in _SHARES:
        more = rates / (1 - share)
        inflated.append(_inflated(y, share, stats.poisson.logpmf(y, more)))
        both += [_inflated(y, share, _negative_binomial(y, more, d)) for d in _DISPERSIONS[::3]]
    return {
        "poisson": float(np.mean(stats.poisson.logpmf(y, rates))),
        "negative_binomial": max(dispersed),
        "zero_inflated_poisson": max(inflated),
        "zero_inflated_negative_binomial": max(both),
    }


def _inflated(y: np.ndarray, share: float, log_probability: np.ndarray) -> float:
    """The mean log probability where a share of the rows is zero in any case."""
    others = np.log1p(-share) + log_probability
    return float(np.mean(np.where(y == 0, np.logaddexp(np.log(share), others), others)))


def _negative_binomial(y: np.ndarray, rates: np.ndarray, dispersion: float) -> np.ndarray:
    return stats.nbinom.logpmf(y, 1 / dispersion, 1 / (1 + dispersion * rates))


def _gaussian(gp: ProfiledGP, X: np.ndarray, y: np.ndarray, seed: int) -> float:
    """The mean log probability of each whole number under Gaussian noise."""
    transform = choose("auto", X, y, seed)
    mean, variance = gp.left_out(transform.forward(y))
    sd = np.sqrt(variance)
    above, below = (ndtr((transform.forward(y + half) - mean) / sd) for half in (0.5, -0.5))
    below = np.where(y - 0.5 < transform.warps[0].lowest, 0.0, below)
    return float(np.mean(np.log(np.maximum(above - below, 1e-12))))
