"""Ordered levels: their order, their probabilities by quadrature, and what does not depend on their labels."""

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtr

import tightgp as tgp
from tests.estimators.conftest import SMALL
from tightgp.estimators import ordered
from tightgp.estimators.distributions import class_log_probabilities

ORDER = ["low", "mid", "high"]


@pytest.fixture(scope="module")
def ordinal(table):
    """A model of the levels low, mid and high, whose alphabetical order is another one."""
    return tgp.SparseGPClassifier(**SMALL, likelihood="ordinal", levels=ORDER).fit(table.X, table.three)


def test_levels_stay_in_order(ordinal, table):
    assert ordinal.classes_.tolist() == ORDER
    assert isinstance(ordinal.model_.likelihood, tgp.likelihoods.Ordinal)
    assert ordinal.score(table.X, table.three) > 0.7
    p = ordinal.predict_proba(table.new)
    np.testing.assert_array_equal(ordinal.predict(table.new), np.array(ORDER)[p.argmax(axis=1)])
    labels = np.array(ORDER * 3)
    np.testing.assert_allclose(ordinal.log_density(table.new, labels), np.log(p[np.arange(9), np.tile([0, 1, 2], 3)]))


def test_probabilities_sum_to_one_and_are_the_integral(ordinal, table):
    p = ordinal.predict_proba(table.new)
    np.testing.assert_allclose(p.sum(axis=1), 1, rtol=1e-12)
    mean, var = ordinal.posterior_.predict_f(ordinal.encoding_.transform(table.new))
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    f = np.asarray(mean)[:, None] + np.sqrt(np.asarray(var))[:, None] * nodes
    upto = np.stack([ndtr(edge - f) @ weights / np.sqrt(2 * np.pi) for edge in ordinal.model_.likelihood.edges], axis=1)
    expected = np.diff(np.column_stack([np.zeros(9), upto, np.ones(9)]), axis=1)
    np.testing.assert_allclose(p, expected, atol=1e-8)


def test_far_levels_keep_their_digits():
    likelihood = tgp.likelihoods.Ordinal(edges=[-30.0, -29.0, 30.0])
    found = np.asarray(class_log_probabilities(likelihood, np.array([[0.0]]), np.array([[0.1]])))
    assert np.all(np.isfinite(found))
    assert found[0, 0] < -300
    assert found[0, 2] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("kind", ["numbers", "fractions", "categories"])
def test_monotone_relabelling_changes_nothing(ordinal, table, kind):
    codes = np.array([ORDER.index(label) for label in table.three])
    y, levels = {
        "numbers": (np.array([-7, 1, 100])[codes], None),
        "fractions": (np.array([0.5, 1.0, 2.5])[codes], [0.5, 1.0, 2.5]),
        "categories": (pd.Series(pd.Categorical(np.array(list("zyx"))[codes], list("zyx"), ordered=True)), None),
    }[kind]
    other = tgp.SparseGPClassifier(**SMALL, likelihood="ordinal", levels=levels).fit(table.X, y)
    np.testing.assert_allclose(other.predict_proba(table.new), ordinal.predict_proba(table.new), rtol=1e-9)
    assert other.classes_.tolist() == [np.asarray(y)[codes == k][0] for k in range(3)]
    assert other.score(table.X, y) == ordinal.score(table.X, table.three)


def test_turning_the_order_round_turns_the_probabilities(ordinal, table):
    turned = tgp.SparseGPClassifier(**SMALL, likelihood="ordinal", levels=ORDER[::-1]).fit(table.X, table.three)
    # The same model but for its start: f and −f are equally probable.
    np.testing.assert_allclose(turned.predict_proba(table.new)[:, ::-1], ordinal.predict_proba(table.new), atol=0.05)


def test_a_file_keeps_the_order(ordinal, table, tmp_path):
    tgp.save(ordinal, tmp_path / "levels.safetensors")
    loaded = tgp.load(tmp_path / "levels.safetensors")
    assert loaded.classes_.tolist() == loaded.levels == ORDER
    np.testing.assert_array_equal(loaded.predict_proba(table.new), ordinal.predict_proba(table.new))


def test_two_levels_are_two_classes(classifier, table):
    model = tgp.SparseGPClassifier(**SMALL, likelihood="ordinal", levels=["no", "yes"]).fit(table.X, table.labels)
    np.testing.assert_allclose(model.predict_proba(table.new), classifier.predict_proba(table.new), rtol=1e-9)


def test_levels_without_training_rows_are_no_classes():
    found = ordered.find_levels(np.array([3, 1, 3]), [1, 2, 3, 4])
    assert (found.classes.tolist(), found.codes.tolist(), found.counts.tolist()) == ([1, 3], [1, 0, 1], [1, 2])


def test_the_start_gives_levels_their_rates():
    rates = np.array([0.1, 0.2, 0.3, 0.4])
    likelihood = ordered.likelihood_of_levels(rates, 2.0)
    p = np.exp(class_log_probabilities(likelihood, np.zeros((1, 1)), np.full((1, 1), 2.0)))[0]
    np.testing.assert_allclose(p, rates, rtol=1e-9)
    rare = ordered.likelihood_of_levels(np.array([0.5, 1e-9, 0.5 - 1e-9]), 1.0)
    assert float(rare.gaps[0]) == pytest.approx(1e-3)


@pytest.mark.parametrize(
    ("options", "y", "message"),
    [
        ({}, ["b", "a", "c"], "y holds labels such as 'b', which have no order of their own: give levels="),
        ({"levels": ["a", "b"]}, ["b", "a", "c"], "y has 'c' in row 2, which is not one of levels: "),
        ({"levels": "abc"}, ["b", "a", "c"], "levels must be None or a list of different labels, lowest first; got 'a"),
        ({"levels": ["a", "b", "a"]}, ["b", "a", "a"], "levels must be None or a list of different labels"),
        ({"levels": [["a"], ["b"]]}, ["b", "a", "a"], "levels must be None or a list of different labels"),
        ({"levels": 3}, [1, 2, 3], "levels must be None or a list of different labels"),
        ({"levels": ["a", "b"]}, ["b", "b", "b"], "number of classes has to be greater than one; got 1 class: b"),
        ({"link": "logit"}, [1, 2, 3], "link must be 'probit' for likelihood='ordinal'; got 'logit'"),
        ({"likelihood": "ordered"}, [1, 2, 3], "likelihood must be one of 'classes', 'ordinal'; got 'ordered'"),
        ({"likelihood": "classes", "levels": [1, 2, 3]}, [1, 2, 3], "levels goes with likelihood='ordinal'"),
        ({}, [0.1, 0.25, 0.7], "Unknown label type"),
    ],
)
def test_bad_levels(options, y, message):
    model = tgp.SparseGPClassifier(**{"likelihood": "ordinal", **options})
    with pytest.raises(ValueError, match=message):
        model.fit([[0.0], [1.0], [2.0]], y)
