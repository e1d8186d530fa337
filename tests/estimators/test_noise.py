"""Student's t and heteroscedastic noise: recovered, calibrated, chosen, saved, and told."""

import time
import warnings

import numpy as np
import pytest

import tightgp as tgp
from tightgp.data import Dataset
from tightgp.estimators.exact import Exact
from tightgp.estimators.noise_function import noise_function
from tightgp.estimators.noise_training import NoiseTraining, learn_student_t
from tightgp.estimators.plan import Plan
from tightgp.estimators.start import Start
from tightgp.estimators.trained import train

N = 300


@pytest.fixture(scope="module")
def inputs():
    rng = np.random.default_rng(1)
    X = rng.uniform(-3, 3, (2 * N, 1))
    return X, np.sin(2 * X[:, 0]), rng


@pytest.fixture(scope="module")
def heavy(inputs):
    _, f, rng = inputs
    return f + 0.15 * rng.standard_t(2.5, 2 * N)


@pytest.fixture(scope="module")
def uneven(inputs):
    X, f, rng = inputs
    return f + 0.4 * np.exp(0.6 * X[:, 0] - 0.5) * rng.normal(size=2 * N)


def fit(X, y, **how):
    return tgp.SparseGPRegressor(**{"max_iter": 40, "target_transform": "none", **how}).fit(X[:N], y[:N])


def density(model, X, y):
    return float(np.mean(model.log_density(X[N:], y[N:])))


def check_coverage(prediction, y):
    for level in (0.5, 0.8, 0.95):
        low, high = prediction.interval(level)
        assert abs(np.mean((low < y) & (y < high)) - level) < 0.06


@pytest.fixture(scope="module")
def robust(inputs, heavy):
    return fit(inputs[0], heavy)


@pytest.fixture(scope="module")
def two_functions(inputs, uneven):
    return fit(inputs[0], uneven)


def test_heavy_tails_are_found_by_auto(inputs, heavy, robust, tmp_path):
    X, f, _ = inputs
    assert robust.noise_.name == "student-t"
    assert 1.8 < robust.noise_.df < 4
    assert robust.noise_.scale * robust.target_scale_ == pytest.approx(0.15, rel=0.3)
    assert "Student's distribution" in robust.training_
    gaussian = fit(X, heavy, noise="gaussian")
    assert gaussian.noise_ is None
    assert density(robust, X, heavy) > density(gaussian, X, heavy) + 0.1
    check_coverage(robust.predict_distribution(X[N:]), heavy[N:])
    errors = [np.mean((m.predict(X[N:], include_noise=False) - f[N:]) ** 2) for m in (robust, gaussian)]
    assert errors[0] < errors[1]
    tgp.save(robust, tmp_path / "model")
    loaded = tgp.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_interval(X[:5]), robust.predict_interval(X[:5]))


def test_noise_that_differs_is_found_by_auto(inputs, uneven, two_functions, tmp_path):
    X, _, _ = inputs
    assert two_functions.noise_.name == "heteroscedastic"
    truth = 0.4 * np.exp(0.6 * X[N:, 0] - 0.5)
    features = two_functions._features(X[N:])
    mean = (two_functions.predict(X[N:]) - two_functions.target_mean_) / two_functions.target_scale_
    found = np.sqrt(two_functions.noise_.variance(features, mean)) * two_functions.target_scale_
    assert np.mean(np.abs(np.log(found / truth))) < 0.3
    assert density(two_functions, X, uneven) > density(fit(X, uneven, noise="gaussian"), X, uneven) + 0.1
    prediction = two_functions.predict_distribution(X[N:])
    check_coverage(prediction, uneven[N:])
    order = np.argsort(X[N:, 0])
    for part in np.array_split(order, 3):
        low, high = prediction.take(part).interval(0.9)
        assert abs(np.mean((low < uneven[N:][part]) & (uneven[N:][part] < high)) - 0.9) < 0.09
    tgp.save(two_functions, tmp_path / "model")
    loaded = tgp.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_interval(X[:5]), two_functions.predict_interval(X[:5]))


