"""Means and scales that standardise the columns of a table."""

import warnings

import numpy as np

from tightgp import checks

#: Targets that make the standard deviation this many times that of most of them are outliers.
_OUTLIER_RATIO = 300.0
#: A column varies by rounding alone where its range is at most this share of its largest absolute value.
_ROUNDING = 16 * np.finfo(np.float64).eps
#: Nor does a smaller range count: dividing the largest number of a table by it must stay finite.
_SMALLEST_RANGE = 1e-100


def check_targets(y: np.ndarray) -> None:
    """Refuse targets (n,) or (n, P), finite, that overflow, or whose differences are lost."""
    checks.squarable("y", y)
    extent = np.atleast_1d(np.max(y, axis=0) - np.min(y, axis=0))
    if np.any((extent > 0) & (extent <= _SMALLEST_RANGE)):
        raise ValueError(
            f"y varies by {np.min(extent[extent > 0]):.3g} only, which is lost when it is standardised; "
            f"multiply y by a constant, so that it varies by more than {_SMALLEST_RANGE:.0e}"
        )


def warn_of_outliers(y: np.ndarray, remedy: str) -> None:
    """Warn of targets (n,) or (n, P) so far from the others that they decide the scale; ``remedy`` may be empty."""
    for column in y.reshape(len(y), -1).T:
        middle = np.median(column)
        distance = np.abs(column - middle)
        spread = 1.4826 * np.median(distance)  # the standard deviation of a normal distribution without outliers
        if spread > 0 and np.std(column) > _OUTLIER_RATIO * spread:
            far = np.flatnonzero(distance > _OUTLIER_RATIO * spread)
            worst = far[np.argmax(distance[far])]
            warnings.warn(
                f"{len(far)} of {len(y)} targets lie far from the others, such as {column[worst]:.4g} in row {worst}; "
                f"the median is {middle:.4g}; Gaussian noise takes them at their word, and all other rows may look "
                f"constant beside them. Correct or remove them{', or ' if remedy else ''}{remedy}",
                UserWarning,
                stacklevel=4,
            )


def mean_and_scale(table: np.ndarray, common: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column; NaN cells are left out.

    A column that is constant up to rounding gets its smallest value as mean and 1 as scale, so that
    ``(table - mean) / scale`` is zero there.

    Args:
        table: columns (n, d), or one column (n,), each with at least one number.
        common: give all columns one scale, the root mean square over those that vary.

    Returns:
        Mean and scale, each (d,), or a number for one column.

    >>> mean, scale = mean_and_scale(np.array([[1.0, 5.0], [3.0, 5.0]]))
    >>> mean, scale
    (array([2., 5.]), array([1., 1.]))
    """
    low, high = np.nanmin(table, axis=0), np.nanmax(table, axis=0)
    mean, scale = np.nanmean(table, axis=0), np.nanstd(table, axis=0)
    varies = high - low > np.maximum(_SMALLEST_RANGE, _ROUNDING * np.maximum(np.abs(low), np.abs(high)))
    if common and np.any(varies):
        return np.where(varies, mean, low), np.full_like(scale, np.sqrt(np.mean(scale[varies] ** 2)))
    return np.where(varies, mean, low), np.where(varies, scale, 1.0)
