"""The linear model and the boosted trees that the report shows beside the model."""

import warnings

import numpy as np
import pandas as pd
import pytest

from tests.app.report import fakes, problems
from tightgp.app.report.rivals import rival_predictions
from tightgp.app.report.table import Table


def predicted(estimator, X, y, new):
    tables = [Table.of("X", one, estimator.encoding_.columns) for one in (X, new)]
    return rival_predictions(estimator, tables[0], np.asarray(y), tables[1])


def test_a_linear_model_finds_a_linear_function():
    X, _ = problems.prices(200, 0)
    y = (3 + 2 * X["rooms"]).to_numpy()
    found = predicted(fakes.FakeRegressor().fit(X, y), X, y, X)
    np.testing.assert_allclose(found["linear"], y, rtol=1e-3)


def test_boosted_trees_find_what_a_linear_model_cannot(rng):
    X = pd.DataFrame({"a": rng.uniform(-1, 1, 400), "b": rng.uniform(-1, 1, 400)})
    y = 5 * (X["a"] * X["b"] > 0)
    found = predicted(fakes.FakeRegressor().fit(X[:300], y[:300]), X[:300], y[:300], X[300:])
    error = {name: np.mean((told - y[300:]) ** 2) for name, told in found.items()}
    assert error["boosting"] < 0.3 * error["linear"]


def test_levels_of_few_rows_do_not_tell_their_own_target(rng):
    X = pd.DataFrame({"key": [f"k{i % 150}" for i in range(300)], "x": rng.normal(size=300)})
    y = rng.normal(size=300)
    found = predicted(fakes.FakeRegressor().fit(X, y), X, y, X)
    assert np.mean((found["linear"] - y) ** 2) > 0.7 * np.var(y), "noise cannot be learnt from the rows themselves"


def test_classes_without_training_rows_have_no_probability():
    X, y = problems.labels(90, 0, ["a", "b", "c"])
    estimator = fakes.FakeClassifier().fit(X, y)
    codes = np.unique(y, return_inverse=True)[1]
    kept = codes < 2
    found = predicted(estimator, X[kept].reset_index(drop=True), codes[kept], X)
    for probability in found.values():
        assert probability.shape == (90, 3)
        np.testing.assert_allclose(probability.sum(axis=1), 1)
        assert not probability[:, 2].any()


def test_scores_beside_those_of_a_linear_model(contents, priced):
    _, _, y, (_, yh) = priced
    held = contents["regression"].heldout
    r2, rmse = held.score("R²"), held.score("RMSE")
    assert r2.baseline == 0
    assert r2.model == pytest.approx(1 - rmse.model**2 / np.mean((yh - y.mean()) ** 2))
    assert max(rmse.linear, rmse.boosting) < rmse.baseline
    assert len(held.by_prediction) == 5
    assert sum(one.observed for one in held.by_prediction) / 5 == pytest.approx(held.coverage[-1].observed)
    for kind in ("binary", "classes"):
        loss = contents[kind].heldout.score("log loss")
        assert max(loss.linear, loss.boosting) < loss.baseline
    assert contents["binary"].heldout.by_prediction == ()


def test_counts_that_are_all_zero_without_a_word():
    X, _ = problems.visits(100, 0)
    estimator = fakes.FakeCountRegressor().fit(X, np.ones(100))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = predicted(estimator, X, np.zeros(100), X)
    for told in found.values():
        np.testing.assert_allclose(told, 0, atol=1e-9)
