"""Laws that hold for every data set, kernel and hyperparameter, over random ones."""

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tightgp as tgp
from tests.reference import Dense
from tightgp.data.partition import Partition

N, M, D = 24, 5, 2
KERNELS = {
    "se": lambda v, ls: tgp.kernels.SquaredExponential(v, ls),
    "matern12": lambda v, ls: tgp.kernels.Matern12(v, ls),
    "matern52": lambda v, ls: tgp.kernels.Matern52(v, ls),
    "sum": lambda v, ls: tgp.kernels.Matern32(v, ls) + tgp.kernels.Linear(0.3) + 0.2,
    "product": lambda v, ls: 0.5 * tgp.kernels.SquaredExponential(v, ls) * tgp.kernels.Matern52(1.0, 2.0),
}
LADDER = ("standard", "spherical", "diagonal", tgp.Block(4, "rows"), tgp.Block(8, "rows"), tgp.Block(N, "rows"))
BOUNDS = (*LADDER, tgp.Block(5), tgp.PowerEP(0.5), tgp.PowerEP(1.0), tgp.PowerEP(0.7, block=4))

laws = settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


def problems(kernels=tuple(KERNELS)):
    """What makes a problem: a seed, a kernel, log scales, one or two outputs, known noise or none."""
    return st.tuples(
        st.integers(0, 2**32 - 1),
        st.sampled_from(kernels),
        st.floats(-1.5, 1.5),
        st.floats(-3, 0.5),
        st.booleans(),
        st.booleans(),
    )


def build(problem):
    """A kernel, data, inducing inputs and a noise variance."""
    seed, name, log_variance, log_noise, two_outputs, known_noise = problem
    rng = np.random.default_rng(seed)
    kernel = KERNELS[name](10**log_variance, 10 ** rng.uniform(-0.7, 0.7, size=D))
    X = rng.normal(size=(N, D))
    y = rng.normal(size=(N, 2) if two_outputs else N)
    known = rng.uniform(0.01, 0.5, size=N) if known_noise else None
    return kernel, tgp.Dataset(X, y, known), X[:M] + 0.1 * rng.normal(size=(M, D)), 10**log_noise


def dense(kernel, data, Z, noise, jitter=1e-6):
    known = 0.0 if data.noise_variance is None else data.noise_variance
    return Dense(kernel, data.X, data.y, Z, noise, jitter, known=known)


@laws
@given(problems())
def test_ladder(problem):
    """standard ≤ spherical ≤ diagonal ≤ block (and merging blocks never lowers it) ≤ evidence ≤ upper."""
    kernel, data, Z, noise = build(problem)
    values = [float(tgp.SGPR(kernel, Z, noise, bound=b).elbo(data)) for b in LADDER]
    values.append(float(tgp.ExactGP(kernel, noise).log_evidence(data)))
    values.append(float(tgp.SGPR(kernel, Z, noise).upper_bound(data)))
    slack = 1e-9 * np.abs(values).max()
    assert np.all(np.diff(values) >= -slack), values


@laws
@given(problems())
def test_all_equal_when_inducing_points_are_the_data(problem):
    kernel, data, _, noise = build(problem)
    evidence = float(tgp.ExactGP(kernel, noise).log_evidence(data))
    jitter = 1e-12
    reference = dense(kernel, data, data.X, noise, jitter)
    # What the jitter alone costs: every bound loses at most the standard bound's trace term and the loss in Q.
    allowance = 1e-6 + 2 * abs(reference.bound("standard") - reference.evidence())
    for bound in ("standard", "spherical", "diagonal", tgp.Block(8, "rows"), tgp.PowerEP(0.5)):
        value = float(tgp.SGPR(kernel, data.X, noise, bound=bound, jitter=jitter).elbo(data))
        assert value == pytest.approx(evidence, rel=1e-7, abs=allowance)


@laws
@given(problems())
def test_block_of_one_is_diagonal(problem):
    kernel, data, Z, noise = build(problem)
    one = tgp.SGPR(kernel, Z, noise, bound=tgp.Block(1)).elbo(data)
    assert float(one) == pytest.approx(float(tgp.SGPR(kernel, Z, noise).elbo(data)), rel=1e-12)


@laws
@given(problems(), st.integers(1, N), st.integers(1, N))
def test_merging_blocks_never_lowers_the_bound(problem, first, second):
    """Blocks of size s, against blocks of size 2s made of pairs of them."""
    kernel, data, Z, noise = build(problem)
    small = float(tgp.SGPR(kernel, Z, noise, bound=tgp.Block(first, "rows")).elbo(data))
    merged = float(tgp.SGPR(kernel, Z, noise, bound=tgp.Block(first * second, "rows")).elbo(data))
    assert merged >= small - 1e-9 * abs(small)


@laws
@given(problems(), st.sampled_from([1, 7, N, N + 3]), st.sampled_from(BOUNDS))
def test_chunk_invariance(problem, chunk, bound):
    kernel, data, Z, noise = build(problem)
    model = tgp.SGPR(kernel, Z, noise, bound=bound)
    assert float(model.elbo(data, chunk=chunk)) == pytest.approx(float(model.elbo(data)), rel=1e-11)


