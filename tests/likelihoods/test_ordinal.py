"""Ordered levels."""

import numpy as np

from tests.likelihoods.cases import expectations
from tightgp import likelihoods as L


def test_default_ordinal_levels_are_equally_probable():
    mean, y = np.zeros((3, 1)), np.array([[0.0], [2.0], [4.0]])
    np.testing.assert_allclose(np.exp(expectations(L.Ordinal(5), mean, mean + 1, y)[1]), 0.2, rtol=1e-9)


def test_edges_are_kept_and_define_the_levels():
    lik = L.Ordinal(edges=[-1.0, 0.5, 2.0], scale=1e-3)
    np.testing.assert_allclose(lik.edges, [-1.0, 0.5, 2.0], rtol=1e-12)
    mean, _ = lik.moments(np.array([[-1.1], [-0.9], [0.6], [2.1]]))
    np.testing.assert_allclose(mean[:, 0], [0, 1, 2, 3], atol=1e-12)
