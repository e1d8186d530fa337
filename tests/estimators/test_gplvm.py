"""Rows among latent inputs."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp
from scipy.stats import norm, spearmanr
from sklearn.utils.estimator_checks import parametrize_with_checks

import tightgp as tgp
from tightgp.estimators import latent_training

#: Few settings, and few numbers of rows: most of the time goes into compiling.
SMALL = {"n_components": 2, "n_inducing": 10}


@parametrize_with_checks([tgp.BayesianGPLVM(n_components=1, n_inducing=5, max_iter=15)])
def test_sklearn(estimator, check):
    check(estimator)


def curve(t, rng):
    """A line that bends through six columns of different units."""
    clean = np.stack([np.sin(t), t, np.tanh(t), 0.3 * t**2 + t, np.sin(t + 0.5), t - 0.2 * np.cos(2 * t)], axis=1)
    return 1000 + np.array([1.0, 10.0, 100.0, 1.0, 10.0, 100.0]) * (clean + 0.05 * rng.normal(size=clean.shape))


@pytest.fixture(scope="module")
def made():
    """Forty rows along the curve, twelve others, and of each a copy with gaps."""
    rng = np.random.default_rng(3)
    t, new = rng.uniform(-1.5, 1.5, 40), rng.uniform(-1.3, 1.3, 12)
    X, other = curve(t, rng), curve(new, rng)
    gone, lost = rng.random(X.shape) < 0.1, np.arange(12)[:, None] % 6 == np.arange(6)
    return SimpleNamespace(
        t=t, X=X, gaps=np.where(gone, np.nan, X), new=new, other=other, lost=np.where(lost, np.nan, other)
    )


@pytest.fixture(scope="module")
def fitted(made):
    return tgp.BayesianGPLVM(**SMALL, max_iter=400).fit(made.X)


def test_a_curve_is_unrolled_and_what_is_not_needed_switched_off(made, fitted):
    assert abs(spearmanr(fitted.embedding_[:, 0], made.t).statistic) > 0.99
    assert fitted.relevance_[0] > 5 * fitted.relevance_[1]
    np.testing.assert_allclose(fitted.relevance_, fitted.model_.relevance)
    assert fitted.embedding_std_[:, 0].max() < 0.3 < 0.6 < fitted.embedding_std_[:, 1].min()
    noise = np.sqrt(fitted.noise_variance_) / np.array([1.0, 10.0, 100.0, 1.0, 10.0, 100.0])
    assert np.all((noise > 0.02) & (noise < 0.12))
    assert "Collapsed bound by at most 400 iterations of L-BFGS: 40 rows × 10² inducing points" in fitted.training_
    assert fitted.scales_.shape == (40,)
    assert np.all((fitted.scales_ > 0) & (fitted.scales_ <= 1))
    data = tgp.Dataset.latent((made.X - fitted.feature_mean_) / fitted.feature_scale_, 2)
    assert float(fitted.model_.elbo(data)) == pytest.approx(fitted.objective_)  # also in the order of relevance


def test_the_most_relevant_comes_first(made, fitted):
    """Whatever the order in which training left them; a kernel of one's own keeps its order."""
    kernel = tgp.freeze(tgp.kernels.SquaredExponential(1.0, [9.0, 1.0]), "lengthscale")
    turned = tgp.BayesianGPLVM(**SMALL, max_iter=20, kernel=kernel).fit(made.X)
    assert fitted.relevance_[0] > fitted.relevance_[1]
    assert turned.relevance_[0] < turned.relevance_[1]
    reordered = latent_training.by_relevance(turned.model_)
    np.testing.assert_array_equal(reordered.relevance, turned.relevance_[::-1])
    data = tgp.Dataset.latent((made.X - turned.feature_mean_) / turned.feature_scale_, 2)
    assert float(reordered.elbo(data)) == pytest.approx(turned.objective_)


def test_new_rows_lie_among_their_neighbours(made, fitted):
    mean, sd = fitted.transform(made.other, return_std=True)
    assert mean.shape == sd.shape == (12, 2)
    order = np.argsort(made.t)
    expected = np.interp(made.new, made.t[order], fitted.embedding_[order, 0])
    assert np.abs(mean[:, 0] - expected).max() < 0.3
    again = fitted.transform(made.other[::-1])[::-1]
    np.testing.assert_allclose(again[:, 0], mean[:, 0], atol=1e-2)
    assert np.all(sd > 0)
    # the functions there are the rows again, up to noise
    there = fitted.inverse_transform(mean)
    assert np.all(np.std(there - made.other, axis=0) < 0.15 * np.std(made.other, axis=0))


