import numpy as np
import pytest
from scipy import stats

import tightgp as tgp
from tests.estimators.conftest import SMALL
from tightgp.estimators.count_choice import compare_counts


def test_counts_in_the_thousands(counter, table):
    assert table.counts.max() > 3000
    assert counter.score(table.X, table.counts) > 0.8
    assert np.mean(counter.log_density(table.X, table.counts)) > np.mean(
        stats.poisson.logpmf(table.counts, table.counts.mean())
    )


def test_moments_are_those_of_the_distribution(counter, table):
    """Mean and standard deviation follow from the probabilities of all counts, and these sum to one."""
    x = np.repeat(table.new[:1], 40_000, axis=0)
    y = np.arange(40_000.0)
    p = np.exp(counter.log_density(x, y))
    mean, sd = counter.predict(table.new[:1], return_std=True)
    assert p.sum() == pytest.approx(1, abs=1e-4)
    assert p @ y == pytest.approx(mean[0], rel=1e-3)
    assert np.sqrt(p @ (y - mean[0]) ** 2) == pytest.approx(sd[0], rel=1e-2)
    np.testing.assert_array_equal(counter.predict(table.new[:1]), mean)
    up_to = counter.predict_cdf(x[::4000], y[::4000])
    np.testing.assert_allclose(up_to, np.cumsum(p)[::4000], atol=1e-4)


def test_quantiles_are_the_first_counts_that_reach_their_level(counter, table):
    q = [0.025, 0.5, 0.975]
    y = counter.predict_quantile(table.new, q)
    assert y.shape == (9, 3)
    for i, level in enumerate(q):
        assert np.all(counter.predict_cdf(table.new, y[:, i]) >= level)
        assert np.all(counter.predict_cdf(table.new, y[:, i] - 1) < level)
    np.testing.assert_array_equal(counter.predict_quantile(table.new, 0.5), y[:, 1])
    np.testing.assert_array_equal(np.stack(counter.predict_interval(table.new), axis=1), y[:, [0, 2]])
    low, high = counter.predict_interval(table.X)
    assert np.mean((low <= table.counts) & (table.counts <= high)) > 0.85


def test_draws_have_the_moments_of_the_predictions(counter, table):
    draws = counter.sample_y(table.new, 4000)
    assert draws.shape == (9, 4000)
    assert np.all(draws == np.floor(draws))
    mean, sd = counter.predict(table.new, return_std=True)
    assert np.all(np.abs(draws.mean(axis=1) - mean) < 6 * sd / np.sqrt(4000))


def test_negative_binomial(table):
    rng = np.random.default_rng(0)
    wide = rng.poisson(rng.gamma(2.0, np.exp(3 + np.sin(table.X[:, 0])) / 2))
    model = tgp.SparseGPCountRegressor(likelihood="negative_binomial", **SMALL).fit(table.X, wide)
    plain = tgp.SparseGPCountRegressor(likelihood="poisson", **SMALL).fit(table.X, wide)
    assert type(tgp.SparseGPCountRegressor(**SMALL).fit(table.X, wide).model_.likelihood).__name__ == "NegativeBinomial"
    assert model.objective_ > plain.objective_ + 10
    assert 0.1 < float(model.model_.likelihood.dispersion) < 2
    _, high = model.predict_interval(table.new, 0.9)
    assert np.all(high > model.predict(table.new))


def test_more_zeros_than_counts_have(table):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (400, 1))
    rate, present = np.exp(1.5 + X[:, 0]), rng.random(400) < 0.6
    y = rng.poisson(rate) * present
    found = compare_counts(X, y)
    assert found.best == "zero_inflated_poisson"
    assert found.scores["zero_inflated_poisson"] > found.scores["negative_binomial"]
    assert compare_counts(X, rng.poisson(rate)).best == "poisson"
    dispersed = compare_counts(X, rng.poisson(rate * rng.gamma(1.0, 1.0, 400)))
    assert dispersed.best == "negative_binomial"
    model = tgp.SparseGPCountRegressor(8, max_iter=50).fit(X, y)
    assert float(model.model_.likelihood.share) == pytest.approx(0.4, abs=0.08)
    prediction = model.predict_distribution(X)
    assert np.mean(np.abs(np.log(prediction.mean / (0.6 * rate)))) < 0.15
    low, high = prediction.interval(0.9)
    assert np.mean((low <= y) & (y <= high)) > 0.87
    draws = prediction.sample(2000)
    np.testing.assert_allclose(np.mean(draws == 0, axis=1), prediction.cdf(0.0), atol=0.06)


def test_all_counts_zero(table):
    model = tgp.SparseGPCountRegressor(**SMALL).fit(table.X, np.zeros(40))
    assert np.all(model.predict(table.X) < 0.2)
    np.testing.assert_array_equal(model.predict_quantile(table.X, 0.5), 0)


def test_bad_counts(counter, table):
    y = table.counts.astype(float)
    y[3] = 2.5
    with pytest.raises(ValueError, match=r"y must be counts \(whole numbers from 0 on\) for Poisson: row 3 is 2.5"):
        tgp.SparseGPCountRegressor().fit(table.X, y)
    y[3] = -1
    with pytest.raises(ValueError, match="row 3 is -1"):
        tgp.SparseGPCountRegressor().fit(table.X, y)
    with pytest.raises(ValueError, match=r"row 8 is 0.5$"):
        counter.log_density(table.new, np.r_[np.ones(8), 0.5])
    with pytest.raises(ValueError, match="n_samples must be"):
        counter.sample_y(table.new, -1)


def test_fitted_attributes(counter):
    assert counter.training_.startswith("Natural gradients and Adam, 50 steps on all rows")
    assert counter.noise_variance_ is counter.target_mean_ is counter.evidence_bracket_ is None
    assert counter.scales_.shape == (1,)