@laws
@given(problems())
def test_power_ep_tends_to_the_standard_bound(problem):
    kernel, data, Z, noise = build(problem)
    standard = float(tgp.SGPR(kernel, Z, noise, bound="standard").elbo(data))
    gaps = [abs(float(tgp.SGPR(kernel, Z, noise, bound=tgp.PowerEP(a)).elbo(data)) - standard) for a in (1e-4, 1e-8)]
    assert gaps[1] <= 1e-3 * gaps[0] + 1e-6 * abs(standard)


@laws
@given(problems(), st.sampled_from(BOUNDS))
def test_gradient_against_finite_differences(problem, bound):
    kernel, data, Z, noise = build(problem)
    model, rows = tgp.SGPR(kernel, Z, noise, bound=bound).prepare(data)
    leaves, structure = jax.tree.flatten(model)

    def value(leaves):
        return jax.tree.unflatten(structure, leaves).objective(rows)[0]

    gradient = jax.grad(value)(leaves)
    rng = np.random.default_rng(0)
    direction = [rng.normal(size=leaf.shape) for leaf in leaves]
    slope = sum(float(np.sum(g * d)) for g, d in zip(gradient, direction, strict=True))

    def along(step):
        return float(value([leaf + step * d for leaf, d in zip(leaves, direction, strict=True)]))

    h = 1e-4
    central = (8 * (along(h) - along(-h)) - (along(2 * h) - along(-2 * h))) / (12 * h)
    size = sum(float(np.linalg.norm(g)) for g in gradient)
    assert slope == pytest.approx(central, rel=1e-5, abs=1e-6 * (1 + size))


@laws
@given(problems(kernels=("se", "matern52", "sum")), st.sampled_from([b for b in BOUNDS if not isinstance(b, str)]))
def test_consistent_variance_is_between_zero_and_the_cheap_one(problem, bound):
    kernel, data, Z, noise = build(problem)
    if not bound.is_bound:
        bound = "diagonal"
    post = tgp.SGPR(kernel, Z, noise, bound=bound).posterior(data)
    Xs = np.concatenate([np.random.default_rng(1).normal(size=(10, D)), data.X[:5]])
    mean, cheap = post.predict_f(Xs)
    same_mean, consistent = post.predict_f(Xs, exact_conditional=True)
    scale = float(np.max(np.asarray(kernel.diagonal(Xs))))
    np.testing.assert_allclose(mean, same_mean, rtol=1e-10, atol=1e-10 * scale)
    assert np.all(np.asarray(consistent) <= np.asarray(cheap) + 1e-8 * scale)
    raw = np.diagonal(np.asarray(post.predict_f(Xs, full_cov=True, exact_conditional=True)[1]), axis1=-2, axis2=-1)
    assert np.all(raw >= -1e-7 * scale)


@laws
@given(problems(), st.sampled_from(["standard", "spherical", "diagonal", tgp.PowerEP(0.5), tgp.Block(6)]))
def test_permuting_rows_changes_nothing(problem, bound):
    """Blocks of neighbours included: the partition looks at inputs, not at the order of rows."""
    kernel, data, Z, noise = build(problem)
    rows = np.random.default_rng(2).permutation(N)
    model = tgp.SGPR(kernel, Z, noise, bound=bound)
    assert float(model.elbo(data.take(rows))) == pytest.approx(float(model.elbo(data)), rel=1e-11)


@laws
@given(problems(), st.sampled_from(["rows", "random", "locality"]), st.integers(2, N))
def test_any_partition_gives_a_bound_between_diagonal_and_evidence(problem, how, size):
    kernel, data, Z, noise = build(problem)
    low = float(tgp.SGPR(kernel, Z, noise).elbo(data))
    value = float(tgp.SGPR(kernel, Z, noise, bound=tgp.Block(size, how)).elbo(data))
    high = float(tgp.ExactGP(kernel, noise).log_evidence(data))
    assert low - 1e-9 * abs(low) <= value <= high + 1e-9 * abs(high)
    order = Partition(size, how).order(data.X, np.ones(D))
    assert order is None or np.array_equal(np.sort(order), np.arange(N))


@laws
@given(problems(), st.sampled_from(["standard", "spherical", "diagonal", "block"]))
def test_no_other_V_beats_the_optimal_one(problem, name):
    """The penalties are those of the best V of each structure, by (1.2) and (1.3)."""
    kernel, data, Z, noise = build(problem)
    reference = dense(kernel, data, Z, noise)
    best = reference.uncollapsed_integrand(reference.V(name, size=4))
    assert best == pytest.approx(reference.bound(name, size=4), rel=1e-9)
    rng = np.random.default_rng(3)
    for _ in range(3):
        wiggle = np.diag(np.exp(0.2 * rng.normal() * np.ones(N) if name == "spherical" else 0.2 * rng.normal(size=N)))
        if name != "standard":
            V = wiggle @ reference.V(name, size=4) @ wiggle
            assert reference.uncollapsed_integrand(V) <= best + 1e-9 * abs(best)
