"""Mixed precision, and what several processes know of each row."""

import numpy as np
import pytest

import tightgp as tgp
from tests.estimators.conftest import SMALL
from tightgp.estimators import recipes


def test_mixed_precision_is_close_and_kept(table, tmp_path, regressor):
    mixed = tgp.SparseGPRegressor(**SMALL, precision="mixed", bound="diagonal").fit(table.X, table.y)
    full = tgp.SparseGPRegressor(**SMALL, bound="diagonal").fit(table.X, table.y)
    assert mixed.model_.precision == "mixed"
    assert (full.model_.precision, regressor.model_.precision) == ("full", "full")
    assert mixed.objective_ != full.objective_
    assert mixed.objective_ == pytest.approx(full.objective_, abs=0.05)
    tgp.save(mixed, tmp_path / "model.safetensors")
    back = tgp.load(tmp_path / "model.safetensors")
    assert back.precision == back.model_.precision == "mixed"
    np.testing.assert_array_equal(back.predict(table.new), mixed.predict(table.new))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"precision": "half"}, "precision must be one of 'full', 'mixed'; got 'half'"),
        ({"precision": "mixed", "method": "minibatch"}, "precision='mixed' goes with method=\"collapsed\""),
    ],
)
def test_precisions_that_cannot_be(parameters, message):
    with pytest.raises(ValueError, match=message):
        tgp.SparseGPRegressor(**parameters).check_parameters()


def test_a_mixed_fit_that_is_too_large_for_the_collapsed_bound(table, monkeypatch):
    monkeypatch.setattr("tightgp.estimators.plan.MOST_WORK", 1)
    with pytest.raises(ValueError, match="precision='mixed' goes with"):
        tgp.SparseGPRegressor(n_inducing=3, precision="mixed").fit(table.X, table.y)


@pytest.mark.parametrize("bound", ["standard", "spherical", "diagonal"])
def test_scales_from_what_each_process_knows(table, bound):
    data = tgp.Dataset(table.X, table.y / 300)
    model = tgp.SGPR(tgp.kernels.Matern32(1.0, [1.0, 5.0]), table.X[:8].copy(), 0.1, bound)
    posterior = model.posterior(data)
    found = recipes._scales_together(posterior, model.bound, data)
    np.testing.assert_allclose(found, posterior.scales, rtol=1e-8)
    assert recipes._scales_together(posterior, tgp.PowerEP(0.5), data) is None
