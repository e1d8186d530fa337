"""Scores on held-out rows."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from tests.app.report import fakes, problems
from tightgp.app import scores
from tightgp.app.report import gather, render, verdicts
from tightgp.app.report.content import LevelShares, ReliabilityBin


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


def test_classes(contents):
    found = contents["classes"]
    many = ["setosa", "versicolor", problems.IMAGE, "rose", "tulip"]
    X, y = problems.labels(300, 0, many)
    estimator = fakes.FakeClassifier().fit(X, y)
    Xh, yh = problems.labels(200, 1, many)
    p = estimator.predict_proba(Xh)
    assert found.heldout.score("accuracy").model == np.mean(estimator.predict(Xh) == yh)
    chosen = [p[i, list(estimator.classes_).index(label)] for i, label in enumerate(yh)]
    assert found.heldout.score("log loss").model == pytest.approx(-np.mean(np.log(chosen)))
    assert found.heldout.score("accuracy").baseline == np.mean(yh == y.mode()[0])
    k = found.heldout.classes
    assert k.labels == tuple(estimator.classes_)
    assert sum(map(sum, k.confusion)) == 200
    assert k.reliability_of is None
    assert k.predicted == pytest.approx(p.max(axis=1).mean())
    assert sum(one.count for one in k.reliability) == 200
    assert len(found.slices[0].curves) == 4
    assert found.heldout.worst.rows[0].probability == pytest.approx(min(chosen))


def test_two_classes_are_about_the_second(contents):
    found = contents["binary"].heldout
    assert found.classes.reliability_of == "no"
    assert found.classes.labels == (problems.IMAGE, "no")
    assert 0 <= found.score("Brier score").model <= 0.25


def test_ordered_levels_are_scored_by_their_distance():
    names = ["a", "b", "c", "d"]
    X, y = problems.labels(300, 0, names)
    estimator = fakes.FakeClassifier().fit(X, y)
    estimator.is_ordinal = True
    Xh, yh = problems.labels(200, 1, names)
    held = gather(estimator, X, y, heldout=(Xh, yh)).heldout
    place = {name: i for i, name in enumerate(names)}
    distance = [abs(place[a] - place[b]) for a, b in zip(estimator.predict(Xh), yh, strict=True)]
    assert held.score("level error").model == pytest.approx(np.mean(distance))
    constant = place[y.mode()[0]]
    assert held.score("level error").baseline == pytest.approx(np.mean([abs(constant - place[b]) for b in yh]))
    probability = estimator.predict_proba(Xh)
    for k, one in enumerate(held.classes.levels):
        assert one.label == names[k]
        assert one.every.predicted == pytest.approx(probability[:, k].mean())
        assert one.every.observed == pytest.approx(np.mean(yh == names[k]))
        likeliest = np.argsort(-probability[:, k], kind="stable")[:40]
        assert one.likeliest.observed == pytest.approx(np.mean(yh.iloc[likeliest] == names[k]))
    assert "levels off on average" in verdicts.accuracy(held, "classification")
    assert verdicts.level_label(held.classes.levels[0]) == "as stated"


def test_a_level_that_is_claimed_too_often_is_named():
    sure, right = ReliabilityBin(0.9, 0.5, 0.8, 0.97, 40), ReliabilityBin(0.3, 0.3, 0.2, 0.4, 200)
    assert verdicts.level_label(LevelShares("a", right, sure)) == "claimed too often"
    assert verdicts.level_label(LevelShares("a", replace(right, observed=0.5), right)) == "claimed too rarely"


def test_rare_classes_are_shown_as_one():
    names = [f"class {k:02d}" for k in range(30)]
    X, y = problems.labels(400, 0, names)
    found = gather(fakes.FakeClassifier().fit(X, y), X, y, heldout=problems.labels(300, 1, names))
    k = found.heldout.classes
    assert len(k.labels) == 12
    assert k.labels[-1] == "19 others"
    assert sum(map(sum, k.confusion)) == 300
    render(found)


def test_labels_that_are_numbers():
    X, y = problems.labels(60, 0, [0, 1, 2])
    y = y.astype(int)
    found = gather(fakes.FakeClassifier().fit(X, y), X, y, heldout=(X, y))
    assert found.heldout.classes.labels == ("0", "1", "2")


def test_the_worst_rows_have_the_lowest_density(contents, priced):
    estimator, _X, _y, (Xh, yh) = priced
    order = np.argsort(estimator.log_density(Xh, yh))[:10]
    worst = contents["regression"].heldout.worst
    assert [row.row for row in worst.rows] == (3 * order + 2).tolist()
    assert worst.columns == ("area", problems.SCRIPT, "district", "sold", "rooms")
    first = worst.rows[0]
    assert first.deviations == pytest.approx((yh[order[0]] - estimator.predict(Xh)[order[0]]) / estimator.sd)
    assert first.inputs[2] == Xh["district"][order[0]]
    assert first.inputs[3] == str(Xh["sold"][order[0]].date())
