"""One prediction answers every question, and the estimators' own methods give the same answers."""

import numpy as np
import pytest
from scipy import stats

import tightgp as tgp
from tests.estimators.conftest import SMALL
from tightgp.estimators.distributions import ClassPrediction, GaussianPrediction


@pytest.fixture(scope="module")
def regressor(table):
    return tgp.SparseGPRegressor(**SMALL, neighbours=8).fit(table.X, table.y)


@pytest.fixture(scope="module")
def counter(table):
    return tgp.SparseGPCountRegressor(**SMALL).fit(table.X, table.counts)


@pytest.mark.parametrize("which", ["regressor", "counter"])
def test_every_answer_is_that_of_the_estimator(request, which, table):
    model = request.getfixturevalue(which)
    prediction = model.predict_distribution(table.new)
    y = np.arange(len(table.new)) % 3
    mean, sd = model.predict(table.new, return_std=True)
    np.testing.assert_array_equal(prediction.mean, mean)
    np.testing.assert_array_equal(prediction.sd, sd)
    np.testing.assert_array_equal(prediction.quantile([0.1, 0.7]), model.predict_quantile(table.new, [0.1, 0.7]))
    np.testing.assert_array_equal(prediction.interval(0.8), model.predict_interval(table.new, 0.8))
    np.testing.assert_array_equal(prediction.cdf(y), model.predict_cdf(table.new, y))
    np.testing.assert_array_equal(prediction.log_density(y), model.log_density(table.new, y))
    np.testing.assert_array_equal(prediction.sample(3, 1), model.sample_y(table.new, 3, 1))


@pytest.mark.parametrize("which", ["regressor", "counter"])
def test_some_of_the_rows(request, which, table):
    prediction = request.getfixturevalue(which).predict_distribution(table.new)
    rows, some = [2, 0], prediction.take([2, 0])
    np.testing.assert_array_equal(some.mean, prediction.mean[rows])
    np.testing.assert_array_equal(some.quantile(0.3), prediction.quantile(0.3)[rows])
    np.testing.assert_array_equal(some.log_density(1), prediction.log_density(1)[rows])
    np.testing.assert_array_equal(some.sample(2), prediction.sample(2)[rows])


def test_normal_distributions():
    mean, sd, y = (
        np.array([[0.0, 5.0], [1.0, -1.0]]),
        np.array([[1.0, 0.1], [2.0, 3.0]]),
        np.array([[0.3, 5.1], [1, 1]]),
    )
    prediction = GaussianPrediction(mean, sd, None)
    np.testing.assert_allclose(prediction.log_density(y), stats.norm.logpdf(y, mean, sd))
    np.testing.assert_allclose(prediction.cdf(y), stats.norm.cdf(y, mean, sd))
    np.testing.assert_allclose(prediction.quantile([0.2, 0.9])[..., 1], stats.norm.ppf(0.9, mean, sd))
    np.testing.assert_allclose(prediction.interval(0.5), stats.norm.interval(0.5, mean, sd))


def test_classes_are_drawn_with_their_probabilities():
    p = np.array([[0.7, 0.2, 0.1], [0.0, 0.5, 0.5]])
    with np.errstate(divide="ignore"):
        prediction = ClassPrediction(np.array(["a", "b", "c"]), np.log(p))
    draws = prediction.sample(4000, random_state=1)
    shares = np.stack([(draws == label).mean(axis=1) for label in prediction.classes], axis=1)
    np.testing.assert_allclose(shares, p, atol=0.03)
    assert prediction.mode.tolist() == ["a", "b"]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda p: p.quantile(1.0), "q must be a number between 0 and 1"),
        (lambda p: p.quantile([]), "q must be a number between 0 and 1"),
        (lambda p: p.interval(95), "level must lie between 0 and 1, such as 0.95; got 95"),
        (lambda p: p.cdf([1.0, 2.0, 3.0]), r"y must have shape \(2,\), like the predictions at X"),
        (lambda p: p.log_density(np.nan), "y has NaN"),
        (lambda p: p.sample(0), "n_samples must be a whole number"),
    ],
)
def test_bad_questions(ask, message):
    with pytest.raises(ValueError, match=message):
        ask(GaussianPrediction(np.zeros(2), np.ones(2), None))
