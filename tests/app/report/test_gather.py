"""The report's numbers are those that the estimator's own predictions give."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from tests.app.report import fakes, problems
from tightgp.app import scores
from tightgp.app.report import gather, render


def score(content, name):
    return content.heldout.score(name)


@pytest.fixture(scope="module")
def priced():
    X, y = problems.prices(300, 0)
    return fakes.FakeRegressor().fit(X, y), X, y, problems.prices(200, 1)


def test_scores_of_regression(contents, priced):
    estimator, _X, y, (Xh, yh) = priced
    found, mean = contents["regression"], estimator.predict(Xh)
    assert score(found, "RMSE").model == pytest.approx(np.sqrt(np.mean((yh - mean) ** 2)))
    assert score(found, "RMSE").baseline == pytest.approx(np.sqrt(np.mean((yh - y.mean()) ** 2)))
    assert score(found, "NLPD").model == pytest.approx(-np.mean(estimator.log_density(Xh, yh)))
    assert score(found, "NLPD").baseline == pytest.approx(-np.mean(stats.norm.logpdf(yh, y.mean(), y.std(ddof=0))))
    wanted = scores.crps_gaussian(yh, mean, np.full(200, estimator.sd))
    assert score(found, "CRPS").model == pytest.approx(wanted)
    for one in found.heldout.coverage:
        low, high = estimator.predict_interval(Xh, one.level)
        assert one.observed == np.mean((low <= yh) & (yh <= high))
        assert one.low < one.level < one.high
    assert found.noise_sd == pytest.approx(estimator.sd)
    noise = next(t for t in found.training.traces if t.name == "noise")
    assert noise.values[-1] == pytest.approx(estimator.sd, rel=0.01)


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


def test_the_crps_of_predictions_that_are_not_gaussian(contents):
    found = contents["student"]
    X, y = problems.prices(300, 0)
    estimator = fakes.FakeStudent().fit(X, y)
    Xh, yh = problems.prices(200, 1)
    grid = np.linspace(-400, 900, 40_001)
    cdf = stats.t.cdf(grid, 4, estimator.predict(Xh)[:, None], estimator.sd)
    wanted = np.mean(np.sum((cdf - (grid >= np.asarray(yh)[:, None])) ** 2, axis=1)) * (grid[1] - grid[0])
    assert score(found, "CRPS").model == pytest.approx(wanted, rel=2e-3)
    assert found.heldout.worst.rows[0].deviations is None


def test_held_out_rows_are_predicted_once(monkeypatch):
    X, y = problems.prices(100, 0)
    estimator, asked = fakes.FakeRegressor().fit(X, y), []
    once = estimator.predict_distribution
    monkeypatch.setattr(estimator, "predict_distribution", lambda X: asked.append(len(X)) or once(X))
    held = problems.prices(37, 1)
    found = gather(estimator, X, y, heldout=held)
    assert len(found.slices) == 5
    assert len(asked) == 2, "one prediction of the held-out rows, one of all slices"
    assert asked[0] == 37


def test_counts(contents):
    found = contents["counts"]
    X, y = problems.visits(300, 0)
    estimator = fakes.FakeCountRegressor().fit(X, y)
    Xh, yh = problems.visits(200, 1)
    rate, counts = estimator.predict(Xh)[:, None], np.arange(200)
    wanted = np.mean(np.sum((stats.poisson.cdf(counts, rate) - (counts >= np.asarray(yh)[:, None])) ** 2, axis=1))
    assert score(found, "CRPS").model == pytest.approx(wanted, rel=2e-3)
    assert score(found, "NLPD").baseline is None
    assert (found.scales.count, found.scales.low, found.scales.high) == (1, 0.7, 0.7)
    gaps = [abs(one.observed - one.level) for one in found.heldout.calibration]
    assert len(gaps) == 19
    assert max(gaps) < 0.12, "the randomised PIT of counts is uniform"
    assert [trace.name for trace in found.training.traces] == ["objective", "v"]


def test_classes(contents):
    found = contents["classes"]
    many = ["setosa", "versicolor", problems.IMAGE, "rose", "tulip"]
    X, y = problems.labels(300, 0, many)
    estimator = fakes.FakeClassifier().fit(X, y)
    Xh, yh = problems.labels(200, 1, many)
    p = estimator.predict_proba(Xh)
    assert score(found, "accuracy").model == np.mean(estimator.predict(Xh) == yh)
    chosen = [p[i, list(estimator.classes_).index(label)] for i, label in enumerate(yh)]
    assert score(found, "log loss").model == pytest.approx(-np.mean(np.log(chosen)))
    assert score(found, "accuracy").baseline == np.mean(yh == y.mode()[0])
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


def test_classes_that_training_did_not_have_are_left_out():
    X, y = problems.labels(60, 0, ["a", "b"])
    Xh, yh = problems.labels(30, 1, ["a", "b", "new"])
    found = gather(fakes.FakeClassifier().fit(X, y), X, y, heldout=(Xh, yh), heldout_rows=np.arange(30))
    new = int(np.sum(yh == "new"))
    assert found.heldout.num_rows == 30 - new == found.subject.num_heldout
    assert any(f"{new} held-out row(s)" in note and "(new)" in note for note in found.notes)
    kept = set(np.flatnonzero(yh != "new"))
    assert {row.row for row in found.heldout.worst.rows} <= kept
    only = gather(fakes.FakeClassifier().fit(X, y), X, y, heldout=(Xh[yh == "new"], yh[yh == "new"]))
    assert only.heldout is None


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


def test_slices_vary_one_column_and_fix_the_others(priced, contents):
    estimator, X, _y, _ = priced
    found = {one.column: one for one in contents["regression"].slices}
    assert list(found) == ["area", problems.SCRIPT, "district", "sold", "rooms"]
    area = found["area"]
    assert area.at[0] == pytest.approx(X["area"].quantile(0.01))
    assert area.at[-1] == pytest.approx(X["area"].quantile(0.99))
    fixed = dict(contents["regression"].fixed)
    assert fixed["district"] == X["district"].mode()[0]
    row = X.iloc[[0] * 2].copy()
    row["area"] = [area.at[0], area.at[-1]]
    row[problems.SCRIPT] = X[problems.SCRIPT].sort_values().iloc[149]
    row["district"] = X["district"].mode()[0]
    row["sold"] = X["sold"].sort_values().iloc[149]
    row["rooms"] = int(X["rooms"].sort_values().iloc[149])
    np.testing.assert_allclose(estimator.predict(row), [area.curves[0].mean[0], area.curves[0].mean[-1]])
    assert found["district"].kind == found["rooms"].kind == "category"
    assert found["district"].labels == tuple(sorted(X["district"].unique()))
    assert found["rooms"].labels == ("1", "2", "3", "4")
    assert found["sold"].kind == "time"
    assert found["sold"].at[0] == pytest.approx(
        X["sold"].astype("datetime64[s]").astype("int64").quantile(0.01), rel=1e-6
    )


def test_arrays_several_outputs_and_constant_columns(rng):
    X = np.column_stack([rng.normal(size=(80, 2)), np.ones(80)])
    y = np.column_stack([X[:, 0], 3 * X[:, 1]]) + 0.1 * rng.normal(size=(80, 2))
    estimator = fakes.FakeRegressor().fit(X, y)
    found = gather(estimator, X, y, heldout=(X, y), target="first")
    assert [one.column for one in found.slices] == ["x0", "x1"]
    assert [one.name for one in found.heldout.outputs] == ["first", "output 2"]
    assert found.heldout.outputs[1].rmse == pytest.approx(np.sqrt(np.mean((y - estimator.predict(X))[:, 1] ** 2)))
    assert found.heldout.outputs[0].rmse == score(found, "RMSE").model
    assert any("2 outputs" in note for note in found.notes)
    assert not found.heldout.worst.in_file
    page = render(found)
    assert "Each output" in page
    assert "held-out row</th>" in page


def test_names_of_targets_come_from_pandas(rng):
    X = pd.DataFrame({"a": rng.normal(size=40)})
    y = pd.DataFrame({"low": X["a"], "high": 2 * X["a"]}) + 0.1 * rng.normal(size=(40, 2))
    found = gather(fakes.FakeRegressor().fit(X, y), X, y, heldout=(X, y))
    assert [one.name for one in found.heldout.outputs] == ["low", "high"]
    assert found.subject.target == "low"


def test_slices_of_all_kinds_of_columns(rng):
    n = 60
    X = pd.DataFrame(
        {
            "lag": pd.to_timedelta(rng.uniform(0, 9, n), unit="D"),
            "flag": rng.uniform(size=n) < 0.5,
            "count": pd.array(rng.integers(0, 40, n), "Int64"),
            "when": pd.Series(pd.date_range("2022-01-01", periods=n, freq="h", tz="Europe/Paris")),
            "month": pd.Series(pd.period_range("2001-01", periods=n, freq="M")),
            "kind": pd.Categorical(rng.choice(["x", "y"], n)),
            "unused": pd.date_range("2022-01-01", periods=n).date,
        }
    )
    X.loc[3, "count"] = pd.NA
    y = X["lag"].dt.total_seconds() / 86400 + 0.1 * rng.normal(size=n)
    found = gather(fakes.FakeRegressor().fit(X, y), X, y, heldout=(X, y))
    kinds = {one.column: one.kind for one in found.slices}
    numbers, times = {"lag (days)": "number", "count": "number"}, {"when": "time", "month": "time"}
    assert kinds == {**numbers, **times, "flag": "category", "kind": "category"}, "the six most relevant columns"
    lag = found.slices[0]
    assert lag.at[0] == pytest.approx((X["lag"] / pd.Timedelta("1D")).quantile(0.01))
    assert lag.curves[0].mean[-1] - lag.curves[0].mean[0] == pytest.approx(lag.at[-1] - lag.at[0], rel=0.1)
    render(found)


def test_warnings_about_held_out_cells_become_notes():
    X, y = problems.prices(60, 0)
    Xh, yh = problems.prices(20, 1)
    Xh["district"] = "elsewhere"
    found = gather(fakes.FakeRegressor().fit(X, y), X, y, heldout=(Xh, yh))
    assert sum("elsewhere" in note for note in found.notes) == 1


def test_a_density_of_zero_is_reported_and_not_averaged():
    class Overconfident(fakes.FakeRegressor):
        def predict_distribution(self, X):
            prediction = super().predict_distribution(X)
            prediction.log_density = lambda y: np.where(np.arange(len(y)) == 3, -np.inf, 0.0)
            return prediction

    X, y = problems.prices(60, 0)
    found = gather(Overconfident().fit(X, y), X, y, heldout=problems.prices(20, 1))
    assert score(found, "NLPD") is None
    assert any("1 held-out target" in note for note in found.notes)
    assert found.heldout.worst.rows[0].row == 4
    render(found)


def test_long_traces_are_thinned_and_keep_their_ends():
    X, y = problems.prices(60, 0)
    estimator = fakes.FakeRegressor().fit(X, y)
    estimator.n_iter_ = 5000
    estimator.trace_ = {"objective": np.arange(5000.0), "steps_per_second": np.ones(5000), "v": np.full(5000, np.nan)}
    found = gather(estimator, X, y).training
    assert found.step == "epoch"
    (trace,) = found.traces
    assert len(trace.values) <= 400
    assert (trace.values[0], trace.values[-1]) == (0.0, 4999.0)
    assert (trace.steps[0], trace.steps[-1]) == (1.0, 5000.0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y": [1.0]}, "y must have a target for each of 20 row"),
        ({"X": np.zeros((20, 2))}, r"X must have shape \(n, 1\)"),
        ({"X": pd.DataFrame({"b": np.zeros(20)})}, "X lacks the column"),
        ({"y": np.full(20, np.nan)}, "y has NaN"),
        ({"y": ["a"] * 20}, "y must be an array of numbers"),
        ({"heldout": 3}, "heldout must be None or a pair"),
        ({"heldout": (np.zeros((2, 1)), [1.0])}, "y of heldout must have a target"),
        ({"heldout": (np.zeros((2, 1)), np.zeros((2, 2)))}, "y of heldout has 2 column"),
        ({"heldout": (np.zeros((2, 1)), [1.0, 2.0]), "heldout_rows": [1]}, "heldout_rows must be 2 whole numbers"),
        ({"heldout": (np.zeros((2, 1)), [1.0, 2.0]), "heldout_rows": [0.5, 1.5]}, "heldout_rows"),
    ],
)
def test_bad_arguments_are_named(change, words, rng):
    X, y = rng.normal(size=(20, 1)), rng.normal(size=20)
    estimator = fakes.FakeRegressor().fit(X, y)
    arguments = {"X": X, "y": y, **change}
    with pytest.raises(ValueError, match=words):
        gather(estimator, arguments.pop("X"), arguments.pop("y"), **arguments)


def test_an_unfitted_estimator_is_refused():
    with pytest.raises(ValueError, match="must be fitted"):
        gather(fakes.FakeRegressor(), np.zeros((2, 1)), np.zeros(2))


def test_a_scatter_shows_a_sample_of_many_rows(priced):
    estimator, X, y, _ = priced
    points = gather(estimator, X, y, heldout=problems.prices(2000, 1)).heldout.points
    assert len(points) == 1500
    assert all(abs(observed - predicted) < 6 * estimator.sd for predicted, observed in points)


@pytest.mark.parametrize("count", [1, 2, 5])
def test_few_held_out_rows_make_a_page(count, priced):
    estimator, X, y, (Xh, yh) = priced
    content = gather(estimator, X, y, heldout=(Xh[:count], yh[:count]))
    assert content.heldout.num_rows == count
    assert np.isfinite(content.heldout.score("RMSE").model)
    assert "How accurate are the predictions?" in render(content)
