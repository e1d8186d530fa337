"""Means and scales that standardise the columns of a table."""

import numpy as np

#: A column varies by rounding alone where its range is at most this share of its largest absolute value.
_ROUNDING = 16 * np.finfo(np.float64).eps
#: Nor does a smaller range count: dividing the largest number of a table by it must stay finite.
_SMALLEST_RANGE = 1e-100


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
