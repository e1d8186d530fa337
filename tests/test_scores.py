import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate, stats

from tightgp import scores

SETTINGS = st.tuples(st.floats(-5, 5), st.floats(-3, 3), st.floats(0.05, 4))


def crps_by_integration(y, cdf, low, high):
    below, _ = integrate.quad(lambda t: cdf(t) ** 2, low, y, limit=200)
    above, _ = integrate.quad(lambda t: (cdf(t) - 1) ** 2, y, high, limit=200)
    return below + above


def test_errors_of_known_residuals():
    y, mean = np.array([1.0, 2.0, 3.0]), np.array([1.0, 0.0, 6.0])
    assert scores.rmse(y, mean) == pytest.approx(np.sqrt(13 / 3))
    assert scores.mean_absolute_error(y, mean) == pytest.approx(5 / 3)


@given(SETTINGS)
def test_gaussian_crps_is_the_integral(setting):
    y, mean, sd = setting
    wanted = crps_by_integration(
        y, lambda t: stats.norm.cdf(t, mean, sd), min(y, mean) - 12 * sd, max(y, mean) + 12 * sd
    )
    assert scores.crps_gaussian([y], [mean], [sd])[0] == pytest.approx(wanted, rel=1e-6, abs=1e-9)


def test_gaussian_crps_without_spread_is_the_absolute_error():
    np.testing.assert_allclose(scores.crps_gaussian([1.0, -2.0], [0.5, 1.0], [0.0, 0.0]), [0.5, 3.0])


def test_crps_of_draws_is_the_mean_over_pairs(rng):
    y, draws = rng.normal(size=4), rng.normal(size=(4, 7))
    for i in range(4):
        pairs = [abs(a - b) for k, a in enumerate(draws[i]) for j, b in enumerate(draws[i]) if j != k]
        wanted = np.mean(np.abs(draws[i] - y[i])) - np.mean(pairs) / 2
        assert scores.crps_from_draws(y, draws)[i] == pytest.approx(wanted)


def test_crps_of_draws_has_no_bias(rng):
    """Averaged over many sets of few draws it is the closed form, which a biased estimate would miss by far."""
    repeats, sd = 40_000, 2.0
    found = scores.crps_from_draws(np.full(repeats, 1.0), sd * rng.normal(size=(repeats, 3)))
    wanted = scores.crps_gaussian([1.0], [0.0], [sd])[0]
    assert abs(found.mean() - wanted) < 5 * found.std() / np.sqrt(repeats)
    assert 5 * found.std() / np.sqrt(repeats) < 0.1 * wanted


def test_crps_of_quantiles_approaches_the_integral(rng):
    """The mean over rows that come from what was predicted errs by less than one in a thousand."""
    mean, sd = rng.normal(size=2000), rng.uniform(0.5, 2.0, 2000)
    y = mean + sd * rng.normal(size=2000)
    quantiles = mean[:, None] + sd[:, None] * stats.norm.ppf(scores.midpoints(40))
    found, wanted = scores.crps_from_quantiles(y, quantiles), scores.crps_gaussian(y, mean, sd)
    assert found.mean() == pytest.approx(wanted.mean(), rel=1e-3)
    np.testing.assert_allclose(found, wanted, atol=0.05)


def test_crps_of_quantiles_of_counts():
    y, counts = np.arange(9), np.arange(100)
    found = scores.crps_from_quantiles(y, np.broadcast_to(stats.poisson.ppf(scores.midpoints(400), 3.3), (9, 400)))
    wanted = np.sum((stats.poisson.cdf(counts, 3.3) - (counts >= y[:, None])) ** 2, axis=1)
    np.testing.assert_allclose(found, wanted, atol=0.01)


def test_coverage_counts_ends_as_inside():
    assert scores.coverage([0.0, 1.0, 2.0, 3.0], [0.0] * 4, [1.0, 1.0, 1.0, 2.9]) == 0.5


def test_calibration_curve_against_intervals_of_quantiles(rng):
    y = rng.normal(size=500)
    levels, observed = scores.calibration_curve(stats.norm.cdf(y, 0, 1.5))
    for level, share in zip(levels, observed, strict=True):
        z = stats.norm.ppf((1 + level) / 2) * 1.5
        assert share == pytest.approx(np.mean(np.abs(y) <= z))
    np.testing.assert_allclose(levels, np.linspace(0.05, 0.95, 19))
    np.testing.assert_allclose(scores.calibration_curve([0.5, 0.05, 0.9], [0.5, 0.8, 1.0])[1], [1 / 3, 2 / 3, 1.0])


def test_randomised_pit_of_the_right_counts_is_uniform():
    y = np.random.default_rng(1).poisson(1.3, 4000)
    pit = scores.randomised_pit(stats.poisson.cdf(y - 1, 1.3), stats.poisson.cdf(y, 1.3), seed=2)
    assert stats.kstest(pit, "uniform").pvalue > 0.01
    assert stats.kstest(stats.poisson.cdf(y, 1.3), "uniform").pvalue < 1e-6, "counts need the randomisation"


