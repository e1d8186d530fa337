"""Counts: limits, large rates, distribution functions given f and under a Gaussian f, and quantiles."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tests.likelihoods.cases import log_density
from tightgp import likelihoods as L

LIKELIHOODS = {
    "poisson": L.Poisson(),
    "slightly dispersed": L.NegativeBinomial(0.02),
    "dispersed": L.NegativeBinomial(0.8),
    "almost poisson": L.NegativeBinomial(2e-6),
}


each_likelihood = pytest.mark.parametrize("lik", LIKELIHOODS.values(), ids=LIKELIHOODS.keys())


def test_negative_binomial_with_small_dispersion_is_close_to_poisson():
    F, y = np.array([[0.3], [2.0]]), np.array([[1.0], [9.0]])
    close = log_density(L.NegativeBinomial(2e-6), F, y)
    np.testing.assert_allclose(close, log_density(L.Poisson(), F, y), rtol=1e-4)


def test_samples_of_large_rates():
    """Rates beyond the range of 64-bit integers."""
    F = np.array([[11.0], [12.0], [60.0], [400.0]])
    y = jax.jit(L.Poisson().sample)(jax.random.key(0), F)
    np.testing.assert_allclose(np.log(y), F, atol=0.02)


def scipy_distribution(lik, f):
    """SciPy's distribution of counts given f."""
    if isinstance(lik, L.Poisson):
        return stats.poisson(np.exp(f))
    size = 1 / float(lik.dispersion)
    return stats.nbinom(size, 1 / (1 + np.exp(f) / size))


@each_likelihood
def test_cdf_matches_scipy(lik):
    F = np.array([-8.0, -1.0, 0.0, 2.0, 7.0, 11.0])[:, None]
    for y in (0, 1, 6, 900, 60_000):
        got = lik.cdf(F, np.full((6, 1), float(y)))
        np.testing.assert_allclose(got, scipy_distribution(lik, F).cdf(y), rtol=1e-9, atol=1e-13)


@each_likelihood
def test_cdf_is_constant_between_whole_numbers_and_zero_below_zero(lik):
    F = np.array([[0.3], [0.3], [0.3], [1000.0]])
    y = np.array([[2.0], [2.7], [-0.5], [5.0]])
    got = lik.cdf(F, y)
    assert got[0] == got[1] > 0
    assert got[2] == got[3] == 0
    for mean in (F, F - 40):
        got = lik.predictive_cdf(mean, 0.2 + 0 * F, y)
        assert got[0] == got[1] > 0
        assert got[2] == got[3] == 0


@each_likelihood
def test_cdf_is_one_and_zero_at_the_ends_of_its_transition(lik):
    y = np.array([0.0, 1.0, 10.0, 1e3, 1e6])[:, None]
    low, high = lik.cdf_transition(y)
    np.testing.assert_allclose(lik.cdf(low, y), 1, rtol=1e-14)
    np.testing.assert_allclose(lik.cdf(high, y), 0, atol=1e-14)


@each_likelihood
@pytest.mark.parametrize("sd", [1e-5, 0.02, 0.4, 2.0])
def test_predictive_cdf_matches_quadrature(lik, sd):
    """Also where the likelihood is far narrower than the Gaussian, or far wider."""
    z = np.linspace(-9, 9, 20_001)
    for y in (0.0, 3.0, 2000.0):
        for shift in (-1.5, 0.0, 1.0):
            mean = np.log(y + 1) + shift * np.sqrt(sd**2 + 1 / (y + 1))
            expected = np.trapezoid(stats.norm.pdf(z) * scipy_distribution(lik, mean + sd * z).cdf(y), z)
            got = lik.predictive_cdf(np.array([[mean]]), np.array([[sd**2]]), np.array([[y]]))
            np.testing.assert_allclose(got, expected, atol=1e-8)


