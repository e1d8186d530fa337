"""Regression: predictions, neighbours of the training rows, and mixed precision."""

import numpy as np
import pytest
from scipy import stats

import tightgp as tgp
from tests.estimators.conftest import SMALL
from tightgp.app.report import gather


def test_it_predicts(regressor, table):
    assert regressor.score(table.X, table.y) > 0.9
    low, high = regressor.predict_interval(table.X, level=0.95)
    assert 0.8 < np.mean((low <= table.y) & (table.y <= high)) <= 1
    assert regressor.noise_variance_ == pytest.approx(30**2, rel=0.8)
    assert regressor.target_mean_ == pytest.approx(table.y.mean())
    assert regressor.target_scale_ == pytest.approx(table.y.std())


def test_what_is_asked_for_is_what_comes(regressor, table):
    mean = regressor.predict(table.new)
    assert mean.shape == (9,)
    with_sd = regressor.predict(table.new, return_std=True)
    with_cov = regressor.predict(table.new, return_cov=True)
    both = regressor.predict(table.new, return_std=True, return_cov=True)
    np.testing.assert_array_equal(both[0], mean)
    np.testing.assert_array_equal(both[1], with_sd[1])
    np.testing.assert_allclose(both[2], with_cov[1])
    np.testing.assert_allclose(np.diag(both[2]), both[1] ** 2, rtol=3e-2)  # given all 40 rows, and the nearest 16


def test_noise_is_in_it_unless_it_is_left_out(regressor, table):
    _, sd, cov = regressor.predict(table.new, return_std=True, return_cov=True)
    _, less, less_cov = regressor.predict(table.new, return_std=True, return_cov=True, include_noise=False)
    np.testing.assert_allclose(sd**2 - less**2, regressor.noise_variance_, rtol=1e-6)
    np.testing.assert_allclose(cov - less_cov, regressor.noise_variance_ * np.eye(9), atol=1e-6)


def test_answers_are_in_the_units_of_the_targets(regressor, table):
    """A power of two scales the targets without rounding, so that every answer is scaled alike."""
    unit = 1024.0
    other = tgp.SparseGPRegressor(**SMALL).fit(table.X, unit * table.y)
    X, y = table.new, table.y[:9]
    same = {"rtol": 1e-9}
    mean, sd, cov = regressor.predict(X, return_std=True, return_cov=True)
    for got, expected in zip(
        other.predict(X, return_std=True, return_cov=True), (unit * mean, unit * sd, unit**2 * cov), strict=True
    ):
        np.testing.assert_allclose(got, expected, **same)
    np.testing.assert_allclose(other.predict_quantile(X, 0.1), unit * regressor.predict_quantile(X, 0.1), **same)
    np.testing.assert_allclose(other.log_density(X, unit * y), regressor.log_density(X, y) - np.log(unit), **same)
    np.testing.assert_allclose(other.predict_cdf(X, unit * y), regressor.predict_cdf(X, y), **same)
    np.testing.assert_allclose(other.sample_y(X, 3), unit * regressor.sample_y(X, 3), **same)
    assert other.noise_variance_ == pytest.approx(unit**2 * regressor.noise_variance_)
    assert other.objective_ == pytest.approx(regressor.objective_)


def test_targets_far_from_zero_are_no_trouble(regressor, table):
    other = tgp.SparseGPRegressor(**SMALL).fit(table.X, table.y + 1e6)
    np.testing.assert_allclose(other.predict(table.new) - 1e6, regressor.predict(table.new), rtol=1e-3)


def test_the_density_integrates_to_one_and_is_the_normal_one(regressor, table):
    mean, sd = regressor.predict(table.new[:1], return_std=True)
    y = np.linspace(mean[0] - 9 * sd[0], mean[0] + 9 * sd[0], 400)
    density = np.exp(regressor.log_density(np.repeat(table.new[:1], 400, axis=0), y))
    assert np.trapezoid(density, y) == pytest.approx(1, abs=1e-9)
    np.testing.assert_allclose(density, stats.norm.pdf(y, mean, sd), rtol=1e-7)


def test_quantiles_and_probabilities_are_inverse(regressor, table):
    q = [0.025, 0.3, 0.5, 0.975]
    y = regressor.predict_quantile(table.new, q)
    assert y.shape == (9, 4)
    for i, level in enumerate(q):
        np.testing.assert_allclose(regressor.predict_cdf(table.new, y[:, i]), level, rtol=1e-9)
    np.testing.assert_array_equal(regressor.predict_quantile(table.new, 0.3), y[:, 1])
    np.testing.assert_allclose(y[:, 2], regressor.predict(table.new))
    np.testing.assert_allclose(np.stack(regressor.predict_interval(table.new, 0.95), axis=1), y[:, [0, 3]])
    assert regressor.predict_cdf(table.new, 0.0).shape == (9,)


