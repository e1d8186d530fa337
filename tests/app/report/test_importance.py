"""Importance by permutation, and the linear model that the report shows beside the baseline."""

import numpy as np
import pytest

from tests.app.report import fakes, problems
from tightgp.app.report.importance import linear_predictions, permutation_importance
from tightgp.app.report.table import Table


def test_the_column_that_matters_is_first(contents):
    found = contents["regression"].heldout.importance
    assert found[0][0] == "area"
    assert found[0][1] > 10  # of a standard deviation of about 60
    assert [rise for _, rise in found] == sorted((rise for _, rise in found), reverse=True)
    assert {name for name, _ in found} == set(problems.frame(3, 0))


def test_it_is_the_rise_of_the_error(priced):
    estimator, _, _, (X, y) = priced
    table = Table.of("X", X, estimator.encoding_.columns)
    found = dict(permutation_importance(estimator, table, y.to_numpy()))
    shuffled = X.assign(area=np.random.default_rng(5).permutation(X["area"]))
    errors = [np.sqrt(np.mean((estimator.predict(one) - y) ** 2)) for one in (X, shuffled)]
    assert found["area"] == pytest.approx(errors[1] - errors[0], rel=0.2)
    assert permutation_importance(estimator, table.rows(np.arange(200) < 5), y.to_numpy()[:5]) == ()


def test_a_linear_model_finds_a_linear_function():
    X, _ = problems.prices(200, 0)
    y = (3 + 2 * X["rooms"]).to_numpy()
    estimator = fakes.FakeRegressor().fit(X, y)
    table = Table.of("X", X, estimator.encoding_.columns)
    np.testing.assert_allclose(linear_predictions(estimator, table, y, table), y, rtol=1e-3)


def test_scores_beside_those_of_a_linear_model(contents, priced):
    _, _, y, (_, yh) = priced
    held = contents["regression"].heldout
    r2, rmse = held.score("R²"), held.score("RMSE")
    assert r2.baseline == 0
    assert r2.model == pytest.approx(1 - rmse.model**2 / np.mean((yh - y.mean()) ** 2))
    assert rmse.linear < rmse.baseline
    assert len(held.by_prediction) == 5
    assert sum(one.observed for one in held.by_prediction) / 5 == pytest.approx(held.coverage[-1].observed)
    assert contents["binary"].heldout.by_prediction == ()
