"""The report's numbers are those that the estimator's own predictions give."""

import numpy as np
import pandas as pd
import pytest

from tests.app.report import fakes, problems
from tightgp.app.report import gather, render


def test_held_out_rows_are_predicted_once(monkeypatch):
    X, y = problems.prices(100, 0)
    estimator, asked = fakes.FakeRegressor().fit(X, y), []
    once = estimator.predict_distribution
    monkeypatch.setattr(estimator, "predict_distribution", lambda X: asked.append(len(X)) or once(X))
    held = problems.prices(37, 1)
    found = gather(estimator, X, y, heldout=held)
    assert len(found.slices) == 5
    assert len(asked) == 4, "the held-out rows, those with shuffled columns, all slices, the rows of the panel"
    assert asked[0] == 37


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


def test_arrays_several_outputs_and_constant_columns(rng):
    X = np.column_stack([rng.normal(size=(80, 2)), np.ones(80)])
    y = np.column_stack([X[:, 0], 3 * X[:, 1]]) + 0.1 * rng.normal(size=(80, 2))
    estimator = fakes.FakeRegressor().fit(X, y)
    found = gather(estimator, X, y, heldout=(X, y), target="first")
    assert [one.column for one in found.slices] == ["x0", "x1"]
    assert [one.name for one in found.heldout.outputs] == ["first", "output 2"]
    assert found.heldout.outputs[1].rmse == pytest.approx(np.sqrt(np.mean((y - estimator.predict(X))[:, 1] ** 2)))
    assert found.heldout.outputs[0].rmse == pytest.approx(found.heldout.score("RMSE").model)
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


def test_warnings_about_held_out_cells_become_notes():
    X, y = problems.prices(60, 0)
    Xh, yh = problems.prices(20, 1)
    Xh["district"] = "elsewhere"
    found = gather(fakes.FakeRegressor().fit(X, y), X, y, heldout=(Xh, yh))
    assert sum("elsewhere" in note for note in found.notes) == 1


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


@pytest.mark.parametrize("count", [1, 2, 5])
def test_few_held_out_rows_make_a_page(count, priced):
    estimator, X, y, (Xh, yh) = priced
    content = gather(estimator, X, y, heldout=(Xh[:count], yh[:count]))
    assert content.heldout.num_rows == count
    assert np.isfinite(content.heldout.score("RMSE").model)
    assert "How accurate are the predictions?" in render(content)
