"""Means and scales of columns."""

import numpy as np
import pytest

from tightgp.data.scaling import check_targets, mean_and_scale, warn_of_outliers


def test_missing_cells_are_left_out(rng):
    table = rng.normal(3, 5, size=(40, 3))
    table[rng.random(table.shape) < 0.2] = np.nan
    mean, scale = mean_and_scale(table)
    np.testing.assert_allclose(mean, np.nanmean(table, axis=0))
    np.testing.assert_allclose(scale, np.nanstd(table, axis=0))
    one_mean, one_scale = mean_and_scale(table[:, 1])
    np.testing.assert_allclose([one_mean, one_scale], [mean[1], scale[1]])


@pytest.mark.parametrize("column", [[0.1] * 7, [0.3, 0.1 + 0.2] * 3, [1e16, 1e16 + 2], [5e-324, 0.0], [-0.0, 0.0]])
def test_column_that_is_constant_up_to_rounding_has_scale_one(column):
    mean, scale = mean_and_scale(np.array(column))
    assert (mean, scale) == (min(column), 1.0)


@pytest.mark.parametrize("column", [[1e16, 1e16 + 200], [1e-90, 3e-90], [1e99, -1e99], [0.0] * 10**5 + [1.0]])
def test_column_that_varies_is_scaled(column):
    mean, scale = mean_and_scale(np.array(column))
    standardised = (np.array(column) - mean) / scale
    np.testing.assert_allclose([standardised.mean(), standardised.std()], [0, 1], atol=1e-9)


def test_common_scale_is_that_of_the_columns_that_vary(rng):
    table = np.column_stack([rng.normal(size=50), 10 * rng.normal(size=50), np.full(50, 7.0)])
    mean, scale = mean_and_scale(table, common=True)
    np.testing.assert_allclose(scale, np.sqrt(np.mean(table[:, :2].var(axis=0))))
    assert mean[2] == 7
    assert mean_and_scale(table[:, 2:], common=True)[1] == 1


def test_targets_that_cannot_be_squared_or_standardised_are_refused():
    for wrong, message in (
        (np.array([1.0, 1e154]), "values up to 1e[+]154, whose squares overflow float64"),
        (np.array([0.0, 1e-310, 0.0]), "varies by 1e-310 only"),
        (np.array([[1.0, 0.0], [2.0, 1e-200]]), "varies by 1e-200 only"),
    ):
        with pytest.raises(ValueError, match=message):
            check_targets(wrong)
    for fine in (np.array([1e100, -1e100]), np.array([0.0, 1e-90]), np.array([3.0, 3.0])):
        check_targets(fine)


def test_an_outlier_that_flattens_everything_else_is_said(rng):
    y, remedy = rng.normal(size=200), "fit another"
    warn_of_outliers(y, remedy)
    warn_of_outliers(np.exp(3 * y), remedy)  # heavy tails are no outliers
    warn_of_outliers(np.where(rng.random(200) < 0.8, 0.0, 1e6 * y), remedy)  # nor is a majority of equal values a scale
    y[17] = 1e9
    with pytest.warns(UserWarning, match=r"1 of 200 targets lie far .* 1e\+09 in row 17.*or fit another"):
        warn_of_outliers(y, remedy)
