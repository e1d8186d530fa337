import jax
import numpy as np
import pytest

import tightgp as tgp
from tests.reference import Dense


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("outputs", [None, 3])
def test_bounds_against_the_dense_reference(problem, rng, known, outputs):
    data, Z, kernel = problem
    y = data.y if outputs is None else rng.normal(size=(data.num_data, outputs))
    noise = rng.uniform(0.05, 0.5, size=data.num_data) if known else None
    data = tgp.Dataset(data.X, y, noise)
    reference = Dense(kernel, data.X, data.y, Z, 0.2, known=0.0 if noise is None else noise)
    for bound in ("standard", "spherical", "diagonal"):
        assert float(tgp.SGPR(kernel, Z, 0.2, bound=bound).elbo(data)) == pytest.approx(
            reference.bound(bound), rel=1e-9
        )
    block = tgp.SGPR(kernel, Z, 0.2, bound=tgp.Block(5, "rows"))
    assert float(block.elbo(data)) == pytest.approx(reference.bound("block", 5), rel=1e-9)
    for alpha, size in ((0.5, 1), (1.0, 1), (0.4, 5), (1.0, 5)):
        model = tgp.SGPR(kernel, Z, 0.2, bound=tgp.PowerEP(alpha, block=size, partition="rows"))
        assert float(model.elbo(data)) == pytest.approx(reference.power_ep(alpha, size), rel=1e-9)
    assert float(tgp.ExactGP(kernel, 0.2).log_evidence(data)) == pytest.approx(reference.evidence(), rel=1e-10)
    if not known:
        assert float(tgp.SGPR(kernel, Z, 0.2).upper_bound(data)) == pytest.approx(reference.upper(), rel=1e-9)


def test_fitc_and_pitc_are_gaussians(problem):
    """Power EP at one is the evidence of the model that FITC and PITC define."""
    data, Z, kernel = problem
    reference = Dense(kernel, data.X, data.y, Z, 0.2)
    for size in (1, 5):
        model = tgp.SGPR(kernel, Z, 0.2, bound=tgp.PowerEP(1.0, block=size, partition="rows"))
        expected = reference.gaussian(reference.D * reference.blocks(size))
        assert float(model.elbo(data)) == pytest.approx(expected, rel=1e-9)


def test_noise_that_is_all_known(problem, rng):
    data, Z, kernel = problem
    noise = rng.uniform(0.05, 0.5, size=data.num_data)
    known = tgp.Dataset(data.X, data.y, noise)
    reference = Dense(kernel, data.X, data.y, Z, 0.0, known=noise)
    model = tgp.SGPR(kernel, Z, noise_variance=None)
    assert float(model.elbo(known)) == pytest.approx(reference.bound("diagonal"), rel=1e-9)
    assert float(tgp.ExactGP(kernel, None).log_evidence(known)) == pytest.approx(reference.evidence(), rel=1e-9)
    assert "noise_variance" not in tgp.named_parameters(model)
    with pytest.raises(ValueError, match=r"Dataset\(X, y, noise_variance="):
        model.elbo(data)


def test_mean_functions(problem):
    data, Z, kernel = problem
    slope = np.array([0.4, -0.2])
    for mean, expected in ((tgp.means.Constant(0.7), 0.7), (tgp.means.Linear(slope, 0.1), data.X @ slope + 0.1)):
        reference = Dense(kernel, data.X, data.y, Z, 0.2, mean=expected)
        model = tgp.SGPR(kernel, Z, 0.2, mean=mean)
        assert float(model.elbo(data)) == pytest.approx(reference.bound("diagonal"), rel=1e-9)
        exact = tgp.ExactGP(kernel, 0.2, mean=mean)
        assert float(exact.log_evidence(data)) == pytest.approx(reference.evidence(), rel=1e-9)


def test_evidence_bracket(problem):
    data, Z, kernel = problem
    model = tgp.SGPR(kernel, Z, 0.2)
    bracket = model.evidence_bracket(data)
    evidence = float(tgp.ExactGP(kernel, 0.2).log_evidence(data))
    assert bracket.lower <= evidence <= bracket.upper
    assert bracket.nats_per_point == pytest.approx((bracket.upper - bracket.lower) / 37)
    assert "nats per point" in str(bracket)
    under_power_ep = tgp.SGPR(kernel, Z, 0.2, bound=tgp.PowerEP(1.0)).evidence_bracket(data)
    assert under_power_ep == bracket


