"""Scores of targets that are numbers."""

import numpy as np
import pytest
from scipy import stats

from tests.app.report import fakes, problems
from tightgp.app import scores
from tightgp.app.report import gather, render


def test_scores_of_regression(contents, priced):
    estimator, _X, y, (Xh, yh) = priced
    found, mean = contents["regression"], estimator.predict(Xh)
    assert found.heldout.score("RMSE").model == pytest.approx(np.sqrt(np.mean((yh - mean) ** 2)))
    assert found.heldout.score("RMSE").baseline == pytest.approx(np.sqrt(np.mean((yh - y.mean()) ** 2)))
    assert found.heldout.score("NLPD").model == pytest.approx(-np.mean(estimator.log_density(Xh, yh)))
    assert found.heldout.score("NLPD").baseline == pytest.approx(
        -np.mean(stats.norm.logpdf(yh, y.mean(), y.std(ddof=0)))
    )
    wanted = scores.crps_gaussian(yh, mean, np.full(200, estimator.sd))
    assert found.heldout.score("CRPS").model == pytest.approx(wanted)
    for one in found.heldout.coverage:
        low, high = estimator.predict_interval(Xh, one.level)
        assert one.observed == np.mean((low <= yh) & (yh <= high))
        assert one.low < one.level < one.high
    assert found.noise_sd == pytest.approx(estimator.sd)
    noise = next(t for t in found.training.traces if t.name == "noise")
    assert noise.values[-1] == pytest.approx(estimator.sd, rel=0.01)


def test_the_crps_of_predictions_that_are_not_gaussian(contents):
    found = contents["student"]
    X, y = problems.prices(300, 0)
    estimator = fakes.FakeStudent().fit(X, y)
    Xh, yh = problems.prices(200, 1)
    grid = np.linspace(-400, 900, 40_001)
    cdf = stats.t.cdf(grid, 4, estimator.predict(Xh)[:, None], estimator.sd)
    wanted = np.mean(np.sum((cdf - (grid >= np.asarray(yh)[:, None])) ** 2, axis=1)) * (grid[1] - grid[0])
    assert found.heldout.score("CRPS").model == pytest.approx(wanted, rel=2e-3)
    assert found.heldout.worst.rows[0].deviations is None


def test_counts(contents):
    found = contents["counts"]
    X, y = problems.visits(300, 0)
    estimator = fakes.FakeCountRegressor().fit(X, y)
    Xh, yh = problems.visits(200, 1)
    rate, counts = estimator.predict(Xh)[:, None], np.arange(200)
    wanted = np.mean(np.sum((stats.poisson.cdf(counts, rate) - (counts >= np.asarray(yh)[:, None])) ** 2, axis=1))
    assert found.heldout.score("CRPS").model == pytest.approx(wanted, rel=2e-3)
    assert found.heldout.score("NLPD").baseline is None
    assert (found.scales.count, found.scales.low, found.scales.high) == (1, 0.7, 0.7)
    gaps = [abs(one.observed - one.level) for one in found.heldout.calibration]
    assert len(gaps) == 19
    assert max(gaps) < 0.12, "the randomised PIT of counts is uniform"
    assert [trace.name for trace in found.training.traces] == ["objective", "v"]


def test_a_density_of_zero_is_reported_and_not_averaged():
    class Overconfident(fakes.FakeRegressor):
        def predict_distribution(self, X):
            prediction = super().predict_distribution(X)
            prediction.log_density = lambda y: np.where(np.arange(len(y)) == 3, -np.inf, 0.0)
            return prediction

    X, y = problems.prices(60, 0)
    found = gather(Overconfident().fit(X, y), X, y, heldout=problems.prices(20, 1))
    assert found.heldout.score("NLPD") is None
    assert any("1 held-out target" in note for note in found.notes)
    assert found.heldout.worst.rows[0].row == 4
    render(found)


def test_a_scatter_shows_a_sample_of_many_rows(priced):
    estimator, X, y, _ = priced
    points = gather(estimator, X, y, heldout=problems.prices(2000, 1)).heldout.points
    assert len(points) == 1500
    assert all(abs(observed - predicted) < 6 * estimator.sd for predicted, observed in points)