def test_draws_and_covariances_have_the_predicted_spread(inputs, two_functions):
    X = inputs[0][:3]
    prediction = two_functions.predict_distribution(X)
    draws = prediction.sample(4000)
    np.testing.assert_allclose(draws.mean(axis=1), prediction.mean, atol=0.06)
    np.testing.assert_allclose(draws.std(axis=1), prediction.sd, rtol=0.12)
    mean, sd, cov = two_functions.predict(X, return_std=True, return_cov=True)
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), sd, rtol=1e-6)
    np.testing.assert_array_equal(mean, prediction.mean)


def test_gaussian_noise_stays_gaussian(inputs):
    X, f, rng = inputs
    y = f + 0.2 * rng.normal(size=2 * N)
    assert fit(X, y).noise_ is None


def test_a_transform_and_student_t_together(inputs, heavy):
    X = inputs[0]
    y = np.exp(heavy)
    model = fit(X, y, target_transform="log", noise="student-t")
    low, high = model.predict_interval(X[N:], 0.9)
    assert np.all(low > 0)
    assert abs(np.mean((low < y[N:]) & (y[N:] < high)) - 0.9) < 0.06
    assert np.all(np.isfinite(model.predict(X[N:], return_std=True)))
    assert model.predict(X[:3], return_cov=True)[1].shape == (3, 3)


def test_rows_with_neighbours_and_inducing_points(inputs, heavy):
    X = inputs[0]
    model = fit(X, heavy, noise="student-t", n_inducing=16, neighbours=16, max_iter=10)
    assert model.noise_.df < 5
    check_coverage(model.predict_distribution(X[N:]), heavy[N:])