def test_elbo_inside_a_users_own_trace(problem):
    """Researchers differentiate and jit the bound themselves, building the model inside the trace."""
    data, Z, kernel = problem

    def value(log_noise, Z):
        return tgp.SGPR(kernel, Z, jax.numpy.exp(log_noise)).elbo(data)

    at = (np.log(0.2), jax.numpy.asarray(Z))
    slope = jax.jit(jax.grad(value, argnums=(0, 1)))(*at)
    h = 1e-5
    numeric = (value(at[0] + h, at[1]) - value(at[0] - h, at[1])) / (2 * h)
    assert float(slope[0]) == pytest.approx(float(numeric), rel=1e-6)
    assert slope[1].shape == Z.shape


def test_upper_bound_can_be_differentiated(problem):
    data, Z, kernel = problem

    def value(noise):
        return tgp.SGPR(kernel, Z, noise).upper_bound(data)

    h = 1e-5
    numeric = (value(0.2 + h) - value(0.2 - h)) / (2 * h)
    assert float(jax.grad(value)(0.2)) == pytest.approx(float(numeric), rel=1e-6)


def test_float32_agrees_with_float64(problem):
    data, Z, kernel = problem
    single = tgp.Dataset(data.X.astype(np.float32), data.y.astype(np.float32))
    for bound in ("standard", "spherical", "diagonal", tgp.Block(5), tgp.PowerEP(0.5)):
        low = tgp.SGPR(kernel, Z.astype(np.float32), 0.2, bound=bound).elbo(single)
        high = tgp.SGPR(kernel, Z, 0.2, bound=bound).elbo(data)
        assert low.dtype == np.float32
        assert float(low) == pytest.approx(float(high), rel=2e-4)


def test_float32_whose_noise_is_too_small_says_so(rng):
    X = np.sort(rng.uniform(-3, 3, size=(400, 1)), axis=0).astype(np.float32)
    data = tgp.Dataset(X, np.sin(X[:, 0]))
    model = tgp.SGPR(tgp.kernels.SquaredExponential(), X[::7], 1e-5, bound=tgp.Block(32))
    with pytest.raises(tgp.NumericalError, match=r"noise_variance 1e-05 is too small .* for float32"):
        model.elbo(data)


def test_the_printed_model_is_a_table(problem):
    _, Z, kernel = problem
    text = repr(tgp.freeze(tgp.SGPR(kernel, Z, 0.2), "Z"))
    assert "SGPR, bound diagonal, M = 6, float64" in text
    assert "kernel.lengthscale  [0.8, 1.7]" in text
    assert next(line for line in text.splitlines() if line.strip().startswith("Z ")).rstrip().endswith("no")


