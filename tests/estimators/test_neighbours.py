"""Neighbours in the regressor: blocks of them in training, the nearest in prediction, their rows in its file."""

import numpy as np
import pytest

import tightgp as tgp
from tightgp.app.report import gather


@pytest.fixture(scope="module")
def wiggly():
    """More wiggles than eight inducing points can follow, and a second input that says nothing."""
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 6, size=(240, 2))
    y = 10 + 3 * np.sin(3 * X[:, 0]) + 0.3 * rng.normal(size=240)
    return X[:200], y[:200], X[200:], y[200:]


@pytest.fixture(scope="module")
def local(wiggly):
    return tgp.SparseGPRegressor(n_inducing=8, max_iter=20).fit(*wiggly[:2])


def test_blocks_and_neighbours_are_the_default_and_help(local, wiggly):
    X, y, new_X, new_y = wiggly
    assert local.model_.bound.partition.size == 64
    assert local.training_.endswith(" Predictions also use the 64 nearest training rows.")
    near = local.log_density(new_X, new_y).mean()
    mean, sd = local.predict(new_X, return_std=True)
    everywhere = tgp.SparseGPRegressor(n_inducing=8, max_iter=20, neighbours=0).fit(X, y)
    assert everywhere.posterior_.training is None
    assert near > everywhere.log_density(new_X, new_y).mean() + 0.3
    assert np.mean(np.abs(new_y - mean) < 1.96 * sd) > 0.85
    assert np.corrcoef(local.predict_interval(new_X)[0], mean)[0, 1] > 0.9
    np.testing.assert_allclose(local.predict_cdf(new_X, mean), 0.5, atol=1e-9)


def test_the_partition_is_made_anew_half_way(local, wiggly):
    partition = local.trace_["partition"]
    assert partition[0] == 0
    assert partition[-1] == 1
    assert local.n_iter_ == len(partition) - 2 <= 20
    last = local.trace_["objective"][partition == 1].max()
    assert last - 1e-6 <= local.objective_ < last + 0.1 * abs(last)  # a line search may see better than it ends with
    shown = gather(local, *wiggly[:2], target="y").training.traces[0]
    assert shown.name == "objective"
    assert len(shown.values) == np.sum(partition == 1)
    assert shown.steps[-1] == local.n_iter_


def test_one_lengthscale_needs_no_second_partition(wiggly):
    kernel = tgp.kernels.Matern32(lengthscale=0.3)
    model = tgp.SparseGPRegressor(n_inducing=8, max_iter=3, kernel=kernel).fit(*wiggly[:2])
    assert "partition" not in model.trace_


def test_joint_answers_use_neighbours_too(local, wiggly):
    new = wiggly[2][:6]
    mean, sd, cov = local.predict(new, return_std=True, return_cov=True, include_noise=False)
    # All six are given the neighbours of all six, which are more than each one's own.
    assert np.all(np.diag(cov) <= sd**2 * 1.05)
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), sd, rtol=0.3)
    draws = local.sample_y(new, 4000)
    np.testing.assert_allclose(draws.mean(axis=1), mean, atol=0.3)


@pytest.mark.parametrize("value", [-1, 2.5, "64", None])
def test_what_is_no_number_of_neighbours_is_refused(value, wiggly):
    with pytest.raises(ValueError, match="neighbours must be a whole number"):
        tgp.SparseGPRegressor(neighbours=value).fit(*wiggly[:2])


def test_files_with_and_without_rows(local, wiggly, tmp_path):
    new = wiggly[2]
    tgp.save(local, tmp_path / "with")
    tgp.save(local, tmp_path / "without", training_rows=False)
    assert local.posterior_.training is not None
    assert (tmp_path / "without").stat().st_size < (tmp_path / "with").stat().st_size - 200 * 3 * 8
    np.testing.assert_array_equal(tgp.load(tmp_path / "with").predict(new), local.predict(new))
    bare = tgp.load(tmp_path / "without")
    with pytest.raises(ValueError, match=r"neighbours=64 needs the training rows.*set_params\(neighbours=0\)"):
        bare.predict(new)
    globally = bare.set_params(neighbours=0).predict(new)
    np.testing.assert_array_equal(globally, local.set_params(neighbours=0).predict(new))
    local.set_params(neighbours=64)


def test_power_ep_is_told_from_a_bound(wiggly):
    model = tgp.SparseGPRegressor(n_inducing=8, max_iter=6, bound="power_ep").fit(*wiggly[:2])
    assert not model.model_.bound.is_bound
    assert "PowerEP(0.5, block=64) (no bound)" in repr(model.model_)
    assert model.objective_ == model.evidence_bracket_.lower
    assert model.objective_ != pytest.approx(model.trace_["objective"][-1])
    assert gather(model, *wiggly[:2], target="y").training.traces[0].name == "energy"
    with pytest.raises(ValueError, match=r"no q\(f\|u\)"):
        tgp.SparseGPRegressor(n_inducing=8, bound="power_ep", method="minibatch").fit(*wiggly[:2])


def test_scales_are_those_of_single_rows(local, wiggly):
    left = np.asarray(local.posterior_.residual_variance(local.encoding_.transform(wiggly[0])))
    np.testing.assert_allclose(local.scales_, 1 / (1 + left / float(local.posterior_.noise_variance)))


def test_frozen_lengthscales_need_no_second_partition(wiggly):
    kernel = tgp.freeze(tgp.kernels.Matern32(lengthscale=[0.3, 3.0]), "lengthscale")
    model = tgp.SparseGPRegressor(n_inducing=8, max_iter=3, kernel=kernel).fit(*wiggly[:2])
    assert "partition" not in model.trace_
    assert model.n_iter_ == 3


def test_joint_answers_use_as_many_neighbours_as_are_feasible(local, wiggly, monkeypatch):
    features = local.encoding_.transform(wiggly[2])
    assert local._neighbours_used(jointly=features) == 64
    monkeypatch.setattr("tightgp.posterior.local.MAX_JOINT", 50)
    assert 0 < local._neighbours_used(jointly=features) < 64
    assert local.predict(wiggly[2], return_cov=True)[1].shape == (40, 40)
    monkeypatch.setattr("tightgp.posterior.local.MAX_JOINT", 0)
    assert local._neighbours_used(jointly=features) is None
