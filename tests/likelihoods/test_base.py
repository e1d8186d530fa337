"""What every likelihood keeps: valid targets and arguments, densities, moments and expectations against references."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.polynomial.hermite_e import hermegauss
from scipy import special

from tests.likelihoods.cases import CASES, each_likelihood, expectations, log_density
from tightgp import likelihoods as L
from tightgp import parameters
from tightgp.likelihoods import quadrature


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


def test_quadratic_likelihoods_have_constant_curvature():
    assert [name for name, case in CASES.items() if case.build().quadratic] == ["gaussian", "lognormal"]
    for lik in (L.Gaussian(0.3), L.LogNormal(0.3)):
        slope = jax.grad(lambda F, lik=lik: jnp.sum(lik.log_density(F, np.full((3, 1), 2.0))))
        slopes = jax.jit(slope)(np.array([[-1.0], [0.5], [4.0]]))
        np.testing.assert_allclose(np.diff(slopes, axis=0) / [[1.5], [3.5]], -1 / 0.3, rtol=1e-12)


def test_which_parameters_are_trained():
    def trained(lik):
        return [name for name, p in parameters.named_parameters(lik).items() if not p.frozen]

    assert trained(L.StudentT()) == ["scale"]
    assert trained(L.Ordinal(4)) == ["first_edge", "gaps"]
    assert trained(L.Gamma()) == ["shape"]
    assert trained(parameters.unfreeze(L.StudentT(), "df")) == ["df", "scale"]


@each_likelihood()
def test_valid_targets_are_accepted(case):
    lik = case.build()
    y = np.array([*case.valid, np.nan, lik.filler])[:, None]
    for array in (y, y.astype(np.float32), jnp.asarray(y)):
        lik.check_targets(array)
    jax.jit(lambda y: lik.check_targets(y))(y)


@each_likelihood()
def test_invalid_targets_are_refused(case):
    lik = case.build()
    for value in case.invalid:
        y = np.array([case.valid[0], np.nan, value, case.valid[1]])[:, None]
        with pytest.raises(ValueError, match=f"{case.message}.* for {type(lik).__name__}: row 2 is {value}$"):
            lik.check_targets(y)
    with pytest.raises(ValueError, match=r"7 such rows: 0, 1, 2, 3, 4, \.\.\."):
        lik.check_targets(np.full((7, 1), case.invalid[0]))


@each_likelihood(but=[name for name, case in CASES.items() if case.build().num_latents is None])
def test_likelihoods_with_several_latents_need_one_column_of_targets(case):
    with pytest.raises(ValueError, match="y must have one column"):
        case.build().check_targets(np.ones((3, 2)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: L.Gaussian(-1.0), "noise_variance must be above its floor"),
        (lambda: L.Gaussian(np.ones((2, 2))), r"noise_variance must be one number or have shape \(P,\)"),
        (lambda: L.LogNormal(np.nan), "noise_variance must be above its floor 1e-06 and finite"),
        (lambda: L.Gamma(0.0), "shape must be above its floor"),
        (lambda: L.Gamma("round"), "shape must be an array of numbers"),
        (lambda: L.NegativeBinomial(0.0), "dispersion must be above its floor"),
        (lambda: L.Binomial(0), "num_trials must be a whole number of at least 1"),
        (lambda: L.Binomial(2.5), "num_trials must be a whole number"),
        (lambda: L.Binomial(3, "log"), "link must be one of 'probit', 'logit'"),
        (lambda: L.Bernoulli("cauchy"), "link must be one of 'probit', 'logit'; got 'cauchy'"),
        (lambda: L.StudentT(df=0.0), "df must be above its floor"),
        (lambda: L.StudentT(df=[3.0, 4.0]), "df must be one number"),
        (lambda: L.StudentT(scale=-1.0), "scale must be above its floor"),
        (lambda: L.Beta(0.0), "precision must be above its floor"),
        (lambda: L.Ordinal(), "needs num_levels or edges"),
        (lambda: L.Ordinal(2), "num_levels must be a whole number of at least 3, got 2; for two levels use Bernoulli"),
        (lambda: L.Ordinal(3.5), "num_levels must be a whole number"),
        (lambda: L.Ordinal(4, edges=[0.0, 1.0]), "2 edges make 3 levels, but num_levels is 4"),
        (lambda: L.Ordinal(edges=[0.0]), "edges must be 2 or more numbers"),
        (lambda: L.Ordinal(edges=[0.0, 1.0, 1.0]), "gaps between edges must be above"),
        (lambda: L.Ordinal(edges=[0.0, np.nan]), "gaps between edges must be .* finite"),
        (lambda: L.Ordinal(edges=[0.0, np.inf]), "edges must be .* finite"),
        (lambda: L.Ordinal(edges=["a", "b"]), "edges must be an array of numbers"),
        (lambda: L.Ordinal(3, scale=0.0), "scale must be above its floor"),
        (lambda: L.Softmax(1), "num_classes must be a whole number of at least 2, got 1"),
        (lambda: L.Softmax(2.0), "num_classes must be a whole number"),
        (lambda: L.RobustMax(1), "num_classes must be a whole number of at least 2"),
        (lambda: L.RobustMax(3, 0.0), "epsilon must be above 0 and below 1, got 0.0"),
        (lambda: L.RobustMax(3, 1.0), "epsilon must be above 0 and below 1"),
        (lambda: L.RobustMax(3, "few"), "epsilon must be one finite number"),
    ],
)
def test_invalid_arguments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_repr_lists_the_parameters():
    text = repr(L.StudentT(3.0, 0.5))
    assert text.splitlines()[0] == "StudentT"
    for part in ("df", "3", "no", "scale", "0.5", "yes"):
        assert part in text
