"""The exact GP, which regression is up to two thousand rows unless told otherwise."""

import numpy as np
import pytest

import tightgp as tgp
from benchmarks import small_tables
from tightgp.app.report import gather
from tightgp.app.report.words import evidence
from tightgp.estimators import start


@pytest.fixture(scope="module")
def exact(table):
    return tgp.SparseGPRegressor().fit(table.X, table.y)


def test_few_rows_get_the_exact_gp(exact, table):
    assert isinstance(exact.model_, tgp.ExactGP)
    assert exact.training_ == "Exact Gaussian process by at most 100 iterations of L-BFGS: 40 rows are at most 2000."
    assert exact.n_inducing_ == 40
    assert exact.inducing_message_.startswith("exact")
    assert exact.converged_
    data = tgp.Dataset(exact.encoding_.transform(table.X), (table.y - table.y.mean()) / table.y.std())
    assert exact.objective_ == pytest.approx(float(exact.model_.log_evidence(data)), rel=1e-9)
    assert exact.evidence_bracket_.gap == 0
    assert exact.trace_["objective"][-1] == pytest.approx(exact.objective_)
    assert exact.n_iter_ == max(1, len(exact.trace_["objective"]) - 1)
    mean, sd, cov = exact.predict(table.new, return_std=True, return_cov=True)
    expected, var = exact.model_.posterior(data).predict_y(exact.encoding_.transform(table.new))
    np.testing.assert_allclose(mean, table.y.mean() + table.y.std() * expected, rtol=1e-9)
    np.testing.assert_allclose(sd, table.y.std() * np.sqrt(var), rtol=1e-9)
    np.testing.assert_allclose(np.diag(cov), sd**2, rtol=1e-9)
    assert exact.sample_y(table.new, 3).shape == (9, 3)


def test_what_needs_inducing_points_overrides_it(table):
    for options in ({"n_inducing": 4}, {"bound": "diagonal"}, {"method": "collapsed"}):
        model = tgp.SparseGPRegressor(**options, max_iter=1, neighbours=0).fit(table.X, table.y)
        assert isinstance(model.model_, tgp.SGPR)


def test_the_users_own_kernel_is_trained_too(table):
    kernel = tgp.kernels.Matern52(lengthscale=[1.0, 1.0]) + tgp.kernels.Linear()
    model = tgp.SparseGPRegressor(kernel=kernel, max_iter=10).fit(table.X, table.y)
    assert isinstance(model.model_, tgp.ExactGP)
    assert len(tgp.named_parameters(model.model_)) == 4
    assert model.score(table.X, table.y) > 0.8


def test_it_is_saved_and_reported(exact, table, tmp_path):
    tgp.save(exact, tmp_path / "m.safetensors")
    loaded = tgp.load(tmp_path / "m.safetensors")
    np.testing.assert_allclose(loaded.predict(table.new), exact.predict(table.new))
    content = gather(loaded, table.X, table.y)
    assert evidence(content.evidence, content.subject.num_inducing, content.scales)[0] == "Exact"


def test_a_table_of_noise_is_said_to_be_one():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(40, 1)), rng.normal(size=40)
    with pytest.warns(UserWarning, match="no better than that of noise alone .* tried 32 starts on 40 rows"):
        model = tgp.SparseGPRegressor().fit(X, y)
    assert model.objective_ >= start.noise_alone((y - y.mean())[:, None] / y.std()) - 1e-5


def test_a_time_limit_ends_training_with_the_best_so_far(table):
    model = tgp.SparseGPRegressor(time_limit=1e-3).fit(table.X, table.y)
    assert model.stop_reason_ == "time limit"
    assert np.all(np.isfinite(model.predict(table.new)))
    with pytest.raises(ValueError, match="time_limit must be"):
        tgp.SparseGPRegressor(time_limit=0).fit(table.X, table.y)


@pytest.mark.parametrize("signal", [0.0, 0.3, 1.0, 3.0])
@pytest.mark.parametrize(("rows", "columns"), [(50, 3), (150, 6)])
def test_no_table_collapses(rows, columns, signal):
    one = small_tables.outcome(rows, columns, signal, seed=11, starts=4)
    assert one.fitted >= one.noise - 1e-5
    assert one.fitted >= one.best - 1