def test_training_rows_lie_where_training_put_them(made, fitted):
    mean, sd = fitted.transform(made.X[::-1], return_std=True)
    np.testing.assert_array_equal(mean, fitted.embedding_[::-1])
    np.testing.assert_allclose(sd, fitted.embedding_std_[::-1], rtol=1e-12)
    mixed = np.stack([made.X[7], made.other[0], made.X[3]])
    np.testing.assert_array_equal(fitted.transform(mixed)[[0, 2]], fitted.embedding_[[7, 3]])


def test_missing_cells_are_filled(made, fitted):
    filled, sd = fitted.reconstruct(made.lost, return_std=True)
    gone = np.isnan(made.lost)
    np.testing.assert_array_equal(filled[~gone], made.other[~gone])
    assert np.all(sd[~gone] == 0)
    off = ((filled - made.other) / fitted.feature_scale_)[gone]
    means = ((fitted.feature_mean_ - made.other) / fitted.feature_scale_)[gone]
    assert np.sqrt(np.mean(off**2)) < 0.3 * np.sqrt(np.mean(means**2))
    assert np.mean(np.abs(filled - made.other)[gone] < 3 * sd[gone]) > 0.8


def test_scores_bound_the_density_of_a_row(made, fitted):
    """Given a latent input the columns are independent: their density is a sum over a fine grid of inputs."""
    each = fitted.score_samples(made.lost)
    assert fitted.score(made.lost) == pytest.approx(each.mean())
    one, two = np.linspace(-4, 4, 801), np.linspace(-4, 4, 21)
    grid = np.stack(np.meshgrid(one, two), axis=-1).reshape(-1, 2)
    mean, sd = fitted.inverse_transform(grid, return_std=True)
    prior = norm.logpdf(grid).sum(axis=1) + np.log((one[1] - one[0]) * (two[1] - two[0]))
    exact = [logsumexp(np.nansum(norm.logpdf(row, mean, sd), axis=1) + prior) for row in made.lost]
    assert np.all(each < exact)
    assert np.all(each > np.array(exact) - 1)


@pytest.fixture(scope="module")
def with_gaps(made):
    return tgp.BayesianGPLVM(**SMALL, max_iter=200).fit(made.gaps)


def test_gaps_in_training(made, with_gaps):
    cells = int(np.isnan(made.gaps).sum())
    assert (
        f"200 steps on all rows: 40 rows × 10² inducing points = 0.004 million is at most 10 million, and {cells}"
        in (with_gaps.training_)
    )
    assert abs(spearmanr(with_gaps.embedding_[:, 0], made.t).statistic) > 0.98
    filled = with_gaps.reconstruct(made.gaps)
    gone = np.isnan(made.gaps)
    off, means = (
        (filled - made.X) / with_gaps.feature_scale_,
        (with_gaps.feature_mean_ - made.X) / with_gaps.feature_scale_,
    )
    assert np.sqrt(np.mean(off[gone] ** 2)) < 0.4 * np.sqrt(np.mean(means[gone] ** 2))
    with pytest.raises(
        ValueError, match=f'method="collapsed" needs every cell, but {cells} of X are missing, the first'
    ):
        tgp.BayesianGPLVM(method="collapsed").fit(made.gaps)


def test_minibatches_come_near_the_collapsed_bound(made, fitted):
    model = tgp.BayesianGPLVM(**SMALL, method="minibatch", batch_size=20, max_iter=150).fit(made.X)
    assert "150 passes through minibatches of at most 20 rows (300 steps): asked for" in model.training_
    assert "It began at what 40 of the rows led to." in model.training_
    assert fitted.objective_ - 40 < model.objective_ < fitted.objective_ + 20
    assert abs(spearmanr(model.embedding_[:, 0], made.t).statistic) > 0.99
    assert model.scales_ is None


def test_many_rows_begin_where_some_of_them_led(made, monkeypatch):
    monkeypatch.setattr(latent_training, "FIRST_ROWS", 20)
    monkeypatch.setattr(latent_training, "FIRST_SHARE", 2)
    model = tgp.BayesianGPLVM(**SMALL, max_iter=400, learning_rate=0.05).fit(made.X)  # small, as the rows are few
    assert model.training_.endswith("It began at what 20 of the rows led to.")
    assert abs(spearmanr(model.embedding_[:, 0], made.t).statistic) > 0.95


