import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy import special, stats

from tests.likelihoods.cases import CASES, each_likelihood
from tightgp import likelihoods as L
from tightgp import parameters
from tightgp.likelihoods import quadrature
from tightgp.likelihoods.special import log_beta, log_gamma_peak, log_ndtr_difference


@jax.jit
def log_density(lik, F, y):
    return lik.log_density(F, y)


@each_likelihood()
def test_density_and_moments_match_references(case):
    """The density equals its reference and integrates to one, and `moments` are its moments."""
    y, weights = case.support()
    rows = np.concatenate([y, case.valid])[:, None]
    for seed in range(3):
        lik, F = case.build(seed), case.latents(seed)
        table = np.asarray(log_density(lik, np.broadcast_to(F[:, None], (len(F), len(rows), F.shape[1])), rows))[..., 0]
        expected = [[case.density(lik, f, target) for target in case.valid] for f in F]
        np.testing.assert_allclose(table[:, len(y) :], expected, rtol=1e-9)
        mass = weights * np.exp(table[:, : len(y)])
        np.testing.assert_allclose(mass.sum(axis=1), 1, rtol=1e-7)
        values = y[:, None] == y if case.classes else y[:, None]
        mean = mass @ values
        variance = np.einsum("si,sik->sk", mass, (values - mean[:, None]) ** 2)
        for got, wanted in zip(lik.moments(F), (mean, variance), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-7, atol=1e-12)


@each_likelihood(but=["binomial_probit", "softmax_of_two"])
def test_samples_have_the_moments_of_the_density(case):
    lik, F, draws = case.build(), case.latents(), 4000
    sample = jax.jit(lambda F: lik.sample(jax.random.key(1), F))
    y = np.asarray(sample(np.broadcast_to(F, (draws, *F.shape))))
    assert y.shape == (draws, len(F), 1)
    lik.check_targets(y[:, 0])
    y = y == np.arange(lik.num_latents) if case.classes else y
    mean, variance = lik.moments(F)
    squares = (y - mean) ** 2
    for draw, expected in ((y, mean), (squares, variance)):
        error = np.std(draw, axis=0) / np.sqrt(draws)
        assert np.all(np.abs(np.mean(draw, axis=0) - expected) < 5 * error + 1e-12)


@jax.jit
def expectations(lik, mean, var, y):
    densities = lik.expected_log_density(mean, var, y), lik.predictive_log_density(mean, var, y)
    return *densities, *lik.predict(mean, var)


def gaussian_nodes(mean, var):
    """Values and weights of f ~ N(mean, var) on a grid: 100 nodes for one latent, 40² for two, 24³ for three."""
    nodes, weights = hermegauss({1: 100, 2: 40, 3: 24}[mean.shape[1]])
    latents = mean.shape[1]
    grid = np.array(list(itertools.product(nodes, repeat=latents)))
    weights = np.prod(np.array(list(itertools.product(weights / weights.sum(), repeat=latents))), axis=1)
    return mean + grid[:, None] * np.sqrt(var), weights


@each_likelihood(but=["robust_max"])
def test_expectations_match_quadrature(case, monkeypatch, rng):
    monkeypatch.setattr(quadrature, "NUM_PAIRS", 20_000)
    lik, mean, y = case.build(), case.latents(), case.targets
    var = rng.uniform(0.05, 0.3, size=mean.shape)
    F, weights = gaussian_nodes(mean, var)
    log_densities = np.asarray(log_density(lik, F, y))
    means, variances = map(np.asarray, jax.jit(lambda F: lik.moments(F))(F))
    average = np.tensordot(weights, means, axes=1)
    tolerance = {"rtol": 5e-3, "atol": 1e-3} if case is CASES["softmax"] else {"rtol": 1e-6, "atol": 1e-8}
    expected = [
        np.tensordot(weights, log_densities, axes=1),
        special.logsumexp(log_densities, axis=0, b=weights[:, None, None]),
        average,
        np.tensordot(weights, variances + means**2, axes=1) - average**2,
    ]
    for got, wanted in zip(expectations(lik, mean, var, y), expected, strict=True):
        np.testing.assert_allclose(got, wanted, **tolerance)