def test_an_outlier_is_said_and_student_t_is_not_swayed(inputs):
    X, f, rng = inputs
    y = f + 0.2 * rng.normal(size=2 * N)
    clean = density(fit(X, y, noise="gaussian"), X, y)
    y[7], y[50] = 1e9, -3e8
    with pytest.warns(UserWarning, match='2 of 300 targets lie far.*noise="student-t"'):
        spoilt = fit(X, y, noise="gaussian")
    assert density(spoilt, X, y) < clean - 5
    for noise in ("student-t", "auto"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            good = fit(X, y, noise=noise, target_transform="auto")
        assert density(good, X, y) > clean - 0.12
        assert np.sqrt(np.mean((good.predict(X[N:]) - f[N:]) ** 2)) < 0.1


def test_weights_are_precisions(inputs):
    X, f, rng = inputs
    weights = np.where(X[:N, 0] > 0, 9.0, 1.0)
    y = f[:N] + 0.3 / np.sqrt(weights) * rng.normal(size=N)
    how = {"max_iter": 20, "target_transform": "none", "noise": "gaussian"}
    model = tgp.SparseGPRegressor(**how).fit(X[:N], y, sample_weight=weights)
    assert np.sqrt(model.noise_variance_) == pytest.approx(0.3, rel=0.15)
    weights[:30] = 0.0
    how["max_iter"] = 2
    some = tgp.SparseGPRegressor(**how).fit(X[30:N], y[30:], sample_weight=weights[30:])
    with_zeros = tgp.SparseGPRegressor(**how).fit(X[:N], y, sample_weight=weights)
    np.testing.assert_array_equal(some.predict(X[N:]), with_zeros.predict(X[N:]))
    with pytest.raises(ValueError, match="at least one non-zero"):
        tgp.SparseGPRegressor().fit(X[:N], y, sample_weight=np.zeros(N))


def test_weighted_rows_with_student_t(inputs, heavy):
    X = inputs[0]
    model = tgp.SparseGPRegressor(noise="student-t", max_iter=20)
    model.fit(X[:N], heavy[:N], sample_weight=np.full(N, 4.0))
    # A row of weight four has half of the scale of a new one.
    assert model.noise_.scale * model.target_scale_ == pytest.approx(0.3, rel=0.3)


def test_the_degrees_of_freedom_of_known_noise(rng):
    y = 0.5 * rng.standard_t(3.0, 4000)
    found = learn_student_t(y, np.zeros(4000), np.full(4000, 1e-9), np.ones(4000))
    assert found.df == pytest.approx(3.0, rel=0.15)
    assert found.scale == pytest.approx(0.5, rel=0.05)


def test_what_other_noise_needs(inputs, heavy):
    X = inputs[0][:N]
    with pytest.raises(ValueError, match="noise must be one of"):
        tgp.SparseGPRegressor(noise="cauchy").fit(X, heavy[:N])
    with pytest.raises(ValueError, match="needs one target a row"):
        tgp.SparseGPRegressor(noise="student-t").fit(X, np.stack([heavy[:N]] * 2, axis=1))
    with pytest.raises(ValueError, match="leave out noise_variance"):
        tgp.SparseGPRegressor(noise="heteroscedastic").fit(X, heavy[:N], noise_variance=np.ones(N))


def test_noise_is_gaussian_where_many_targets_are_equal(inputs):
    X = inputs[0][:120]
    one = tgp.SparseGPRegressor(max_iter=5).fit(X, np.eye(120)[7])
    constant = tgp.SparseGPRegressor(max_iter=5).fit(X, np.full(120, 3.0))
    for model, largest in ((one, 1.0), (constant, 3.0)):
        assert model.noise_ is None
        assert model.target_transform_.is_identity
        assert np.all(np.abs(model.predict(X)) <= largest + 1e-6)


def test_constant_errors_have_a_noise_function(inputs):
    X, zeros = inputs[0][:120], np.zeros(120)
    found = noise_function(X, zeros, zeros, zeros + 1e-6, zeros + 1, seed=0)
    assert np.all(np.isfinite(found.variance(X, zeros)))
    assert found.high < 0.01


def test_outliers_with_a_checkpoint(inputs, tmp_path):
    X, f, rng = inputs
    y = f[:N] + 0.2 * rng.normal(size=N)
    y[7] = 1e9
    model = tgp.SparseGPRegressor(kernel=tgp.kernels.Matern32(), max_iter=3, checkpoint=tmp_path).fit(X[:N], y)
    assert model.noise_.name == "student-t"


def test_the_first_partial_fit_leaves_room_for_more_rows(inputs, heavy):
    X = inputs[0]
    model = tgp.SparseGPRegressor(max_iter=5, target_transform="none").partial_fit(X[:200], heavy[:200])
    assert model.noise_ is None
    assert model.noise == "auto"
    model.partial_fit(X[200:], heavy[200:])


def test_outliers_of_several_outputs_are_said_without_other_noise(inputs):
    X, y = inputs[0][:120], np.stack([inputs[1][:120]] * 2, axis=1)
    y[7, 0] = 1e9
    with pytest.warns(UserWarning, match="Correct or remove them$"):
        tgp.SparseGPRegressor(max_iter=2, target_transform="none").fit(X, y)


def test_short_trainings_leave_the_status_of_the_first(robust):
    assert robust.converged_
    assert robust.n_iter_ > 15


def test_rounds_end_with_the_time(inputs, heavy, robust):
    data = Dataset(inputs[0][:N], (heavy[:N] - robust.target_mean_) / robust.target_scale_)
    settings = tgp.SparseGPRegressor(time_limit=1e-3).check_parameters()
    plan = Plan("exact", 5, 1, "")
    trained = train(Exact(Start(robust.model_.kernel, 0.1), plan, "matern32"), data, settings)
    time.sleep(1e-3)
    found = NoiseTraining(data, None, settings).student_t(trained)
    assert found.noise.df < 6
    assert found.trained.model is trained.model