def test_rows_that_were_not_trained_begin_at_the_nearest(made, fitted, with_gaps):
    """An explicit q(u) begins at what was trained: the bound is the same, and other rows lie near their like."""
    for model, X in ((fitted, made.X), (with_gaps, made.gaps)):
        Y = (X - model.feature_mean_) / model.feature_scale_
        data, rows = tgp.Dataset.latent(Y, 2, missing=True), np.arange(40)
        few = tgp.Dataset.latent(Y, 2, missing=bool(np.any(np.isnan(X))))
        same = latent_training.spread_out(model.model_, few, rows, data, collapsed=False)
        assert float(same.elbo(data)) == pytest.approx(model.objective_, rel=1e-6)
    both = np.concatenate([made.other, made.X])
    data = tgp.Dataset.latent((both - fitted.feature_mean_) / fitted.feature_scale_, 2)
    start = latent_training.spread_out(fitted.model_, data.take(slice(12, None)), rows + 12, data, collapsed=True)
    np.testing.assert_array_equal(start.inputs.mean[12:], fitted.embedding_)
    order = np.argsort(made.t)
    expected = np.interp(made.new, made.t[order], fitted.embedding_[order, 0])
    assert np.abs(np.asarray(start.inputs.mean)[:12, 0] - expected).max() < 0.4


def test_which_way_is_chosen():
    def chosen(rows, size, gaps):
        model = tgp.BayesianGPLVM(n_inducing=size)
        return latent_training.plan_of(model._settings(), rows, size, gaps)

    assert chosen(20_000, 50, 0).method == "collapsed"
    assert chosen(20_001, 50, 0).method == "minibatch"
    assert chosen(4_000, 50, 3).method == "full"
    plan = chosen(40_000, 50, 3)
    assert (plan.method, plan.batches, plan.amount) == ("minibatch", 40, 75)
    assert "1e+02 million is more than 10 million, and 3 cells are missing" in plan.reason
    assert (latent_training.first_rows(999, 50, "collapsed"), latent_training.first_rows(1000, 50, "collapsed")) == (
        0,
        500,
    )
    assert (latent_training.first_rows(999, 50, "minibatch"), latent_training.first_rows(9999, 200, "full")) == (
        500,
        1000,
    )


def test_frames(made, fitted):
    names = [f"c{i}" for i in range(6)]
    frame = pd.DataFrame(made.X, columns=names, index=np.arange(40) + 100)
    model = tgp.BayesianGPLVM(**SMALL, max_iter=400).set_output(transform="pandas")
    there = model.fit_transform(frame)
    assert there.columns.tolist() == model.get_feature_names_out().tolist() == ["bayesiangplvm0", "bayesiangplvm1"]
    assert there.index.equals(frame.index)
    np.testing.assert_array_equal(there.to_numpy(), fitted.embedding_)
    lost = pd.DataFrame(made.lost, columns=names)
    filled, sd = model.reconstruct(lost, return_std=True)
    assert filled.columns.tolist() == sd.columns.tolist() == names
    np.testing.assert_array_equal(filled.to_numpy(), fitted.reconstruct(made.lost))
    with pytest.raises(ValueError, match="column 'c1' holds no numbers"):
        tgp.BayesianGPLVM().fit(frame.assign(c1="warm"))
    with pytest.raises(ValueError, match="column 'c2' holds no numbers"):
        tgp.BayesianGPLVM().fit(frame.assign(c2=pd.Timestamp("2024-01-01")))


def test_files(made, fitted, with_gaps, tmp_path):
    for model in (fitted, with_gaps):
        tgp.save(model, tmp_path / "model.safetensors")
        back = tgp.load(tmp_path / "model.safetensors")
        assert vars(back).keys() == vars(model).keys()
        for method in ("transform", "reconstruct", "score_samples"):
            np.testing.assert_array_equal(getattr(back, method)(made.lost), getattr(model, method)(made.lost))
        np.testing.assert_array_equal(back.embedding_, model.embedding_)
        assert back.training_ == model.training_
    unfitted = tgp.BayesianGPLVM(3, kernel="squared_exponential").set_output(transform="pandas")
    tgp.save(unfitted, tmp_path / "model.safetensors")
    back = tgp.load(tmp_path / "model.safetensors")
    assert back.get_params() == unfitted.get_params()
    assert vars(back) == vars(unfitted)


def test_a_fit_goes_on_from_its_checkpoint(made, fitted, tmp_path):
    part = tgp.BayesianGPLVM(**SMALL, max_iter=7, checkpoint=tmp_path).fit(made.X)
    assert part.message_ == "stopped at the limit of 7 steps"
    model = tgp.BayesianGPLVM(**SMALL, max_iter=400, checkpoint=tmp_path, resume=True).fit(made.X)
    np.testing.assert_array_equal(model.embedding_, fitted.embedding_)


