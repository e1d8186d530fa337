"""Importance by permutation."""

import numpy as np
import pytest

from tests.app.report import problems
from tightgp.app.report.importance import permutation_importance
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