BAD = [
    (lambda d, Z, k: tgp.SGPR("rbf", Z, 0.2), "kernel must be one of tightgp.kernels, got str"),
    (lambda d, Z, k: tgp.SGPR(k, Z[:, 0], 0.2), r"Z must have shape \(rows, columns\), got \(6,\).*Z\[:, None\]"),
    (lambda d, Z, k: tgp.SGPR(k, Z * np.nan, 0.2), "Z has NaN or infinite values in 6 row"),
    (lambda d, Z, k: tgp.SGPR(k, Z[:0], 0.2), r"Z is empty \(shape \(0, 2\)\)"),
    (lambda d, Z, k: tgp.SGPR(k, Z, -0.2), "noise_variance must be above its floor 1e-06 and finite, got -0.2"),
    (lambda d, Z, k: tgp.SGPR(k, Z, np.ones(37)), r"noise_variance must be one number, got shape \(37,\)"),
    (lambda d, Z, k: tgp.SGPR(k, Z, np.inf), "noise_variance must be above its floor 1e-06 and finite, got inf"),
    (lambda d, Z, k: tgp.SGPR(k, Z, 0.2, bound="tight"), "bound must be one of 'standard'.*got 'tight'"),
    (lambda d, Z, k: tgp.SGPR(k, Z, bound="vecchia", precision="mixed"), "'mixed' does not go with bound='vecchia'"),
    (lambda d, Z, k: tgp.SGPR(k, Z, 0.2, bound=tgp.Block(0)), "size must be a whole number of at least 1, got 0"),
    (lambda d, Z, k: tgp.Block(4, "trees"), "partition must be one of 'locality'"),
    (lambda d, Z, k: tgp.PowerEP(1.5), r"alpha must lie in \(0, 1\], got 1.5"),
    (lambda d, Z, k: tgp.SGPR(k, Z, 0.2).elbo(d.X), r"data must be a tightgp.Dataset\(X, y\), got ndarray"),
    (lambda d, Z, k: tgp.SGPR(k, Z, 0.2).elbo(d, chunk=0), "chunk must be a whole number of at least 1"),
    (lambda d, Z, k: tgp.SGPR(k, Z, 0.2).elbo(d.take(slice(0, 4))), "Z has 6 rows but X only 4; use at most 4"),
    (
        lambda d, Z, k: tgp.SGPR(k, np.zeros((3, 2)), 0.2).elbo(tgp.Dataset(np.zeros((5, 3)), np.zeros(5))),
        "X has 3 col",
    ),
    (lambda d, Z, k: tgp.SGPR(k, np.zeros((3, 4)), 0.2), r"lengthscale has shape \(2,\).*4 input column"),
    (lambda d, Z, k: tgp.SGPR(k, Z.astype(np.float32), 0.2).elbo(d), "X has dtype float64 but the model has float32"),
    (
        lambda d, Z, k: tgp.SGPR(k, Z, 0.2, mean=tgp.means.Constant([0.0, 1.0])).elbo(d),
        r"mean gives 2 outputs for 1 function\(s\)",
    ),
    (lambda d, Z, k: tgp.SGPR(k, Z, 0.2, mean=5.0), r"mean must be one of tightgp\.means, got float"),
    (lambda d, Z, k: tgp.SGPR(k, Z, 0.2, bound=[1]), r"bound must be one of .* got \[1\]"),
    (lambda d, Z, k: tgp.SGPR(k, Z, 0.2, jitter="a"), "jitter must be one finite number, got 'a'"),
    (lambda d, Z, k: tgp.SGPR(k, Z, 0.2, jitter=-1e-9), "jitter must not be negative"),
    (lambda d, Z, k: tgp.SGPR(k, tgp.parameters.real([1.0, 2.0]), 0.2), r"Z must have shape \(rows, columns\)"),
    (lambda d, Z, k: tgp.SGPR(k, Z, tgp.parameters.positive([0.1, 0.2])), "noise_variance must be one number"),
    (lambda d, Z, k: tgp.Block(4, "random", seed=-1), "seed must be a whole number of at least 0"),
    (lambda d, Z, k: tgp.freeze(tgp.SGPR(k, Z, 0.2)), "name at least one parameter; there are kernel.variance"),
    (
        lambda d, Z, k: tgp.SGPR(k, Z, None).elbo(tgp.Dataset(d.X, d.y, np.zeros(37))),
        "every row's known noise must be above zero",
    ),
    (
        lambda d, Z, k: jax.grad(lambda v: tgp.SGPR(tgp.kernels.Matern32(1.0, v), Z, 0.2, bound="block").elbo(d))(1.0),
        r"a partition into neighbours needs known inputs and lengthscales.*model\.prepare",
    ),
    (lambda d, Z, k: tgp.kernels.SquaredExponential(-1.0), "variance must be positive and finite, got -1.0"),
]


@pytest.mark.parametrize(("make", "message"), BAD, ids=[m[:30] for _, m in BAD])
def test_bad_input_is_a_clear_error(problem, make, message):
    with pytest.raises(ValueError, match=message):
        make(*problem)


def test_duplicate_inducing_points_are_survived(problem):
    """Equal rows in Z make Kuu singular; the jitter bears it and predictions stay finite."""
    data, Z, kernel = problem
    doubled = np.concatenate([Z, Z])
    twice = tgp.SGPR(kernel, doubled, 0.2).elbo(data)
    assert float(twice) == pytest.approx(float(tgp.SGPR(kernel, Z, 0.2).elbo(data)), rel=1e-4)


def test_known_noise_may_be_zero_where_the_model_has_its_own(problem):
    data, Z, kernel = problem
    zero = tgp.Dataset(data.X, data.y, np.zeros(data.num_data))
    model = tgp.SGPR(kernel, Z, 0.2)
    assert float(model.elbo(zero)) == float(model.elbo(data))


def test_the_partitions_metric_does_not_recompile(problem):
    """Two models that differ only in the lengthscales that made their blocks share one compiled objective."""
    data, Z, _ = problem
    models = [tgp.SGPR(tgp.kernels.Matern32(1.0, ls), Z, 0.2, bound=tgp.Block(8)).prepare(data)[0] for ls in (0.5, 2.0)]
    assert not np.array_equal(models[0].metric, models[1].metric)
    assert jax.tree.structure(models[0]) == jax.tree.structure(models[1])


def test_a_python_sum_of_kernels(problem):
    data, Z, kernel = problem
    linear = tgp.kernels.Linear(0.3)
    both = tgp.SGPR(sum([kernel, linear]), Z, 0.2).elbo(data)
    assert float(both) == float(tgp.SGPR(kernel + linear, Z, 0.2).elbo(data))