def test_constant_columns_and_equal_rows(made):
    constant = np.concatenate([made.X[:, :5], np.full((40, 1), 7.25)], axis=1)
    model = tgp.BayesianGPLVM(**SMALL, max_iter=30).fit(constant)
    assert model.feature_scale_[5] == 1
    np.testing.assert_allclose(model.inverse_transform(model.embedding_)[:, 5], 7.25, atol=0.2)
    twice = np.repeat(made.X[:4], 10, axis=0)
    model = tgp.BayesianGPLVM(**SMALL, max_iter=30).fit(twice)
    assert model.n_inducing_ <= 4
    assert np.all(np.isfinite(model.embedding_))
    common = tgp.BayesianGPLVM(**SMALL, max_iter=3, standardise=False).fit(made.X)
    assert len(set(common.feature_scale_)) == 1
    assert common.feature_scale_[0] == pytest.approx(np.sqrt(np.mean(np.var(made.X, axis=0))))


def test_further_starts_do_not_lose(made, fitted):
    model = tgp.BayesianGPLVM(**SMALL, max_iter=400, n_init=2).fit(made.X)
    assert model.objective_ >= fitted.objective_ - 1e-6


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("n_components", 0, "n_components must be a whole number of at least 1, got 0"),
        ("n_components", "many", "n_components must be a whole number"),
        ("n_inducing", "auto", "n_inducing must be a whole number"),
        ("n_inducing", 0, "n_inducing must be a whole number of at least 1, got 0"),
        ("kernel", "rbf", "kernel must be None, one of 'matern12', .*; got 'rbf'"),
        ("kernel", tgp.kernels.SquaredExponential(1.0, [1.0, 1.0, 1.0]), "kernel does not go with n_components=2"),
        ("bound", "tight", "bound must be one of 'standard'"),
        ("bound", "block", "bound must be 'diagonal', 'spherical' or 'standard', got 'block'"),
        ("bound", None, "bound must be one of 'standard'"),
        ("bound", tgp.PowerEP(0.5), "bound must be 'diagonal', 'spherical' or 'standard'"),
        ("standardise", "columns", "standardise must be True or False"),
        ("method", "lbfgs", "method must be one of 'auto', 'collapsed', 'full', 'minibatch'; got 'lbfgs'"),
        ("max_iter", 0, "max_iter must be a whole number of at least 1"),
        ("n_init", 0, "n_init must be a whole number of at least 1"),
        ("batch_size", -1, "batch_size must be a whole number"),
        ("learning_rate", 0.0, "learning_rate must be positive"),
        ("random_state", "dice", "random_state must be a whole number, None or a numpy RandomState"),
        ("checkpoint", 3, "checkpoint must be None or the name of a folder, got int"),
        ("resume", True, "resume=True needs checkpoint="),
        ("verbose", -1, "verbose must be a whole number of at least 0"),
    ],
)
def test_bad_parameters(name, value, message):
    with pytest.raises(ValueError, match=message):
        tgp.BayesianGPLVM(**{name: value}).fit(np.arange(12.0).reshape(6, 2))


def test_bad_tables(fitted, made):
    with pytest.raises(ValueError, match="n_init=2 goes with training on all rows"):
        tgp.BayesianGPLVM(n_init=2, method="minibatch").fit(made.X)
    with pytest.raises(
        ValueError, match=r"kernel does not go with n_components=4 latent inputs: .* quadrature is for at"
    ):
        tgp.BayesianGPLVM(4, kernel="matern32").fit(made.X)
    empty = made.X.copy()
    empty[:, 2] = np.nan
    with pytest.raises(ValueError, match="column 'x2' has no values at all in the training rows"):
        tgp.BayesianGPLVM().fit(empty)
    empty = made.X.copy()
    empty[5] = np.nan
    for ask in (tgp.BayesianGPLVM().fit, fitted.transform, fitted.reconstruct, fitted.score):
        with pytest.raises(ValueError, match=r"row 5 of X \(counted from 0\) has no values at all"):
            ask(empty)
    with pytest.raises(ValueError, match=r"below 1e\+100 in size"):
        tgp.BayesianGPLVM().fit(np.where(made.X[2, 0] == made.X, 1e200, made.X))
    with pytest.raises(ValueError, match=r"X has 6 column\(s\) where 2 are expected"):
        fitted.inverse_transform(made.X)