def test_draws_have_the_moments_of_the_predictions(regressor, table):
    draws = regressor.sample_y(table.new, 4000, random_state=3)
    assert draws.shape == (9, 4000)
    mean, cov = regressor.predict(table.new, return_cov=True)
    sd = np.sqrt(np.diag(cov))
    assert np.all(np.abs(draws.mean(axis=1) - mean) < 5 * sd / np.sqrt(4000))
    np.testing.assert_allclose(np.cov(draws) / np.outer(sd, sd), cov / np.outer(sd, sd), atol=0.1)
    np.testing.assert_array_equal(draws, regressor.sample_y(table.new, 4000, random_state=3))
    assert not np.array_equal(draws, regressor.sample_y(table.new, 4000, random_state=4))


def test_what_is_remembered(regressor, table):
    assert regressor.n_inducing_ == 8
    assert regressor.training_.startswith(
        "Collapsed bound by at most 50 iterations of L-BFGS: a pass over 40 rows with 8"
    )
    assert not regressor.model_.bound.is_bound
    assert regressor.evidence_bracket_ is None
    data = tgp.Dataset(regressor.encoding_.transform(table.X), (table.y - table.y.mean()) / table.y.std())
    assert regressor.objective_ == pytest.approx(float(regressor.model_.elbo(data)), rel=1e-9)
    assert regressor.trace_["objective"][-1] == pytest.approx(regressor.objective_)
    assert 1 <= regressor.n_iter_ == max(1, len(regressor.trace_["objective"]) - 1) <= 50
    assert regressor.posterior_.training.rows.X.shape == data.X.shape
    used = regressor.posterior_.neighbours
    assert used in (16, 39)  # of all others, where there are fewer than the numbers tried
    assert regressor.training_.endswith(f"Predictions also use the {used} nearest training rows.")
    assert regressor.scales_ is None
    assert [entry["n_inducing"] for entry in regressor.inducing_path_] == [8]
    assert regressor.inducing_path_[0]["bound"] == regressor.objective_
    assert regressor.inducing_message_ == "n_inducing=8 as asked for"
    scales = np.asarray(regressor.model_.kernel.length_scales(2))
    assert regressor.relevance_ == pytest.approx({"x0": 1 / scales[0], "x1": 1 / scales[1]})
    assert regressor.seconds_ > 0


@pytest.fixture(scope="module")
def batched(table):
    return tgp.SparseGPRegressor(n_inducing=8, method="minibatch", batch_size=16, max_iter=60).fit(table.X, table.y)


def test_minibatches_come_to_much_the_same(batched, regressor, table):
    assert batched.score(table.X, table.y) > 0.9
    assert np.corrcoef(batched.predict(table.new), regressor.predict(table.new))[0, 1] > 0.97
    said = "Natural gradients and Adam, 60 passes through minibatches of at most 16 rows (180 steps)"
    assert batched.training_.startswith(f"{said}: asked for by method='minibatch'. Predictions also use")
    assert batched.evidence_bracket_ is None
    assert batched.n_iter_ == 60


def test_with_minibatches_bound_and_scales_are_of_all_rows(batched, table):
    data = tgp.Dataset(batched.encoding_.transform(table.X), (table.y - table.y.mean()) / table.y.std())
    assert batched.objective_ == pytest.approx(float(batched.model_.elbo(data)), rel=1e-9)
    left = np.asarray(batched.posterior_.residual_variance(data.X))
    noise = batched.noise_variance_ / batched.target_scale_**2
    np.testing.assert_allclose(batched.scales_, 1 / (1 + left / noise))


@pytest.mark.parametrize("method", ["collapsed", "minibatch"])
def test_several_outputs(table, method):
    Y = np.stack([table.y, -2 * table.y + 1, np.full(40, 3.0)], axis=1)
    model = tgp.SparseGPRegressor(n_inducing=8, max_iter=20, method=method, batch_size=20).fit(table.X, Y)
    mean, sd, cov = model.predict(table.new, return_std=True, return_cov=True)
    assert mean.shape == sd.shape == (9, 3)
    assert cov.shape == (9, 9, 3)
    np.testing.assert_allclose(mean[:, 1], 1 - 2 * mean[:, 0], rtol=1e-6)
    np.testing.assert_allclose(sd[:, 1], 2 * sd[:, 0], rtol=1e-6)
    np.testing.assert_allclose(mean[:, 2], 3, atol=1e-6)
    np.testing.assert_allclose(np.diagonal(cov), (sd**2).T, rtol=3e-2, atol=1e-9)  # from all neighbours together
    assert model.predict_quantile(table.new, [0.1, 0.9]).shape == (9, 3, 2)
    assert model.predict_quantile(table.new, 0.1).shape == (9, 3)
    assert model.predict_cdf(table.new, mean) == pytest.approx(np.full((9, 3), 0.5))
    expected = stats.norm.logpdf(Y[:9], mean, sd)
    np.testing.assert_allclose(model.log_density(table.new, Y[:9]), expected, rtol=1e-6)
    assert model.sample_y(table.new, 5).shape == (9, 3, 5)
    assert np.shape(model.noise_variance_) == np.shape(model.target_scale_) == (3,)


