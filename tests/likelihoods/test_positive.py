"""Positive targets."""

import numpy as np

from tests.likelihoods.cases import expectations
from tightgp import likelihoods as L

MEAN, VAR, Y = np.array([[0.3], [-1.0]]), np.array([[0.2], [1.0]]), np.array([[0.5], [1.5]])


def test_gamma_of_shape_one_is_exponential():
    one, other = (expectations(lik, MEAN, VAR, Y) for lik in (L.Gamma(1.0), L.Exponential()))
    for got, wanted in zip(one, other, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9)


def test_lognormal_is_gaussian_in_the_logarithm():
    found = expectations(L.LogNormal(0.4), MEAN, VAR, Y)
    gaussian = expectations(L.Gaussian(0.4), MEAN, VAR, np.log(Y))
    for got, wanted in zip(found[:2], gaussian[:2], strict=True):
        np.testing.assert_allclose(got, wanted - np.log(Y), rtol=1e-12)
    mean, variance = np.asarray(gaussian[2]), np.asarray(gaussian[3])
    np.testing.assert_allclose(found[2], np.exp(mean + variance / 2), rtol=1e-12)
