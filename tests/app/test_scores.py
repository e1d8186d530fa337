import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from tightgp.app import scores

SETTINGS = st.tuples(st.floats(-5, 5), st.floats(-3, 3), st.floats(0.05, 4))


def crps_by_integration(y, cdf, low, high):
    below, _ = integrate.quad(lambda t: cdf(t) ** 2, low, y, limit=200)
    above, _ = integrate.quad(lambda t: (cdf(t) - 1) ** 2, y, high, limit=200)
    return below + above


@given(SETTINGS)
def test_gaussian_crps_is_the_integral(setting):
    y, mean, sd = setting
    wanted = crps_by_integration(
        y, lambda t: stats.norm.cdf(t, mean, sd), min(y, mean) - 12 * sd, max(y, mean) + 12 * sd
    )
    assert scores.crps_gaussian([y], [mean], [sd]) == pytest.approx(wanted, rel=1e-6, abs=1e-9)


def test_gaussian_crps_with_zero_sd_is_the_absolute_error():
    assert scores.crps_gaussian([1.0, -2.0], [0.5, 1.0], [0.0, 0.0]) == pytest.approx((0.5 + 3.0) / 2)


def test_crps_of_quantiles_approaches_the_integral(rng):
    mean, sd = rng.normal(size=2000), rng.uniform(0.5, 2.0, 2000)
    y = mean + sd * rng.normal(size=2000)
    quantiles = mean[:, None] + sd[:, None] * stats.norm.ppf(scores.midpoints(40))
    assert scores.crps_from_quantiles(y, quantiles) == pytest.approx(scores.crps_gaussian(y, mean, sd), rel=1e-3)
    one = scores.crps_from_quantiles(y[:1], quantiles[:1])
    assert one == pytest.approx(scores.crps_gaussian(y[:1], mean[:1], sd[:1]), abs=0.05)


def test_crps_of_quantiles_of_counts():
    y, counts = np.arange(9), np.arange(100)
    quantiles = stats.poisson.ppf(scores.midpoints(400), 3.3)[None]
    found = [scores.crps_from_quantiles([count], quantiles) for count in y]
    wanted = np.sum((stats.poisson.cdf(counts, 3.3) - (counts >= y[:, None])) ** 2, axis=1)
    np.testing.assert_allclose(found, wanted, atol=0.01)


def test_coverage_includes_the_ends_of_intervals():
    assert scores.coverage([0.0, 1.0, 2.0, 3.0], [0.0] * 4, [1.0, 1.0, 1.0, 2.9]) == 0.5


def test_coverage_curve_against_intervals_of_quantiles(rng):
    y = rng.normal(size=500)
    observed = scores.coverage_curve(stats.norm.cdf(y, 0, 1.5))
    for level, share in zip(scores.LEVELS, observed, strict=True):
        z = stats.norm.ppf((1 + level) / 2) * 1.5
        assert share == pytest.approx(np.mean(np.abs(y) <= z))
    np.testing.assert_allclose(scores.LEVELS, np.linspace(0.05, 0.95, 19))
    np.testing.assert_allclose(scores.coverage_curve([0.5, 0.05, 0.9], [0.5, 0.8, 1.0]), [1 / 3, 2 / 3, 1.0])


def test_randomised_pit_of_right_predictions_is_uniform():
    y = np.random.default_rng(1).poisson(1.3, 4000)
    pit = scores.randomised_pit(stats.poisson.cdf(y - 1, 1.3), stats.poisson.cdf(y, 1.3), seed=2)
    assert stats.kstest(pit, "uniform").pvalue > 0.01
    assert stats.kstest(stats.poisson.cdf(y, 1.3), "uniform").pvalue < 1e-6, "counts need the randomisation"


@given(st.integers(1, 300), st.floats(0.01, 0.99))
def test_binomial_range_has_its_probability(count, share):
    low, high = scores.binomial_range(count, share, 0.9)
    counts = np.arange(count + 1)
    inside = stats.binom.pmf(counts, count, share)[(counts >= low * count - 1e-9) & (counts <= high * count + 1e-9)]
    assert inside.sum() >= 0.9 - 1e-9
    inner = stats.binom.pmf(counts, count, share)[(counts > low * count + 1e-9) & (counts < high * count - 1e-9)]
    assert inner.sum() < 0.9 + 1e-9, "the range is no wider than necessary"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: scores.coverage([1.0, 2.0], [1.0], [2.0, 3.0]), "low has 1 row"),
        (lambda: scores.coverage([], [], []), "at least 1"),
        (lambda: scores.coverage([[1.0]], [[1.0]], [[1.0]]), r"y must have shape \(n,\)"),
        (lambda: scores.crps_gaussian([np.nan], [1.0], [1.0]), "y has NaN"),
        (lambda: scores.crps_gaussian([0.0], [0.0], [-1.0]), "sd must not be negative"),
        (lambda: scores.crps_from_quantiles([0.0, 1.0], [[1.0, 2.0]]), "inconsistent numbers of samples"),
        (lambda: scores.coverage_curve([1.2]), "pit must lie between 0 and 1"),
        (lambda: scores.randomised_pit([0.5], [0.4]), "upto must not be smaller"),
        (lambda: scores.binomial_range(0, 0.5), "count must be"),
        (lambda: scores.midpoints(0), "count must be"),
    ],
)
def test_wrong_arguments_are_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
