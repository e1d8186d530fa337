"""Bad parameters are refused with a message; kernels and seeds to start from."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

import tightgp as tgp
from tightgp.estimators.settings import seed_of, start_kernel

X, Y = np.arange(12.0).reshape(6, 2), np.array([0, 1, 0, 2, 1, 0])
EVERY = (tgp.SparseGPRegressor, tgp.SparseGPClassifier, tgp.SparseGPCountRegressor)


@pytest.mark.parametrize("estimator", EVERY)
@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("n_inducing", 0, "n_inducing must be a whole number of at least 1, got 0"),
        ("n_inducing", 2.5, "n_inducing must be a whole number"),
        ("n_inducing", "many", "n_inducing must be a whole number of at least 1, 'auto' or None; got 'many'"),
        ("kernel", "rbk", "kernel must be None, one of 'matern12', .*; got 'rbk'"),
        ("kernel", RBF(), "or one of tightgp.kernels; got RBF"),
        ("kernel", tgp.kernels.Matern52(1.0, [1.0, 1.0, 1.0]), r"does not fit the 2 feature\(s\) .* \(x0, x1\)"),
        ("bound", "tight", "bound must be one of 'standard'"),
        ("method", "lbfgs", "method must be one of 'auto', .*'minibatch'; got 'lbfgs'"),
        ("max_iter", 0, "max_iter must be a whole number of at least 1"),
        ("batch_size", -1, "batch_size must be a whole number"),
        ("learning_rate", 0.0, "learning_rate must be positive"),
        ("learning_rate", "fast", "learning_rate must be one finite number"),
        ("max_inducing", None, "max_inducing must be a whole number"),
        ("tolerance", -0.1, "tolerance must be positive"),
        ("random_state", "dice", "random_state must be a whole number, None, a numpy RandomState"),
        ("checkpoint", 3, "checkpoint must be None or the name of a folder, got int"),
        ("checkpoint", __file__, "checkpoint must be a folder, but .* is a file"),
        ("resume", "yes", "resume must be True or False"),
        ("resume", True, "resume=True needs checkpoint="),
        ("verbose", -1, "verbose must be a whole number of at least 0"),
    ],
)
def test_bad_parameters(estimator, name, value, message):
    with pytest.raises(ValueError, match=message):
        estimator(**{name: value}).fit(X, Y)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (
            tgp.SparseGPRegressor(method="full"),
            "must be one of 'auto', 'exact', 'collapsed', 'minibatch'; got 'full'",
        ),
        (tgp.SparseGPClassifier(method="collapsed"), "method must be one of 'auto', 'full', 'minibatch'"),
        (tgp.SparseGPClassifier(link="cauchy"), "link must be one of 'probit', 'logit'; got 'cauchy'"),
        (tgp.SparseGPClassifier(bound="diagonal"), "bound='diagonal' needs Gaussian noise"),
        (
            tgp.SparseGPCountRegressor(likelihood="normal"),
            "likelihood must be one of 'auto', 'poisson', 'negative_binomial'",
        ),
        (tgp.SparseGPRegressor(method="minibatch", bound=tgp.PowerEP(0.5)), r"bound=PowerEP\(0.5\) has no q"),
    ],
)
def test_what_one_estimator_cannot_do(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(X, Y)


def test_kernels_to_start_from():
    names = ("a", "b", "c", "d", "e", "f", "g", "h", "i")
    for name, kind in (("matern12", tgp.kernels.Matern12), ("rational_quadratic", tgp.kernels.RationalQuadratic)):
        kernel = start_kernel(name, names)
        assert type(kernel) is kind
        np.testing.assert_allclose(kernel.lengthscale, np.full(9, 1.5))
    assert type(start_kernel(None, names)) is tgp.kernels.Matern32
    np.testing.assert_allclose(start_kernel(None, ("a",)).lengthscale, [1.0])
    own = tgp.kernels.Linear() + tgp.kernels.White(0.1)
    assert start_kernel(own, names) is own


def test_random_states():
    assert seed_of(3) == seed_of(3) != seed_of(4)
    assert seed_of(np.random.RandomState(3)) == seed_of(3)
    assert seed_of(np.random.default_rng(3)) == seed_of(np.random.default_rng(3)) != seed_of(np.random.default_rng(4))
    assert isinstance(seed_of(None), int)