def test_constant_targets(table):
    model = tgp.SparseGPRegressor(**SMALL).fit(table.X, np.full(40, 1e9))
    np.testing.assert_allclose(model.predict(table.new), 1e9)
    assert model.target_scale_ == 1


def test_what_is_no_bound(table):
    model = tgp.SparseGPRegressor(n_inducing=8, max_iter=5, bound=tgp.PowerEP(0.5)).fit(table.X, table.y)
    assert model.model_.bound.name == "PowerEP(0.5)"
    assert model.scales_ is None
    assert model.objective_ == pytest.approx(model.trace_["objective"][-1])
    assert model.evidence_bracket_ is None


def test_questions_that_make_no_sense(regressor, table):
    with pytest.raises(ValueError, match="q must be a number between 0 and 1"):
        regressor.predict_quantile(table.new, [0.1, 1.0])
    with pytest.raises(ValueError, match=r"level must lie between 0 and 1, such as 0\.95; got 95"):
        regressor.predict_interval(table.new, 95)
    with pytest.raises(ValueError, match=r"y must have shape \(9,\), like the predictions at X; got \(40,\)"):
        regressor.log_density(table.new, table.y)
    with pytest.raises(ValueError, match="y has NaN"):
        regressor.predict_cdf(table.new, np.nan)
    with pytest.raises(ValueError, match="n_samples must be a whole number"):
        regressor.sample_y(table.new, 0)


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


def test_neighbours_are_the_default_and_help(local, wiggly):
    X, y, new_X, new_y = wiggly
    assert local.model_.bound.name == "vecchia"
    assert local.training_.endswith(f" Predictions also use the {local.posterior_.neighbours} nearest training rows.")
    near = local.log_density(new_X, new_y).mean()
    mean, sd = local.predict(new_X, return_std=True)
    everywhere = tgp.SparseGPRegressor(n_inducing=8, max_iter=20, neighbours=0).fit(X, y)
    assert everywhere.posterior_.training is None
    assert near > everywhere.log_density(new_X, new_y).mean() + 0.3
    assert np.mean(np.abs(new_y - mean) < 1.96 * sd) > 0.85
    assert np.corrcoef(local.predict_interval(new_X)[0], mean)[0, 1] > 0.9
    np.testing.assert_allclose(local.predict_cdf(new_X, mean), 0.5, atol=1e-9)


def test_neighbours_are_searched_once_with_the_lengthscales_of_the_start(local, wiggly):
    assert "partition" not in local.trace_
    assert local.n_iter_ == max(1, len(local.trace_["objective"]) - 1) <= 20
    last = local.trace_["objective"].max()
    assert last - 1e-6 <= local.objective_ < last + 0.1 * abs(last)  # a line search may see better than it ends with
    shown = gather(local, *wiggly[:2], target="y").training.traces[0]
    assert shown.name == "energy"  # no bound
    assert len(shown.values) == len(local.trace_["objective"])


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
    with pytest.raises(ValueError, match=r"neighbours='auto' needs the training rows.*set_params\(neighbours=0\)"):
        bare.predict(new)
    globally = bare.set_params(neighbours=0).predict(new)
    np.testing.assert_array_equal(globally, local.set_params(neighbours=0).predict(new))
    local.set_params(neighbours="auto")


def test_power_ep_is_told_from_a_bound(wiggly):
    model = tgp.SparseGPRegressor(n_inducing=8, max_iter=6, bound="power_ep").fit(*wiggly[:2])
    assert not model.model_.bound.is_bound
    assert "PowerEP(0.5, block=64) (no bound)" in repr(model.model_)
    assert model.objective_ == pytest.approx(model.trace_["objective"][-1])
    assert model.evidence_bracket_ is None
    assert gather(model, *wiggly[:2], target="y").training.traces[0].name == "energy"
    with pytest.raises(ValueError, match=r"no q\(f\|u\)"):
        tgp.SparseGPRegressor(n_inducing=8, bound="power_ep", method="minibatch").fit(*wiggly[:2])


