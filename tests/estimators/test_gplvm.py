"""The Bayesian GP-LVM as an estimator."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import norm, spearmanr
from sklearn.utils.estimator_checks import parametrize_with_checks

import tightgp as tgp
from tightgp.estimators import latent_training

#: All tests share these sizes, because most of the time goes into compiling.
SMALL = {"n_components": 2, "n_inducing": 10}


@parametrize_with_checks([tgp.BayesianGPLVM(n_components=1, n_inducing=5, max_iter=15)], legacy=False)
def test_sklearn(estimator, check):
    check(estimator)


def curve(t, rng):
    """A curve in six columns of different units."""
    clean = np.stack([np.sin(t), t, np.tanh(t), 0.3 * t**2 + t, np.sin(t + 0.5), t - 0.2 * np.cos(2 * t)], axis=1)
    return 1000 + np.array([1.0, 10.0, 100.0, 1.0, 10.0, 100.0]) * (clean + 0.05 * rng.normal(size=clean.shape))


@pytest.fixture(scope="module")
def data():
    """Forty rows along the curve, twelve new ones, and a copy of each with missing cells."""
    rng = np.random.default_rng(3)
    t, new_t = rng.uniform(-1.5, 1.5, 40), rng.uniform(-1.3, 1.3, 12)
    X, new = curve(t, rng), curve(new_t, rng)
    missing, new_missing = rng.random(X.shape) < 0.1, np.arange(12)[:, None] % 6 == np.arange(6)
    return SimpleNamespace(
        t=t,
        X=X,
        X_missing=np.where(missing, np.nan, X),
        new_t=new_t,
        new=new,
        new_missing=np.where(new_missing, np.nan, new),
    )


@pytest.fixture(scope="module")
def fitted(data):
    return tgp.BayesianGPLVM(**SMALL, max_iter=400).fit(data.X)


def test_curve_is_unrolled_and_the_other_latent_input_switched_off(data, fitted):
    assert abs(spearmanr(fitted.embedding_[:, 0], data.t).statistic) > 0.99
    assert fitted.relevance_[0] > 5 * fitted.relevance_[1]
    np.testing.assert_allclose(fitted.relevance_, fitted.model_.relevance)
    assert fitted.embedding_std_[:, 0].max() < 0.3 < 0.6 < fitted.embedding_std_[:, 1].min()
    noise = np.sqrt(fitted.noise_variance_) / np.array([1.0, 10.0, 100.0, 1.0, 10.0, 100.0])
    assert np.all((noise > 0.02) & (noise < 0.12))
    assert "Collapsed bound by at most 400 iterations of L-BFGS: a pass over 40 rows with 10" in fitted.training_
    assert fitted.scales_.shape == (40,)
    assert np.all((fitted.scales_ > 0) & (fitted.scales_ <= 1))
    latent = tgp.Dataset.latent((data.X - fitted.feature_mean_) / fitted.feature_scale_, 2)
    assert float(fitted.model_.elbo(latent)) == pytest.approx(fitted.objective_)  # also in the order of relevance


def test_most_relevant_latent_input_comes_first(data, fitted):
    """But a kernel object keeps its order."""
    kernel = tgp.freeze(tgp.kernels.SquaredExponential(1.0, [9.0, 1.0]), "lengthscale")
    turned = tgp.BayesianGPLVM(**SMALL, max_iter=20, kernel=kernel).fit(data.X)
    assert fitted.relevance_[0] > fitted.relevance_[1]
    assert turned.relevance_[0] < turned.relevance_[1]
    reordered = latent_training.order_by_relevance(turned.model_)
    np.testing.assert_allclose(reordered.relevance, turned.relevance_[::-1])
    latent = tgp.Dataset.latent((data.X - turned.feature_mean_) / turned.feature_scale_, 2)
    assert float(reordered.elbo(latent)) == pytest.approx(turned.objective_)


def test_new_rows_are_placed_among_their_neighbours(data, fitted):
    mean, sd = fitted.transform(data.new, return_std=True)
    assert mean.shape == sd.shape == (12, 2)
    order = np.argsort(data.t)
    expected = np.interp(data.new_t, data.t[order], fitted.embedding_[order, 0])
    assert np.abs(mean[:, 0] - expected).max() < 0.3
    again = fitted.transform(data.new[::-1])[::-1]
    np.testing.assert_allclose(again[:, 0], mean[:, 0], atol=1e-2)
    assert np.all(sd > 0)
    # the functions there are the rows again, up to noise
    there = fitted.inverse_transform(mean)
    assert np.all(np.std(there - data.new, axis=0) < 0.15 * np.std(data.new, axis=0))


def test_training_rows_keep_their_latent_inputs(data, fitted):
    mean, sd = fitted.transform(data.X[::-1], return_std=True)
    np.testing.assert_array_equal(mean, fitted.embedding_[::-1])
    np.testing.assert_allclose(sd, fitted.embedding_std_[::-1], rtol=1e-12)
    mixed = np.stack([data.X[7], data.new[0], data.X[3]])
    np.testing.assert_array_equal(fitted.transform(mixed)[[0, 2]], fitted.embedding_[[7, 3]])


def test_missing_cells_are_filled(data, fitted):
    filled, sd = fitted.reconstruct(data.new_missing, return_std=True)
    missing = np.isnan(data.new_missing)
    np.testing.assert_array_equal(filled[~missing], data.new[~missing])
    assert np.all(sd[~missing] == 0)
    errors = ((filled - data.new) / fitted.feature_scale_)[missing]
    means = ((fitted.feature_mean_ - data.new) / fitted.feature_scale_)[missing]
    assert np.sqrt(np.mean(errors**2)) < 0.3 * np.sqrt(np.mean(means**2))
    assert np.mean(np.abs(filled - data.new)[missing] < 3 * sd[missing]) > 0.8


def test_scores_are_bounds_on_the_density(data, fitted):
    """Given a latent input the columns are independent: their density is a sum over a fine grid of inputs."""
    each = fitted.score_samples(data.new_missing)
    assert fitted.score(data.new_missing) == pytest.approx(each.mean())
    one, two = np.linspace(-4, 4, 801), np.linspace(-4, 4, 21)
    grid = np.stack(np.meshgrid(one, two), axis=-1).reshape(-1, 2)
    mean, sd = fitted.inverse_transform(grid, return_std=True)
    prior = norm.logpdf(grid).sum(axis=1) + np.log((one[1] - one[0]) * (two[1] - two[0]))
    exact = [logsumexp(np.nansum(norm.logpdf(row, mean, sd), axis=1) + prior) for row in data.new_missing]
    assert np.all(each < exact)
    assert np.all(each > np.array(exact) - 1)


@pytest.fixture(scope="module")
def fitted_with_missing(data):
    return tgp.BayesianGPLVM(**SMALL, max_iter=200).fit(data.X_missing)


def test_missing_cells_in_training(data, fitted_with_missing):
    cells = int(np.isnan(data.X_missing).sum())
    missing = f"the collapsed bound needs every cell ({cells} missing)"
    said = f"200 steps on all rows: a pass over 40 rows with 10 inducing points is quick, and {missing}."
    assert said in fitted_with_missing.training_
    assert abs(spearmanr(fitted_with_missing.embedding_[:, 0], data.t).statistic) > 0.98
    filled = fitted_with_missing.reconstruct(data.X_missing)
    missing = np.isnan(data.X_missing)
    errors, means = (
        (filled - data.X) / fitted_with_missing.feature_scale_,
        (fitted_with_missing.feature_mean_ - data.X) / fitted_with_missing.feature_scale_,
    )
    assert np.sqrt(np.mean(errors[missing] ** 2)) < 0.4 * np.sqrt(np.mean(means[missing] ** 2))
    with pytest.raises(
        ValueError, match=f'method="collapsed" needs every cell, but {cells} of X are missing, the first'
    ):
        tgp.BayesianGPLVM(method="collapsed").fit(data.X_missing)


def test_minibatches_approach_the_collapsed_bound(data, fitted):
    model = tgp.BayesianGPLVM(**SMALL, method="minibatch", batch_size=20, max_iter=150).fit(data.X)
    assert "150 passes through minibatches of at most 20 rows (300 steps): asked for" in model.training_
    assert "It started from a model of 40 of the rows." in model.training_
    assert fitted.objective_ - 40 < model.objective_ < fitted.objective_ + 20
    assert abs(spearmanr(model.embedding_[:, 0], data.t).statistic) > 0.99
    assert model.scales_ is None


def test_large_tables_start_from_some_of_the_rows(data, monkeypatch):
    monkeypatch.setattr(latent_training, "FIRST_ROWS", 20)
    monkeypatch.setattr(latent_training, "FIRST_ROWS_PER_POINT", 2)
    model = tgp.BayesianGPLVM(**SMALL, max_iter=400, learning_rate=0.05).fit(data.X)  # small, as the rows are few
    assert model.training_.endswith("It started from a model of 20 of the rows.")
    assert abs(spearmanr(model.embedding_[:, 0], data.t).statistic) > 0.95


def test_extending_a_model_to_more_rows(data, fitted, fitted_with_missing):
    """An explicit q(u) has the bound of the trained model, and other rows start near their neighbours."""
    for model, X in ((fitted, data.X), (fitted_with_missing, data.X_missing)):
        Y = (X - model.feature_mean_) / model.feature_scale_
        latent, rows = tgp.Dataset.latent(Y, 2, missing=True), np.arange(40)
        first = tgp.Dataset.latent(Y, 2, missing=bool(np.any(np.isnan(X))))
        same = latent_training.extend(model.model_, first, rows, latent, collapsed=False)
        assert float(same.elbo(latent)) == pytest.approx(model.objective_, rel=1e-6)
    both = np.concatenate([data.new, data.X])
    latent = tgp.Dataset.latent((both - fitted.feature_mean_) / fitted.feature_scale_, 2)
    start = latent_training.extend(fitted.model_, latent.take(slice(12, None)), rows + 12, latent, collapsed=True)
    np.testing.assert_array_equal(start.inputs.mean[12:], fitted.embedding_)
    order = np.argsort(data.t)
    expected = np.interp(data.new_t, data.t[order], fitted.embedding_[order, 0])
    assert np.abs(np.asarray(start.inputs.mean)[:12, 0] - expected).max() < 0.4


def test_frames(data, fitted):
    names = [f"c{i}" for i in range(6)]
    frame = pd.DataFrame(data.X, columns=names, index=np.arange(40) + 100)
    model = tgp.BayesianGPLVM(**SMALL, max_iter=400).set_output(transform="pandas")
    there = model.fit_transform(frame)
    assert there.columns.tolist() == model.get_feature_names_out().tolist() == ["bayesiangplvm0", "bayesiangplvm1"]
    assert there.index.equals(frame.index)
    np.testing.assert_array_equal(there.to_numpy(), fitted.embedding_)
    lost = pd.DataFrame(data.new_missing, columns=names)
    filled, sd = model.reconstruct(lost, return_std=True)
    assert filled.columns.tolist() == sd.columns.tolist() == names
    np.testing.assert_array_equal(filled.to_numpy(), fitted.reconstruct(data.new_missing))
    with pytest.raises(ValueError, match="column 'c1' does not hold numbers"):
        tgp.BayesianGPLVM().fit(frame.assign(c1="warm"))
    with pytest.raises(ValueError, match="column 'c2' does not hold numbers"):
        tgp.BayesianGPLVM().fit(frame.assign(c2=pd.Timestamp("2024-01-01")))


def test_files(data, fitted, fitted_with_missing, tmp_path):
    for model in (fitted, fitted_with_missing):
        tgp.save(model, tmp_path / "model.safetensors")
        back = tgp.load(tmp_path / "model.safetensors")
        assert vars(back).keys() == vars(model).keys()
        for method in ("transform", "reconstruct", "score_samples"):
            np.testing.assert_array_equal(
                getattr(back, method)(data.new_missing), getattr(model, method)(data.new_missing)
            )
        np.testing.assert_array_equal(back.embedding_, model.embedding_)
        assert back.training_ == model.training_
    unfitted = tgp.BayesianGPLVM(3, kernel="squared_exponential").set_output(transform="pandas")
    tgp.save(unfitted, tmp_path / "model.safetensors")
    back = tgp.load(tmp_path / "model.safetensors")
    assert back.get_params() == unfitted.get_params()
    assert vars(back) == vars(unfitted)


def test_resume_from_a_checkpoint(data, fitted, tmp_path):
    part = tgp.BayesianGPLVM(**SMALL, max_iter=7, checkpoint=tmp_path).fit(data.X)
    assert part.message_ == "stopped at the limit of 7 steps"
    model = tgp.BayesianGPLVM(**SMALL, max_iter=400, checkpoint=tmp_path, resume=True).fit(data.X)
    np.testing.assert_array_equal(model.embedding_, fitted.embedding_)


def test_constant_columns_and_equal_rows(data):
    constant = np.concatenate([data.X[:, :5], np.full((40, 1), 7.25)], axis=1)
    model = tgp.BayesianGPLVM(**SMALL, max_iter=30).fit(constant)
    assert model.feature_scale_[5] == 1
    np.testing.assert_allclose(model.inverse_transform(model.embedding_)[:, 5], 7.25, atol=0.2)
    twice = np.repeat(data.X[:4], 10, axis=0)
    model = tgp.BayesianGPLVM(**SMALL, max_iter=30).fit(twice)
    assert model.n_inducing_ <= 4
    assert np.all(np.isfinite(model.embedding_))
    common = tgp.BayesianGPLVM(**SMALL, max_iter=3, standardise=False).fit(data.X)
    assert len(set(common.feature_scale_)) == 1
    assert common.feature_scale_[0] == pytest.approx(np.sqrt(np.mean(np.var(data.X, axis=0))))


def test_random_starts_do_not_lower_the_bound(data, fitted):
    model = tgp.BayesianGPLVM(**SMALL, max_iter=400, n_init=2).fit(data.X)
    assert model.objective_ >= fitted.objective_ - 1e-6


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("n_components", 0, "n_components must be a whole number of at least 1, got 0"),
        ("n_components", "many", "n_components must be a whole number"),
        ("n_inducing", "auto", "n_inducing must be a whole number"),
        ("n_inducing", 0, "n_inducing must be a whole number of at least 1, got 0"),
        ("kernel", "rbff", "kernel must be None, one of 'matern12', .*; got 'rbff'"),
        ("kernel", tgp.kernels.SquaredExponential(1.0, [1.0, 1.0, 1.0]), "kernel does not go with n_components=2"),
        ("bound", "tight", "bound must be one of 'standard'"),
        ("bound", "block", "bound must be 'diagonal', 'spherical' or 'standard', got 'block'"),
        ("bound", None, "bound must be one of 'standard'"),
        ("bound", tgp.PowerEP(0.5), "bound must be 'diagonal', 'spherical' or 'standard'"),
        ("standardise", "columns", "standardise must be one of True, False; got 'columns'"),
        ("method", "lbfgs", "method must be one of 'auto', 'collapsed', 'full', 'minibatch'; got 'lbfgs'"),
        ("max_iter", 0, "max_iter must be a whole number of at least 1"),
        ("n_init", 0, "n_init must be a whole number of at least 1"),
        ("batch_size", -1, "batch_size must be a whole number"),
        ("learning_rate", 0.0, "learning_rate must be positive"),
        ("random_state", "dice", "random_state must be a whole number, None, a numpy RandomState"),
        ("checkpoint", 3, "checkpoint must be None or the name of a folder, got int"),
        ("resume", True, "resume=True needs checkpoint="),
        ("verbose", -1, "verbose must be a whole number of at least 0"),
    ],
)
def test_bad_parameters(name, value, message):
    with pytest.raises(ValueError, match=message):
        tgp.BayesianGPLVM(**{name: value}).fit(np.arange(12.0).reshape(6, 2))


def test_bad_tables(fitted, data):
    with pytest.raises(ValueError, match="n_init=2 goes with training on all rows"):
        tgp.BayesianGPLVM(n_init=2, method="minibatch").fit(data.X)
    with pytest.raises(
        ValueError, match=r"kernel does not go with n_components=4 latent inputs: .* quadrature is for at"
    ):
        tgp.BayesianGPLVM(4, kernel="matern32").fit(data.X)
    empty = data.X.copy()
    empty[:, 2] = np.nan
    with pytest.raises(ValueError, match="column 'x2' has no values at all in the training rows"):
        tgp.BayesianGPLVM().fit(empty)
    empty = data.X.copy()
    empty[5] = np.nan
    for method in (tgp.BayesianGPLVM().fit, fitted.transform, fitted.reconstruct, fitted.score):
        with pytest.raises(ValueError, match=r"row 5 of X \(counted from 0\) has no values at all"):
            method(empty)
    with pytest.raises(ValueError, match=r"below 1e\+100 in size"):
        tgp.BayesianGPLVM().fit(np.where(data.X[2, 0] == data.X, 1e200, data.X))
    with pytest.raises(ValueError, match=r"X has 6 column\(s\) where 2 are expected"):
        fitted.inverse_transform(data.X)