@pytest.mark.parametrize(
    ("lik", "y", "rtol"),
    [
        (L.Poisson(), 3000.0, 1e-8),
        (L.NegativeBinomial(0.001), 40.0, 1e-7),
        (L.Gamma(900.0), 0.05, 1e-8),
        (L.Beta(5000.0), 0.97, 1e-7),
        (L.StudentT(3.0, 0.01), 2.0, 1e-8),
        (L.StudentT(0.7, 0.5), 30.0, 1e-8),
        (L.StudentT(500.0, 0.5), 9.0, 1e-8),
        (L.Bernoulli("logit"), 1.0, 1e-2),
    ],
    ids=lambda value: type(value).__name__,
)
def test_expectations_of_densities_much_narrower_or_wider_than_the_latents(lik, y, rtol):
    mean, var, y = np.array([[1.0], [-0.5], [3.0]]), np.array([[2.0], [9.0], [0.3]]), np.full((3, 1), y)
    z = np.linspace(-14, 14, 40001)
    log_weights = stats.norm.logpdf(z) + np.log(z[1] - z[0])
    table = np.asarray(log_density(lik, mean + z[:, None, None] * np.sqrt(var), y))
    expected = special.logsumexp(table + log_weights[:, None, None], axis=0)
    results = expectations(lik, mean, var, y)
    np.testing.assert_allclose(results[1], expected, rtol=rtol)
    if isinstance(lik, L.StudentT):
        np.testing.assert_allclose(results[0], np.tensordot(np.exp(log_weights), table, axes=1), rtol=1e-8)


def test_robust_max_matches_bivariate_normal_probabilities(rng):
    """The density of RobustMax has jumps, so that a grid of nodes cannot be the reference."""
    case = CASES["robust_max"]
    lik, mean, y = case.build(), case.latents(), case.targets
    var = rng.uniform(0.05, 0.3, size=mean.shape)
    largest = np.empty_like(mean)
    for i, c in itertools.product(range(3), range(3)):
        others = [k for k in range(3) if k != c]
        covariance = np.diag(var[i, others]) + var[i, c]
        largest[i, c] = stats.multivariate_normal(mean[i, others] - mean[i, c], covariance).cdf([0, 0])
    right, wrong = 1 - lik.epsilon, lik.epsilon / 2
    p = largest * right + (1 - largest) * wrong
    own = np.take_along_axis(largest, y.astype(int), axis=1)
    log_p = np.log(np.take_along_axis(p, y.astype(int), axis=1))
    expected = [own * np.log(right) + (1 - own) * np.log(wrong), log_p, p, p * (1 - p)]
    for got, wanted in zip(expectations(lik, mean, var, y), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-3)


EXTREMES = np.array([[-30.0, 100.0], [30.0, 100.0], [0.0, 0.0], [30.0, 1e-6], [-30.0, 1e-6]])


@each_likelihood(but=["softmax_of_two", "binomial_probit"])
def test_values_and_gradients_are_finite_at_extremes(case):
    """Gradients in float32, for its small range; predictions in float64, since Var[exp(f)] overflows float32."""
    lik = case.build()
    signs = np.array([1, -1, 0.5])[: lik.num_latents or 1]
    mean, var = EXTREMES[:, :1] * signs, EXTREMES[:, 1:] * np.abs(signs)
    y = np.resize(case.valid, (len(mean), 1))

    def densities(lik, mean, var, y):
        return jnp.sum(lik.expected_log_density(mean, var, y)) + jnp.sum(lik.predictive_log_density(mean, var, y))

    single = (parameters.cast(lik, np.float32), *(x.astype(np.float32) for x in (mean, var, y)))
    gradients = jax.jit(jax.value_and_grad(densities, (0, 1, 2)))(*single)
    for results, dtype in ((gradients, np.float32), (expectations(lik, mean[:3], var[:3], y[:3]), np.float64)):
        for leaf in jax.tree.leaves(results):
            assert np.all(np.isfinite(leaf))
            assert leaf.dtype == dtype


