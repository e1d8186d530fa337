"""Bernoulli and binomial."""

import numpy as np
import pytest

from tests.likelihoods.cases import expectations
from tightgp import likelihoods as L

MEAN, VAR = np.array([[-1.0], [0.0], [2.0]]), np.array([[0.5], [2.0], [0.1]])


@pytest.mark.parametrize("link", ["probit", "logit"])
def test_one_trial_is_a_bernoulli(link):
    y = np.array([[0.0], [1.0], [1.0]])
    one, other = (expectations(lik, MEAN, VAR, y) for lik in (L.Bernoulli(link), L.Binomial(1, link)))
    for got, wanted in zip(one, other, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


@pytest.mark.parametrize("link", ["probit", "logit"])
def test_labels_are_symmetric(link):
    success, failure = (expectations(L.Bernoulli(link), s * MEAN, VAR, 0 * MEAN + y) for s, y in ((1, 1), (-1, 0)))
    np.testing.assert_allclose(success[:2], failure[:2], rtol=1e-9)
    np.testing.assert_allclose(success[2], 1 - failure[2], rtol=1e-7)
