"""Elementwise functions against references, where the textbook formulas lose digits."""

import math

import jax
import numpy as np
import pytest
from scipy import special

from tightgp.likelihoods.special import log_beta, log_gamma_peak, log_ndtr_difference, safe_exp


def test_log_ndtr_difference():
    """Against SciPy in the lower tail, where it is accurate."""
    lower, width = np.array([[-40.0, 1.0], [37.5, 2.0], [-1.0, 1e-3], [12.0, 1e-4], [-3.0, 30.0]]).T
    low = np.where(lower < 0, lower, -lower - width)
    log_upper = special.log_ndtr(low + width)
    expected = log_upper + np.log(-np.expm1(special.log_ndtr(low) - log_upper))
    np.testing.assert_allclose(jax.jit(log_ndtr_difference)(lower, width), expected, rtol=1e-8)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_log_beta(dtype):
    """Against (a−1)!/(b(b+1)…(b+a−1)) for whole a, since SciPy's betaln is inaccurate for large b."""
    a, b = (x.ravel().astype(dtype) for x in np.meshgrid([1.0, 2.0, 11.0, 400.0], [0.5, 8.1, 15.9, 16.1, 1e3, 1e6]))
    steps = [np.arange(1, n) for n in a]
    exact = [math.fsum(np.log(k / (float(x) + k))) - math.log(x) for k, x in zip(steps, b, strict=True)]
    value, slopes = jax.jit(jax.vmap(jax.value_and_grad(log_beta, (0, 1))))(a, b)
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(value, exact, rtol=30 * eps, atol=30 * eps)
    for got, x in zip(slopes, (a, b), strict=True):
        slope = special.digamma(x.astype(float)) - special.digamma(a.astype(float) + b)
        np.testing.assert_allclose(got, slope, rtol=30 * eps, atol=30 * eps)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_log_gamma_peak(dtype):
    a = np.array([1e-5, 0.4, 3.0, 15.9, 16.1, 70.0], dtype)
    exact = [float(x) * math.log(x) - float(x) - math.lgamma(x) for x in a]
    np.testing.assert_allclose(jax.jit(log_gamma_peak)(a), exact, rtol=1e3 * np.finfo(dtype).eps)


def test_safe_exp_is_exp_and_stays_finite():
    x = np.array([-800.0, 0.0, 5.0, 600.0, 710.0, 1e5])
    value, slope = jax.vmap(jax.value_and_grad(safe_exp))(x)
    np.testing.assert_allclose(value[:4], np.exp(x[:4]), rtol=1e-15)
    assert np.all(np.isfinite(value))
    assert np.all(np.isfinite(slope))
    assert np.all(np.diff(value) > 0)
