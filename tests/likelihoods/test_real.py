"""Gaussian noise, known noise, noise that is a function, Student's t."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from tests.likelihoods.cases import expectations
from tightgp import likelihoods as L
from tightgp import parameters


@pytest.mark.parametrize("noise", [None, 0.2, [0.2, 0.3]])
def test_known_noise(noise):
    known, F, y = jnp.array([0.5, 0.1, 0.7]), np.ones((3, 2)), np.zeros((3, 2))
    lik = L.Gaussian(noise).with_known(known)
    total = np.broadcast_to((0 if noise is None else np.array(noise)) + known[:, None], (3, 2))
    np.testing.assert_allclose(np.broadcast_to(lik.variance, (3, 2)), total, rtol=1e-12)
    np.testing.assert_allclose(lik.moments(np.ones((4, 3, 2)))[1], np.broadcast_to(total, (4, 3, 2)), rtol=1e-12)
    np.testing.assert_allclose(lik.log_density(F, y), stats.norm(1, np.sqrt(total)).logpdf(0), rtol=1e-12)
    np.testing.assert_allclose(lik.predict(F, F)[1], 1 + total, rtol=1e-12)
    single = parameters.cast(L.Gaussian(noise), jnp.float32).with_known(known.astype(np.float32))
    assert single.variance.dtype == jnp.float32
    with pytest.raises(ValueError, match=r"noise variances of rows .* not with Poisson"):
        L.Poisson().with_known(known)


def test_student_variance_is_infinite_for_at_most_two_degrees_of_freedom():
    F = np.zeros((1, 1))
    for df in (1.0, 2.0):
        assert np.isinf(L.StudentT(df).moments(F)[1])
        assert np.isinf(L.StudentT(df).predict(F, F)[1])
    np.testing.assert_allclose(L.StudentT(4.0, 3.0).predict(F, F + 1)[1], 19, rtol=1e-12)


def test_student_with_many_degrees_of_freedom_is_gaussian():
    mean, var, y = np.array([[0.3], [-1.0]]), np.array([[0.2], [1.0]]), np.array([[0.5], [1.5]])
    close, gaussian = (expectations(lik, mean, var, y) for lik in (L.StudentT(1e8, 0.6), L.Gaussian(0.36)))
    for got, wanted in zip(close, gaussian, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_noise_that_is_a_certain_function_is_gaussian():
    mean, var, y = np.array([[0.3, np.log(0.36)]]), np.array([[0.2, 0.0]]), np.array([[0.5]])
    found = expectations(L.HeteroscedasticGaussian(), mean, var, y)
    for got, wanted in zip(found, expectations(L.Gaussian(0.36), mean[:, :1], var[:, :1], y), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9)