@each_likelihood()
def test_shapes_and_dtypes(case):
    """Under jit and vmap, in float32, with leading axes; with two columns where each has its own latent."""
    lik = parameters.cast(case.build(), jnp.float32)
    key, latents = jax.random.key(0), lik.num_latents or 2
    columns, means = (2, 2) if lik.num_latents is None else (1, latents if case.classes else 1)
    F, y = jnp.zeros((5, 4, latents), jnp.float32), jnp.ones((4, columns), jnp.float32)

    def all_results(F):
        mean_var = F[0], jnp.exp(F[0])
        return (
            [lik.log_density(F, y), lik.sample(key, F)],
            [*lik.moments(F)],
            [lik.expected_log_density(*mean_var, y, key), lik.predictive_log_density(*mean_var, y, key)],
            [*lik.predict(*mean_var, key)],
        )

    shapes = [(5, 4, columns), (5, 4, means), (4, columns), (4, means)]
    found = jax.eval_shape(jax.vmap(jax.jit(all_results)), jnp.zeros((3, *F.shape), jnp.float32))
    for results, shape in zip(found, shapes, strict=True):
        assert [(r.shape, r.dtype) for r in results] == [((3, *shape), jnp.float32)] * 2


@pytest.mark.parametrize(
    "make",
    [L.Gaussian, L.LogNormal, L.Gamma, L.NegativeBinomial, L.Beta, lambda scale: L.StudentT(5.0, scale)],
    ids=["gaussian", "lognormal", "gamma", "negative_binomial", "beta", "student"],
)
def test_one_parameter_per_output(make):
    values, F, y = [0.5, 2.0], np.array([[0.1, -0.4], [1.0, 0.3]]), np.array([[0.3, 0.6], [0.9, 0.2]])
    if make is L.NegativeBinomial:
        y = np.round(10 * y)
    both = make(values)
    both.check_targets(y)
    for j, value in enumerate(values):
        column = slice(j, j + 1)
        single = log_density(make(value), F[:, column], y[:, column])
        np.testing.assert_allclose(log_density(both, F, y)[:, column], single, rtol=1e-12)
    with pytest.raises(ValueError, match=r"has shape \(2,\) but y has 3 column"):
        both.check_targets(np.ones((2, 3)))


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
    with pytest.raises(ValueError, match=r"known noise .* not with Poisson"):
        L.Poisson().with_known(known)


def test_quadratic_likelihoods_have_constant_curvature():
    assert [name for name, case in CASES.items() if case.build().quadratic] == ["gaussian", "lognormal"]
    for lik in (L.Gaussian(0.3), L.LogNormal(0.3)):
        slope = jax.grad(lambda F, lik=lik: jnp.sum(lik.log_density(F, np.full((3, 1), 2.0))))
        slopes = jax.jit(slope)(np.array([[-1.0], [0.5], [4.0]]))
        np.testing.assert_allclose(np.diff(slopes, axis=0) / [[1.5], [3.5]], -1 / 0.3, rtol=1e-12)


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


def test_negative_binomial_with_small_dispersion_is_close_to_poisson():
    F, y = np.array([[0.3], [2.0]]), np.array([[1.0], [9.0]])
    close = log_density(L.NegativeBinomial(2e-6), F, y)
    np.testing.assert_allclose(close, log_density(L.Poisson(), F, y), rtol=1e-4)


def test_samples_of_large_rates():
    """Rates beyond the range of 64-bit integers."""
    F = np.array([[11.0], [12.0], [60.0], [400.0]])
    y = jax.jit(L.Poisson().sample)(jax.random.key(0), F)
    np.testing.assert_allclose(np.log(y), F, atol=0.02)


def test_student_variance_is_infinite_for_at_most_two_degrees_of_freedom():
    F = np.zeros((1, 1))
    for df in (1.0, 2.0):
        assert np.isinf(L.StudentT(df).moments(F)[1])
        assert np.isinf(L.StudentT(df).predict(F, F)[1])
    np.testing.assert_allclose(L.StudentT(4.0, 3.0).predict(F, F + 1)[1], 19, rtol=1e-12)


def test_default_ordinal_levels_are_equally_probable():
    mean, y = np.zeros((3, 1)), np.array([[0.0], [2.0], [4.0]])
    np.testing.assert_allclose(np.exp(expectations(L.Ordinal(5), mean, mean + 1, y)[1]), 0.2, rtol=1e-9)


def test_which_parameters_are_trained():
    def trained(lik):
        return [name for name, p in parameters.named_parameters(lik).items() if not p.frozen]

    assert trained(L.StudentT()) == ["scale"]
    assert trained(L.Ordinal(4)) == ["first_edge", "gaps"]
    assert trained(L.Gamma()) == ["shape"]
    assert trained(parameters.unfreeze(L.StudentT(), "df")) == ["df", "scale"]