@given(st.integers(1, 300), st.floats(0.01, 0.99))
def test_binomial_range_holds_what_it_says(count, share):
    low, high = scores.binomial_range(count, share, 0.9)
    counts = np.arange(count + 1)
    inside = stats.binom.pmf(counts, count, share)[(counts >= low * count - 1e-9) & (counts <= high * count + 1e-9)]
    assert inside.sum() >= 0.9 - 1e-9
    inner = stats.binom.pmf(counts, count, share)[(counts > low * count + 1e-9) & (counts < high * count - 1e-9)]
    assert inner.sum() < 0.9 + 1e-9, "no end could be left out on both sides"


def test_brier_of_known_probabilities():
    p = np.array([[0.7, 0.2, 0.1], [0.0, 0.0, 1.0]])
    assert scores.brier([0, 1], p) == pytest.approx((0.09 + 0.04 + 0.01 + 1 + 1) / 2)
    assert scores.brier([0, 1], [0.2, 0.9]) == pytest.approx((0.04 + 0.01) / 2)


def test_brier_of_two_classes_is_half_of_the_sum(rng):
    p, labels = rng.uniform(size=30), rng.integers(0, 2, 30)
    both = scores.brier(labels, np.column_stack([1 - p, p]))
    assert both == pytest.approx(2 * scores.brier(labels, p))


def test_log_loss_is_scikit_learns_and_stays_finite(rng):
    from sklearn.metrics import log_loss

    p = rng.dirichlet(np.ones(3), 50)
    labels = rng.integers(0, 3, 50)
    assert scores.log_loss(labels, p) == pytest.approx(log_loss(labels, p, labels=[0, 1, 2]))
    assert scores.log_loss([0], [[0.0, 1.0]]) == pytest.approx(-np.log(np.finfo(float).tiny))


def test_reliability_against_a_loop(rng):
    stated = np.concatenate([rng.uniform(size=200), [0.0, 1.0, 0.5]])
    happened = rng.uniform(size=203) < stated
    found = scores.reliability(stated, happened, bins=5)
    rows = []
    for b in range(5):
        inside = [i for i, s in enumerate(stated) if b / 5 <= s < (b + 1) / 5 or (b == 4 and s == 1)]
        rows.append((np.mean(stated[inside]), np.mean(happened[inside]), len(inside)))
    np.testing.assert_allclose(np.array(rows).T, np.array(found))
    assert found.counts.sum() == 203


def test_reliability_leaves_empty_bins_out():
    found = scores.reliability([0.05, 0.95, 0.96], [False, True, False])
    np.testing.assert_allclose(found.stated, [0.05, 0.955])
    np.testing.assert_allclose(found.observed, [0.0, 0.5])


def test_confusion_against_a_loop(rng):
    labels, predicted = rng.integers(0, 4, 60), rng.integers(0, 4, 60)
    wanted = np.zeros((4, 4), int)
    for seen, said in zip(labels, predicted, strict=True):
        wanted[seen, said] += 1
    np.testing.assert_array_equal(scores.confusion(labels, predicted, 4), wanted)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: scores.rmse([1.0, 2.0], [1.0]), "mean has 1 row"),
        (lambda: scores.rmse([], []), "at least 1"),
        (lambda: scores.rmse([np.nan], [1.0]), "y has NaN"),
        (lambda: scores.crps_gaussian([0.0], [0.0], [-1.0]), "sd must not be negative"),
        (lambda: scores.crps_from_draws([0.0], [[1.0]]), "at least two"),
        (lambda: scores.crps_from_draws([0.0, 1.0], [[1.0, 2.0]]), "draws has 1 row"),
        (lambda: scores.crps_from_quantiles([0.0, 1.0], [[1.0, 2.0]]), "quantiles has 1 row"),
        (lambda: scores.calibration_curve([1.2]), "pit must lie between 0 and 1"),
        (lambda: scores.randomised_pit([0.5], [0.4]), "upto must not be smaller"),
        (lambda: scores.binomial_range(0, 0.5), "count must be"),
        (lambda: scores.brier([0], [[0.5, 0.6]]), "sum to 1"),
        (lambda: scores.brier([2], [0.5]), "labels must be from 0 to 1"),
        (lambda: scores.log_loss([0.0], [[0.5, 0.5]]), "class numbers"),
        (lambda: scores.log_loss([0, 1], [[0.5, 0.5]]), "shape"),
        (lambda: scores.reliability([0.5], [True, False]), "happened"),
        (lambda: scores.confusion([0, 3], [0, 1], 3), "labels must be from 0 to 2"),
        (lambda: scores.confusion([0, 1], [0], 3), "predicted"),
    ],
)
def test_bad_input_is_named(call, words):
    with pytest.raises(ValueError, match=words):
        call()