def test_predictive_cdf_matches_draws(rng):
    mean, var, dispersion = np.log(3000.0), 0.5, 0.1
    f = mean + np.sqrt(var) * rng.normal(size=400_000)
    for lik, draws in (
        (L.Poisson(), rng.poisson(np.exp(f))),
        (L.NegativeBinomial(dispersion), rng.poisson(np.exp(f) * rng.gamma(1 / dispersion, dispersion, size=f.size))),
    ):
        y = np.quantile(draws, [0.01, 0.3, 0.5, 0.9, 0.999]).round()
        got = lik.predictive_cdf(np.full((5, 1), mean), np.full((5, 1), var), y[:, None])[:, 0]
        expected = np.mean(draws <= y[:, None], axis=1)
        assert np.all(np.abs(got - expected) < 5 * np.sqrt(expected * (1 - expected) / f.size))


def test_predictive_cdf_is_smooth_where_rates_are_large_and_uncertain():
    y = np.arange(90_000.0, 110_000.0, 100)[:, None]
    got = L.Poisson().predictive_cdf(np.full(y.shape, np.log(1e5)), np.full(y.shape, 1.0), y)[:, 0]
    steps = np.diff(got)
    assert np.all(steps > 0)
    assert np.max(np.abs(np.diff(steps))) < 0.01 * np.max(steps)


def test_predictive_cdf_does_not_depend_on_the_number_of_rows(rng):
    mean, y = rng.normal(size=(20_000, 1)), rng.poisson(2.0, size=(20_000, 1)).astype(float)
    together = L.Poisson().predictive_cdf(mean, 0 * mean + 0.1, y)
    rows = [0, 8191, 8192, 19_999]
    np.testing.assert_array_equal(together[rows], L.Poisson().predictive_cdf(mean[rows], 0 * mean[rows] + 0.1, y[rows]))


@settings(max_examples=40, deadline=None)
@given(
    dispersion=st.sampled_from([None, 1e-3, 0.3, 2.0]),
    mean=st.floats(-4, 11),
    sd=st.floats(1e-4, 1.5),
    q=st.floats(1e-6, 1 - 1e-6),
)
def test_quantile_is_the_smallest_count_that_reaches_its_level(dispersion, mean, sd, q):
    lik = L.Poisson() if dispersion is None else L.NegativeBinomial(dispersion)
    mean, var = np.array([[mean], [mean - 1]]), np.full((2, 1), sd**2)
    count = lik.predictive_quantile(mean, var, q)
    assert np.all(count == np.floor(count))
    assert np.all(lik.predictive_cdf(mean, var, count) >= q)
    assert np.all(lik.predictive_cdf(mean, var, count - 1) < q)


def test_quantiles_with_one_dispersion_per_output():
    lik = L.NegativeBinomial([0.1, 1.5])
    mean, var = np.array([[1.0, 6.0], [5.0, 0.0], [2.0, 2.0]]), np.full((3, 2), 0.3)
    got = lik.predictive_quantile(mean, var, 0.8)
    for i, dispersion in enumerate((0.1, 1.5)):
        single = L.NegativeBinomial(dispersion).predictive_quantile(mean[:, i : i + 1], var[:, :1], 0.8)
        np.testing.assert_array_equal(got[:, i], single[:, 0])


def test_quantiles_are_limited_to_exact_whole_numbers():
    assert L.Poisson().predictive_quantile(np.array([[60.0]]), np.array([[1.0]]), 0.5) == 2.0**53


def test_likelihoods_without_a_cdf_and_invalid_levels_are_refused():
    with pytest.raises(ValueError, match="Bernoulli has no cdf"):
        L.Bernoulli().predictive_cdf(np.zeros((1, 1)), np.ones((1, 1)), np.zeros((1, 1)))
    with pytest.raises(ValueError, match="Bernoulli has no cdf"):
        L.Bernoulli().cdf(np.zeros((1, 1)), np.zeros((1, 1)))
    for q in (0.0, 1.0, -0.1, np.nan):
        with pytest.raises(ValueError, match="q must"):
            L.Poisson().predictive_quantile(np.zeros((1, 1)), np.ones((1, 1)), q)