def test_scales_are_those_of_single_rows(wiggly):
    model = tgp.SparseGPRegressor(n_inducing=8, max_iter=3, bound="neighbours").fit(*wiggly[:2])
    left = np.asarray(model.posterior_.residual_variance(model.encoding_.transform(wiggly[0])))
    np.testing.assert_allclose(model.scales_, 1 / (1 + left / float(model.posterior_.noise_variance)), rtol=1e-6)


def test_frozen_lengthscales_need_no_second_partition(wiggly):
    kernel = tgp.freeze(tgp.kernels.Matern32(lengthscale=[0.3, 3.0]), "lengthscale")
    model = tgp.SparseGPRegressor(n_inducing=8, max_iter=3, kernel=kernel).fit(*wiggly[:2])
    assert "partition" not in model.trace_
    assert model.n_iter_ == 3


def test_joint_answers_use_as_many_neighbours_as_are_feasible(local, wiggly, monkeypatch):
    features = local.encoding_.transform(wiggly[2])
    used = local.posterior_.neighbours
    assert local.neighbours_used(jointly=features) == used
    monkeypatch.setattr("tightgp.posterior.local.MAX_JOINT", 50)
    assert 0 < local.neighbours_used(jointly=features) < used
    assert local.predict(wiggly[2], return_cov=True)[1].shape == (40, 40)
    monkeypatch.setattr("tightgp.posterior.local.MAX_JOINT", 0)
    assert local.neighbours_used(jointly=features) == 0


def test_known_noise_of_each_row(table):
    """Rows of which nothing is known to be right hardly count; with known noise of zero nothing changes."""
    known = np.zeros(40)
    same = tgp.SparseGPRegressor(**SMALL, target_transform="none").fit(table.X, table.y, noise_variance=known)
    plain = tgp.SparseGPRegressor(**SMALL, target_transform="none").fit(table.X, table.y)
    np.testing.assert_allclose(same.predict(table.new), plain.predict(table.new), rtol=1e-5)
    y, known = table.y.copy(), np.zeros(40)
    y[::8], known[::8] = y[::8] + 1000, 1e8
    misled = tgp.SparseGPRegressor(**SMALL).fit(table.X, y)
    warned = tgp.SparseGPRegressor(**SMALL).fit(table.X, y, noise_variance=known)
    error, without = (np.abs(model.predict(table.new) - plain.predict(table.new)).mean() for model in (warned, misled))
    assert error < 0.5 * without
    for bad, message in [
        (known[:3], r"noise_variance must have shape \(40,\)"),
        (-1 - known, "noise_variance"),
    ]:
        with pytest.raises(ValueError, match=message):
            tgp.SparseGPRegressor(**SMALL).fit(table.X, y, noise_variance=bad)
    with pytest.raises(ValueError, match="pass target_transform='none'"):
        tgp.SparseGPRegressor(**SMALL, target_transform="sqrt").fit(table.X, y, noise_variance=known)


@pytest.mark.parametrize(
    "options", [{}, {"n_inducing": 8, "bound": "diagonal", "neighbours": 6}], ids=["exact", "sparse with neighbours"]
)
def test_partial_fit_is_the_posterior_of_all_rows(options):
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (60, 2))
    y = 3.0 + np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=60)
    model = tgp.SparseGPRegressor(max_iter=5, target_transform="none", **options).fit(X[:40], y[:40])
    model.predict(X[:4])  # prepares the search for neighbours
    assert model.partial_fit(X[40:41], y[40:41]).partial_fit(X[41:], y[41:]) is model

    def batch(first):
        z = (y[first:] - model.target_mean_) / model.target_scale_
        return model.model_.posterior(tgp.Dataset(model.encoding_.transform(X[first:]), z))

    how = {"neighbours": 6} if options else {}
    mean, var = batch(0).predict_y(model.encoding_.transform(X[:4]), **how)
    ours, sd = model.predict(X[:4], return_std=True)
    np.testing.assert_allclose(ours, mean * model.target_scale_ + model.target_mean_, rtol=1e-6)
    np.testing.assert_allclose(sd, np.sqrt(var) * model.target_scale_, rtol=1e-6)

    forgetful = model.partial_fit(X[59:], y[59:], window=30)
    assert forgetful.posterior_.training is None or forgetful.posterior_.training.rows.num_rows == 30
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:3, :1], y[:3])
    with pytest.raises(ValueError, match="y must have shape"):
        model.partial_fit(X[:3], np.zeros((3, 2)))


def test_partial_fit_first_fits():
    X = np.linspace(0, 1, 12)[:, None]
    model = tgp.SparseGPRegressor(max_iter=3).partial_fit(X, X[:, 0])
    assert model.posterior_ is not None
