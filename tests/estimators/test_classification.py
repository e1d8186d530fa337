import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

import tightgp as tgp
from tests.estimators.conftest import SMALL
from tightgp.estimators import classification
from tightgp.estimators.distributions import class_log_probabilities


def test_labels_come_back_as_they_were(classifier, table):
    assert classifier.classes_.tolist() == ["no", "yes"]
    predicted = classifier.predict(table.X)
    assert set(predicted) == {"no", "yes"}
    assert np.mean(predicted == table.labels) == classifier.score(table.X, table.labels) > 0.7


def test_probabilities(classifier, table):
    p = classifier.predict_proba(table.new)
    assert p.shape == (9, 2)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    np.testing.assert_allclose(classifier.predict_log_proba(table.new), np.log(p))
    expected, _ = classifier.posterior_.predict_y(classifier.encoding_.transform(table.new))
    np.testing.assert_allclose(p[:, 1], expected)
    np.testing.assert_array_equal(classifier.predict(table.new), classifier.classes_[p.argmax(axis=1)])


def test_log_density_is_the_log_probability_of_the_label(classifier, table):
    labels = table.labels[:9]
    p = classifier.predict_proba(table.new)[np.arange(9), (labels == "yes").astype(int)]
    np.testing.assert_allclose(classifier.log_density(table.new, labels), np.log(p))
    with pytest.raises(ValueError, match="y has maybe in row 1, which is not one of classes_"):
        classifier.log_density(table.new, ["yes", "maybe", *["no"] * 7])
    with pytest.raises(ValueError, match=r"y must have shape \(9,\)"):
        classifier.log_density(table.new, table.labels)


def test_fitted_attributes(classifier, table):
    assert classifier.training_ == "Natural gradients and Adam, 50 steps on all rows: 40 rows are at most 4000."
    data = tgp.Dataset(classifier.encoding_.transform(table.X), (table.labels == "yes").astype(float))
    assert classifier.objective_ == pytest.approx(float(classifier.model_.elbo(data)), rel=1e-9)
    assert classifier.evidence_bracket_ is classifier.noise_variance_ is classifier.target_scale_ is None
    assert classifier.scales_.shape == (1,)
    assert classifier.n_iter_ == 50


def test_the_mean_gives_the_classes_their_rates():
    for link, probability in (("probit", special.ndtr), ("logit", special.expit)):
        likelihood, mean = classification.likelihood_and_mean(np.array([0.9, 0.1]), link)
        assert likelihood.link == link
        assert probability(float(mean.level)) == pytest.approx(0.1)
    rates = np.array([0.2, 0.5, 0.3])
    likelihood, mean = classification.likelihood_and_mean(rates, "probit")
    np.testing.assert_allclose(likelihood.moments(mean(np.zeros((1, 1))))[0][0], rates)


def test_both_links_predict():
    mean, var = jnp.array([[0.3], [-2.0]]), jnp.array([[0.5], [1.5]])
    for link in ("probit", "logit"):
        likelihood = tgp.likelihoods.Bernoulli(link)
        expected, _ = likelihood.predict(mean, var)
        got = np.exp(class_log_probabilities(likelihood, mean, var))
        np.testing.assert_allclose(got, np.concatenate([1 - expected, expected], axis=1))


@pytest.fixture(scope="module")
def of_three(table):
    return tgp.SparseGPClassifier(**SMALL).fit(table.X, table.three)


def test_three_classes(of_three, table):
    assert of_three.classes_.tolist() == ["high", "low", "mid"]
    assert of_three.score(table.X, table.three) > 0.7
    p = of_three.predict_proba(table.new)
    assert p.shape == (9, 3)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    assert of_three.scales_.shape == (3,)


def test_probabilities_of_several_classes_are_the_integral(of_three, table):
    mean, var = of_three.posterior_.predict_f(of_three.encoding_.transform(table.new))
    draws = np.random.default_rng(0).normal(size=(200_000, 1, 3))
    expected = special.softmax(np.asarray(mean) + np.sqrt(np.asarray(var)) * draws, axis=2).mean(axis=0)
    np.testing.assert_allclose(of_three.predict_proba(table.new), expected, atol=0.02)


def test_probabilities_of_a_row_do_not_depend_on_other_rows(of_three, table):
    together = of_three.predict_proba(table.new)
    np.testing.assert_allclose(of_three.predict_proba(table.new[[4]]), together[[4]], rtol=1e-9)
    np.testing.assert_allclose(of_three.predict_proba(table.new[::-1]), together[::-1], rtol=1e-9)


def test_bad_labels():
    with pytest.raises(ValueError, match="number of classes has to be greater than one; got 1 class: a"):
        tgp.SparseGPClassifier().fit([[0.0], [1.0]], ["a", "a"])
    with pytest.raises(ValueError, match="Unknown label type"):
        tgp.SparseGPClassifier().fit([[0.0], [1.0]], [0.5, 0.7])
