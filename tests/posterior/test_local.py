"""Prediction from the nearest training rows (maths 8.4): a dense reference, its laws, edges and refusals."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag
from scipy.stats import norm

import tightgp as tgp
from tests.reference import Dense
from tightgp import kernels, likelihoods, means
from tightgp.data.neighbours import NeighbourSearch
from tightgp.numerics import chunks
from tightgp.posterior import local

N, M, D, TESTS = 30, 6, 2, 8
#: Each number of neighbours is compiled for: these few serve all tests.
COUNTS = (1, 4, N)
NOISE = 0.2
laws = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
#: A seed, and log scales of prior and noise.
problems = st.tuples(st.integers(0, 2**32 - 1), st.floats(-1.5, 1.5), st.floats(-3, 0.5))


def build(problem):
    """A kernel, inputs, inducing inputs, test inputs, a noise variance, and what else is random."""
    seed, log_variance, log_noise = problem
    rng = np.random.default_rng(seed)
    kernel = kernels.Matern32(10**log_variance, 10 ** rng.uniform(-0.7, 0.7, size=D))
    X = rng.normal(size=(N, D))
    return kernel, X, X[:M] + 0.1 * rng.normal(size=(M, D)), rng.normal(size=(TESTS, D)), 10**log_noise, rng


@pytest.fixture(scope="module")
def fixed():
    """Such a problem, with targets of one output."""
    kernel, X, Z, Xs, _, rng = build((7, 0.2, -1.0))
    return kernel, tgp.Dataset(X, np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=N)), Z, Xs


@pytest.fixture(scope="module")
def post(fixed):
    kernel, data, Z, _ = fixed
    return tgp.SGPR(kernel, Z, NOISE).posterior(data)


def nearest(X, Xs, scales, count):
    return np.argsort(np.linalg.norm((Xs[:, None] - X[None]) / scales, axis=2), axis=1, kind="stable")[:, :count]


def expected(dense, kernel, X, Z, Xs, count, q, output=0, scales=None):
    """Means and variances (n,) by the dense formula, each test point given its own neighbours."""
    scales = np.asarray(kernel.lengthscale) if scales is None else scales
    return dense.locals(kernel, Xs, X, Z, nearest(X, Xs, scales, count), q, output)


def assert_same(ours, theirs, rtol=1e-7, atol=1e-9):
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=atol)


def random_q(rng, m, count=1):
    root = np.tril(0.3 * rng.normal(size=(count, m, m))) + np.eye(m) * rng.uniform(0.2, 1.5, size=(count, 1, m))
    return rng.normal(size=(m, count)), root


# The dense formula.

#: How much of αD the structure's own noise holds (maths 2.2).
EXTRA = {"standard": 0.0, "diagonal": 0.0, tgp.Block(6): 0.0, tgp.PowerEP(1.0, block=6): 1.0}
EXTRA[tgp.PowerEP(0.5, block=6)] = 0.5


def test_neighbours_are_those_that_training_would_have_chosen(fixed):
    """Lengthscales that changed since the last search change the conditional, and not who is a neighbour."""
    kernel, data, Z, Xs = fixed
    model, _ = tgp.SGPR(kernel, Z, NOISE, bound=tgp.Vecchia(4, block=1)).prepare(data)
    learnt = kernels.Matern32(1.0, np.asarray(kernel.lengthscale)[::-1] * [0.1, 10.0])
    post = eqx.tree_at(lambda m: m.kernel, model, learnt).posterior(data)
    scales = np.asarray(kernel.lengthscale)
    chosen, others = (nearest(data.X, Xs, s, 4) for s in (scales, np.asarray(learnt.lengthscale)))
    assert not np.array_equal(np.sort(chosen), np.sort(others))
    dense = Dense(learnt, data.X, data.y, Z, NOISE)
    K = np.asarray(learnt(Z))
    L = np.linalg.cholesky(K + 1e-6 * np.mean(np.diag(K)) * np.eye(M))
    (q,) = post.latents[0].q
    over_u = L @ q.mean[:, 0], L @ q.root[0] @ q.root[0].T @ L.T
    ours = post.predict_f(Xs, neighbours=4)
    assert_same(ours, expected(dense, learnt, data.X, Z, Xs, 4, over_u, scales=scales), 1e-6, 1e-8)


@pytest.mark.parametrize("bound", EXTRA, ids=lambda b: getattr(b, "name", b))
def test_every_structure_by_the_dense_formula(fixed, bound):
    """Two outputs, noise that is known row by row beside the model's own, a mean function."""
    kernel, data, Z, Xs = fixed
    rng = np.random.default_rng(3)
    known, mean = rng.uniform(0.01, 0.5, size=N), means.Linear([[0.4, -1.0], [0.1, 0.2]], [0.3, 2.0])
    data = tgp.Dataset(data.X, np.stack([data.y, rng.normal(size=N)], axis=1), known)
    model = tgp.SGPR(kernel, Z, NOISE, bound=bound, mean=mean)
    post = model.posterior(data)
    prepared, _ = model.prepare(data)
    order = data.placed(prepared.bound.partition, prepared.metric)[1]
    data = data if order is None else data.take(order)
    dense = Dense(
        kernel, data.X, data.y, Z, NOISE, mean=np.asarray(mean(jnp.asarray(data.X))), known=data.noise_variance
    )
    m, S = dense.optimal(EXTRA[bound] * dense.D * dense.blocks(prepared.bound.partition.size))
    at_tests = np.asarray(mean(jnp.asarray(Xs)))
    f, y = post.predict_f(Xs, neighbours=4), post.predict_y(Xs, neighbours=4)
    for p in range(2):
        one, var = expected(dense, kernel, data.X, Z, Xs, 4, (m[:, p], S), p)
        assert_same((f[0][:, p], f[1][:, p]), (one + at_tests[:, p], var))
        assert_same((y[0][:, p], y[1][:, p]), (one + at_tests[:, p], var + NOISE))


@laws
@given(problems)
def test_any_problem_by_the_dense_formula(problem):
    kernel, X, Z, Xs, noise, rng = build(problem)
    y = rng.normal(size=N)
    dense = Dense(kernel, X, y, Z, noise)
    m, S = dense.optimal()
    post = tgp.SGPR(kernel, Z, noise).posterior(tgp.Dataset(X, y))
    for count in COUNTS:
        ours = post.predict_f(Xs, neighbours=count)
        assert_same(ours, expected(dense, kernel, X, Z, Xs, count, (m[:, 0], S)), 1e-6, 1e-7 * (1 + kernel.variance))


def svgp(kernel, Z, rng, noise=NOISE, data=None, **kwargs):
    """A model with a random q, and that q over u, for each function."""
    model = tgp.SVGP(kernel, likelihoods.Gaussian(noise), Z, **kwargs)
    groups = model.q if isinstance(model.q, tuple) else (model.q,)
    values, over_u = {}, []
    for i, (group, (one, inputs)) in enumerate(zip(groups, model.groups(), strict=True)):
        mean, root = random_q(rng, *group.mean.shape)
        name = f"q[{i}]" if isinstance(model.q, tuple) else "q"
        values |= {f"{name}.mean": mean, f"{name}.root": root}
        whole = [(mean[:, j], root[j] @ root[j].T) for j in range(mean.shape[1])]
        if model.q_orthogonal is not None:
            more, more_root = random_q(rng, *model.q_orthogonal.mean.shape)
            values |= {"q_orthogonal.mean": more, "q_orthogonal.root": more_root}
            second = [(more[:, j], more_root[j] @ more_root[j].T) for j in range(mean.shape[1])]
            whole = [(np.append(a, b), block_diag(S, T)) for (a, S), (b, T) in zip(whole, second, strict=True)]
        K = np.asarray(one(inputs))
        L = np.linalg.cholesky(K + 1e-6 * np.mean(np.diag(K)) * np.eye(len(K)))
        over_u += [(L @ m, L @ S @ L.T) for m, S in whole] if model.whiten else whole
    return tgp.assign(model, values), over_u


@laws
@given(problems, st.booleans())
def test_an_explicit_q_by_the_dense_formula(problem, whiten):
    kernel, X, Z, Xs, noise, rng = build(problem)
    y = rng.normal(size=N)
    model, (q,) = svgp(kernel, Z, rng, noise, whiten=whiten)
    dense, post = Dense(kernel, X, y, Z, noise), model.posterior(tgp.Dataset(X, y))
    for count in COUNTS:
        ours = post.predict_f(Xs, neighbours=count)
        assert_same(ours, expected(dense, kernel, X, Z, Xs, count, q), 1e-6, 1e-7 * (1 + kernel.variance))


@pytest.mark.parametrize(
    ("noise", "missing", "shared"),
    [(NOISE, False, True), ([0.1, 0.6], False, False), (NOISE, True, True), ([0.1, 0.6], True, False)],
    ids=["one kernel", "two kernels and noises", "some missing", "two kernels and noises, some missing"],
)
def test_several_functions_by_the_dense_formula(fixed, noise, missing, shared):
    """A target that is missing tells nothing of its function, and all else of its row stays."""
    kernel, data, Z, Xs = fixed
    rng = np.random.default_rng(4)
    pair = [kernel, kernels.Matern32(0.7, [1.5, 0.4])]
    kwargs = {"num_latents": 2} if shared else {}
    mean = means.Constant([0.5, -1.5])
    model, q = svgp(kernel if shared else pair, Z, rng, noise, mean=mean, **kwargs)
    Y, known = rng.normal(size=(N, 2)), rng.uniform(0.01, 0.3, size=N)
    if missing:
        Y[rng.uniform(size=(N, 2)) < 0.3] = np.nan
    post = model.posterior(tgp.Dataset(data.X, Y, known, missing=missing))
    f, y = post.predict_f(Xs, neighbours=4), post.predict_y(Xs, neighbours=4)
    for p, one in enumerate([kernel, kernel] if shared else pair):
        sigma2, level = np.broadcast_to(noise, 2)[p], [0.5, -1.5][p]
        dense = Dense(one, data.X, Y[:, p], Z, sigma2, mean=level, known=known)
        m, v = expected(dense, one, data.X, Z, Xs, 4, q[p])
        assert_same((f[0][:, p], f[1][:, p]), (m + level, v))
        assert_same((y[0][:, p], y[1][:, p]), (m + level, v + sigma2))


def test_a_function_without_any_target_is_predicted_as_without_neighbours(fixed):
    kernel, data, Z, Xs = fixed
    rng = np.random.default_rng(4)
    model, _ = svgp(kernel, Z, rng, num_latents=2)
    post = model.posterior(tgp.Dataset(data.X, np.stack([data.y, np.full(N, np.nan)], axis=1), missing=True))
    near, far = post.predict_f(Xs, neighbours=4), post.predict_f(Xs)
    assert_same([a[:, 1] for a in near], [a[:, 1] for a in far], 1e-10, 1e-12)
    assert np.all(np.abs(near[0][:, 0] - far[0][:, 0]) > 1e-6)


def test_orthogonal_inducing_inputs_by_the_dense_formula(fixed):
    kernel, data, Z, Xs = fixed
    rng = np.random.default_rng(5)
    others = rng.normal(size=(4, D))
    model, (q,) = svgp(kernel, Z, rng, orthogonal=others)
    every = np.concatenate([Z, others])
    dense = Dense(kernel, data.X, data.y, every, NOISE)
    ours = model.posterior(data).predict_f(Xs, neighbours=4)
    assert_same(ours, expected(dense, kernel, data.X, every, Xs, 4, q))


def test_diagonal_covariances_and_separate_inducing_inputs(fixed):
    kernel, data, Z, Xs = fixed
    rng = np.random.default_rng(6)
    sets, Y = [Z, rng.normal(size=(M, D))], rng.normal(size=(N, 2))
    model = tgp.SVGP(kernel, likelihoods.Gaussian(NOISE), sets, covariance="diagonal")
    ms, roots = [rng.normal(size=(len(z), 1)) for z in sets], [rng.uniform(0.1, 1.0, size=(1, len(z))) for z in sets]
    for i in range(2):
        model = tgp.assign(model, {f"q[{i}].mean": ms[i], f"q[{i}].root": roots[i]})
    mean, var = model.posterior(tgp.Dataset(data.X, Y)).predict_f(Xs, neighbours=4)
    for p, z in enumerate(sets):
        dense = Dense(kernel, data.X, Y[:, p], z, NOISE)
        L = np.linalg.cholesky(dense.Kuu)
        q = (L @ ms[p][:, 0], L @ np.diag(roots[p][0] ** 2) @ L.T)
        assert_same((mean[:, p], var[:, p]), expected(dense, kernel, data.X, z, Xs, 4, q))


def test_all_noise_known(fixed):
    kernel, data, Z, Xs = fixed
    known = np.random.default_rng(8).uniform(0.05, 0.5, size=N)
    dense = Dense(kernel, data.X, data.y, Z, 0.0, known=known)
    m, S = dense.optimal()
    post = tgp.SGPR(kernel, Z, None).posterior(tgp.Dataset(data.X, data.y, known))
    assert_same(post.predict_f(Xs, neighbours=4), expected(dense, kernel, data.X, Z, Xs, 4, (m[:, 0], S)))


# Laws.


def exact_gp(kernel, X, y, Xs, noise):
    return tgp.ExactGP(kernel, noise).posterior(tgp.Dataset(X, y)).predict_f(Xs)


@laws
@given(problems)
def test_inducing_inputs_at_the_data_give_the_exact_gp(problem):
    kernel, X, _, Xs, noise, rng = build(problem)
    y = rng.normal(size=N)
    post = tgp.SGPR(kernel, X, noise, jitter=1e-11).posterior(tgp.Dataset(X, y))
    exact = exact_gp(kernel, X, y, Xs, noise)
    assert_same(post.predict_f(Xs, neighbours=4), exact, 1e-4, 1e-6 * (1 + kernel.variance))


@laws
@given(problems)
def test_the_exact_posterior_of_u_and_all_rows_give_the_exact_gp(problem):
    """p(f*|y) = ∫ p(f*|u, y) p(u|y) du for any inducing inputs; one block of PITC has the exact p(u|y)."""
    kernel, X, Z, Xs, noise, rng = build(problem)
    y = rng.normal(size=N)
    post = tgp.SGPR(kernel, Z, noise, bound=tgp.PowerEP(1.0, block=N, partition="rows"), jitter=1e-10)
    post = post.posterior(tgp.Dataset(X, y))
    exact = exact_gp(kernel, X, y, Xs, noise)
    assert_same(post.predict_f(Xs, neighbours=N), exact, 1e-5, 1e-6 * (1 + kernel.variance))
    mean, cov = post.predict_f(Xs, neighbours=N, full_cov=True)
    joint = tgp.ExactGP(kernel, noise).posterior(tgp.Dataset(X, y)).predict_f(Xs, full_cov=True)
    assert_same((mean, cov), joint, 1e-5, 1e-6 * (1 + kernel.variance))


@laws
@given(problems)
def test_given_u_more_neighbours_never_add_variance(problem):
    """q is nearly a point here, so that what is left is the conditional's part."""
    kernel, X, Z, Xs, noise, rng = build(problem)
    model = tgp.SVGP(kernel, likelihoods.Gaussian(noise), Z)
    model = tgp.assign(model, {"q.mean": rng.normal(size=(M, 1)), "q.root": 1e-9 * np.eye(M)[None]})
    post = model.posterior(tgp.Dataset(X, rng.normal(size=N)))
    variances = [post.predict_f(Xs)[1], *(post.predict_f(Xs, neighbours=count)[1] for count in COUNTS)]
    steps = np.diff(np.asarray(variances), axis=0)
    assert np.all(steps <= 1e-10 * kernel.variance)
    assert np.all(steps[0] < 0)


@laws
@given(problems)
def test_joint_and_marginal_predictions_agree(problem):
    """Where all test points have the same neighbours; the joint covariance is one."""
    kernel, X, Z, Xs, noise, rng = build(problem)
    post = tgp.SGPR(kernel, Z, noise).posterior(tgp.Dataset(X, rng.normal(size=N)))
    mean, cov = post.predict_f(Xs, neighbours=N, full_cov=True)
    size = float(kernel.variance)
    assert_same((mean, np.diag(cov)), post.predict_f(Xs, neighbours=N), 1e-7, 1e-9 * (1 + size))
    np.testing.assert_allclose(cov, cov.T, atol=1e-12 * size)
    assert np.linalg.eigvalsh(cov).min() > -1e-10 * size
    _, cov_y = post.predict_y(Xs, neighbours=N, full_cov=True)
    np.testing.assert_allclose(cov_y, cov + noise * np.eye(TESTS), rtol=1e-10)


@pytest.mark.parametrize("count", [1, 2])
def test_a_joint_prediction_is_given_all_neighbours_of_all_rows(fixed, post, count):
    kernel, data, Z, Xs = fixed
    dense = Dense(kernel, data.X, data.y, Z, NOISE)
    m, S = dense.optimal()
    rows = np.unique(nearest(data.X, Xs, np.asarray(kernel.lengthscale), count))
    assert count < len(rows) < N
    theirs = dense.local(kernel, Xs, data.X, Z, rows, (m[:, 0], S))
    assert_same(post.predict_f(Xs, neighbours=count, full_cov=True), theirs)


def test_joint_predictions_of_several_functions(fixed):
    """With a noise and missing targets of their own."""
    kernel, data, Z, Xs = fixed
    rng = np.random.default_rng(9)
    model, q = svgp(kernel, Z, rng, [0.1, 0.6], num_latents=2)
    Y = rng.normal(size=(N, 2))
    Y[rng.uniform(size=(N, 2)) < 0.3] = np.nan
    post = model.posterior(tgp.Dataset(data.X, Y, missing=True))
    mean, cov = post.predict_f(Xs, neighbours=4, full_cov=True)
    assert cov.shape == (2, TESTS, TESTS)
    rows = np.unique(nearest(data.X, Xs, np.asarray(kernel.lengthscale), 4))
    for p, noise in enumerate([0.1, 0.6]):
        dense = Dense(kernel, data.X, Y[:, p], Z, noise)
        assert_same((mean[:, p], cov[p]), dense.local(kernel, Xs, data.X, Z, rows, q[p]))
    _, cov_y = post.predict_y(Xs, neighbours=4, full_cov=True)
    np.testing.assert_allclose(cov_y, cov + np.asarray([0.1, 0.6])[:, None, None] * np.eye(TESTS), rtol=1e-10)
    assert post.sample_y(jax.random.key(0), Xs, 3, neighbours=4).shape == (3, TESTS, 2)


def test_samples_have_the_joint_moments(fixed, post):
    *_, Xs = fixed
    mean, cov = post.predict_f(Xs, neighbours=4, full_cov=True)
    draws = np.asarray(post.sample_f(jax.random.key(0), Xs, 20_000, neighbours=4))
    size = np.sqrt(np.diag(cov).max())
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.04 * size)
    np.testing.assert_allclose(np.cov(draws.T), cov, atol=0.04 * size**2)
    draws = np.asarray(post.sample_y(jax.random.key(1), Xs, 20_000, neighbours=4))
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.04 * np.sqrt(size**2 + NOISE))
    np.testing.assert_allclose(np.cov(draws.T), cov + NOISE * np.eye(TESTS), atol=0.04 * (size**2 + NOISE))


def test_log_densities_are_those_of_the_predictions(fixed, post):
    *_, Xs = fixed
    y = np.linspace(-2, 2, TESTS)
    mean, var = post.predict_y(Xs, neighbours=4)
    np.testing.assert_allclose(
        post.log_density(Xs, y, neighbours=4), norm.logpdf(y, mean, np.sqrt(var)), rtol=1e-10, atol=1e-12
    )
    extra = np.linspace(0.1, 1.0, TESTS)
    more = post.predict_y(Xs, neighbours=4, noise_variance=extra)
    assert_same(more, (mean, var + extra), 1e-12)


@pytest.fixture
def recorded(monkeypatch):
    """How many training rows were whitened, each time."""
    sizes = []
    whitened = local._whitened
    monkeypatch.setattr(local, "_whitened", lambda latents, X: sizes.append(len(X)) or whitened(latents, X))
    return sizes


def everywhere(size):
    return dict.fromkeys(("cpu", "gpu"), size)


def test_predictions_do_not_depend_on_how_many_are_searched_for(fixed, recorded, monkeypatch):
    """All training rows kept at once; the union of some test points' neighbours; several searches."""
    kernel, data, Z, _ = fixed
    Xs = np.random.default_rng(10).normal(size=(4 * TESTS, D))
    post, fresh = (tgp.SGPR(kernel, Z, NOISE).posterior(data) for _ in range(2))
    whole = post.predict_f(Xs, neighbours=4)
    post.predict_f(Xs, neighbours=4)
    assert recorded == [32]  # kept from then on
    recorded.clear()
    parts = [fresh.predict_f(Xs[i : i + 4], neighbours=4) for i in range(0, len(Xs), 4)]
    assert recorded == [16] * TESTS
    assert_same([np.concatenate(a) for a in zip(*parts, strict=True)], whole, 1e-10, 1e-12)
    monkeypatch.setattr(local, "_PART", everywhere(TESTS))
    recorded.clear()
    assert_same(fresh.predict_f(Xs, neighbours=4), whole, 1e-10, 1e-12)
    assert recorded == [32]
    monkeypatch.setattr(local, "_KEPT_BYTES", everywhere(16 * M * 8))
    recorded.clear()
    fresh = tgp.SGPR(kernel, Z, NOISE).posterior(data)
    assert_same(fresh.predict_f(Xs, neighbours=4), whole, 1e-10, 1e-12)
    assert recorded == [16] * TESTS
    monkeypatch.setattr(local, "_KEPT_BYTES", everywhere(1))
    recorded.clear()
    assert_same(fresh.predict_f(Xs[:3], neighbours=4), [a[:3] for a in whole], 1e-10, 1e-12)
    assert recorded == [16] * 3


def test_the_search_tree_is_built_once(fixed, monkeypatch):
    kernel, data, Z, Xs = fixed
    built, of = [], NeighbourSearch.of
    monkeypatch.setattr(NeighbourSearch, "of", lambda *given: built.append(given) or of(*given))
    post = tgp.SGPR(kernel, Z, NOISE).posterior(data)
    for _ in range(3):
        post.predict_y(Xs[:1], neighbours=4)
        post.predict_f(Xs, neighbours=3, full_cov=True)
    assert len(built) == 1


def test_predictions_do_not_depend_on_how_many_are_made_at_a_time(fixed, monkeypatch):
    """Row by row here. Sizes are read when JAX compiles: those of this test are no other's."""
    kernel, data, Z, _ = fixed
    post = svgp(kernel, Z[:5], np.random.default_rng(10))[0].posterior(data)
    Xs = np.random.default_rng(10).normal(size=(13, D))
    whole = post.predict_f(Xs, neighbours=3)
    monkeypatch.setattr(chunks, "_MAP_BYTES", everywhere(1))
    asked = []
    given = local._conditioned
    monkeypatch.setattr(local, "_conditioned", lambda *all: asked.append(all[2].shape) or given(*all))
    assert_same(post.predict_f(Xs[:12], neighbours=3), [a[:12] for a in whole], 1e-10, 1e-12)
    assert asked == [(1, D)]


def test_predictions_do_not_depend_on_the_order_of_rows(fixed, post):
    kernel, data, Z, Xs = fixed
    rng = np.random.default_rng(11)
    mine, theirs = rng.permutation(TESTS), rng.permutation(N)
    whole = post.predict_f(Xs, neighbours=4)
    assert_same(post.predict_f(Xs[mine], neighbours=4), [a[mine] for a in whole], 1e-10, 1e-12)
    other = tgp.SGPR(kernel, Z, NOISE).posterior(data.take(theirs))
    assert_same(other.predict_f(Xs, neighbours=4), whole, 1e-8, 1e-10)
    mean, cov = post.predict_f(Xs, neighbours=4, full_cov=True)
    turned = other.predict_f(Xs[mine], neighbours=4, full_cov=True)
    assert_same(turned, (mean[mine], cov[np.ix_(mine, mine)]), 1e-8, 1e-10)


@given(st.integers(1, 10**9))
def test_sizes_are_rounded_up_a_little(count):
    size = chunks.rounded_up(count)
    assert count <= size <= max(count + 15, 1.25 * count)
    assert chunks.rounded_up(size) == size


def test_few_sizes_are_compiled_for():
    assert len({chunks.rounded_up(n) for n in range(1, 100_000)}) < 100


# Variances after q(u) is integrated over, and calibration.


def test_neighbours_rarely_raise_the_variance():
    """Given u they never do; what they take from u's own part they mostly, but not always, take too."""
    raised, seen = 0, 0
    rng = np.random.default_rng(12)
    for _ in range(60):
        problem = (int(rng.integers(2**32)), rng.uniform(-1.5, 1.5), rng.uniform(-3, 0.5))
        kernel, X, Z, Xs, noise, more = build(problem)
        post = tgp.SGPR(kernel, Z, noise, bound="standard").posterior(tgp.Dataset(X, more.normal(size=N)))
        before, after = post.predict_f(Xs)[1], post.predict_f(Xs, neighbours=4)[1]
        raised += int(np.sum(after > before * (1 + 1e-9)))
        seen += TESTS
    assert raised <= 0.1 * seen


def simulate(lengthscale, noise, of):
    """Errors over predicted standard deviations, of what was drawn from the model itself; 2000 for each way."""
    n, m, tests, draws = 400, 20, 200, 10
    kernel = kernels.Matern32(1.0, lengthscale)
    scores = {None: [], 16: []}
    for draw in range(draws):
        rng = np.random.default_rng(100 + draw)
        X = rng.uniform(size=(n + tests, 2))
        f = np.linalg.cholesky(np.asarray(kernel(X)) + 1e-9 * np.eye(n + tests)) @ rng.normal(size=n + tests)
        y = f + np.sqrt(noise) * rng.normal(size=n + tests)
        post = tgp.SGPR(kernel, X[:m], noise, bound="standard").posterior(tgp.Dataset(X[:n], y[:n]))
        for count, found in scores.items():
            mean, var = getattr(post, f"predict_{of}")(X[n:], neighbours=count)
            found.append(({"f": f, "y": y}[of][n:] - np.asarray(mean)) / np.sqrt(var))
    return {count: np.concatenate(found) for count, found in scores.items()}


@pytest.mark.parametrize(
    ("lengthscale", "noise", "of", "room"),
    [(0.3, 0.05, "y", 0.04), (0.6, 2.0, "f", 0.1)],
    ids=["mostly the conditional's", "mostly that of q(u)"],
)
def test_intervals_cover_what_they_say(lengthscale, noise, of, room):
    """Variance is the conditional's where inducing points are few, and q(u)'s where noise is large.

    Neighbours are heard twice, by q(u) and by themselves, so that their intervals are a little short. Without q(u)'s
    part nine of ten in the second case would be six.
    """
    for count, scores in simulate(lengthscale, noise, of).items():
        for share in (0.5, 0.9, 0.95):
            covered = np.mean(np.abs(scores) < norm.ppf(0.5 + share / 2))
            assert abs(covered - share) < room, (count, share)


# Edges.


def test_a_test_point_at_a_training_row(fixed, post):
    kernel, data, Z, _ = fixed
    dense = Dense(kernel, data.X, data.y, Z, NOISE)
    m, S = dense.optimal()
    ours = post.predict_f(data.X[:TESTS], neighbours=4)
    assert_same(ours, expected(dense, kernel, data.X, Z, data.X[:TESTS], 4, (m[:, 0], S)))


def test_rows_with_equal_inputs_and_different_targets(fixed):
    """All of one place are its nearest, and count like their mean with a smaller noise."""
    kernel, data, Z, _ = fixed
    X, y = np.repeat(data.X[:7], 4, axis=0), np.random.default_rng(13).normal(size=28)
    model, (q,) = svgp(kernel, Z, np.random.default_rng(14))
    ours = model.posterior(tgp.Dataset(X, y)).predict_f(data.X[:TESTS], neighbours=4)
    once = tgp.Dataset(data.X[:7], y.reshape(7, 4).mean(axis=1), np.full(7, NOISE / 4))
    dense = Dense(kernel, once.X, once.y, Z, 0.0, known=once.noise_variance)
    assert_same(ours, expected(dense, kernel, once.X, Z, data.X[:TESTS], 1, q))


def test_more_neighbours_than_rows_are_all_rows(fixed, post):
    *_, Xs = fixed
    assert_same(post.predict_f(Xs, neighbours=10_000), post.predict_f(Xs, neighbours=N), 0, 0)


def test_far_away_the_prior_returns(fixed):
    kernel, data, Z, _ = fixed
    post = tgp.SGPR(kernel, Z, NOISE, mean=means.Constant(3.0)).posterior(data)
    far = np.full((TESTS, D), 1e3)
    assert_same(post.predict_f(far, neighbours=4), (np.full(TESTS, 3.0), np.full(TESTS, kernel.variance)), 1e-10)


def test_noise_at_its_floor(fixed):
    kernel, data, Z, Xs = fixed
    noise = 1.0001e-6
    dense = Dense(kernel, data.X, data.y, Z, noise)
    m, S = dense.optimal()
    post = tgp.SGPR(kernel, Z, noise).posterior(data)
    for count in COUNTS:
        ours = post.predict_f(Xs, neighbours=count)
        assert np.all(np.isfinite(ours))
        assert_same(ours, expected(dense, kernel, data.X, Z, Xs, count, (m[:, 0], S)), 1e-4, 1e-6)
    mean, var = post.predict_f(data.X[:TESTS], neighbours=4)
    np.testing.assert_allclose(mean, data.y[:TESTS], atol=1e-3)
    assert np.all(np.asarray(var) < 1e-5)


def test_inputs_without_any_variation(fixed):
    kernel, data, *_ = fixed
    X = np.ones((N, D))
    post = tgp.SGPR(kernel, X[:M], NOISE).posterior(tgp.Dataset(X, data.y))
    mean, var = post.predict_f(X[:TESTS], neighbours=4)
    assert np.ptp(mean) < 1e-12
    # All rows tell of one number, and q(u) has heard all of them.
    assert_same((mean[:1], var[:1]), exact_gp(kernel, X, data.y, X[:1], NOISE), 1e-3, 1e-5)


COMPOSED = {
    "unseen input": (kernels.Matern32(1.2, 0.7, active_dims=[0]), [0.7, np.inf]),
    "linear": (kernels.Linear([0.5, 1.5]), None),
    "sum": (kernels.Matern32(1.2, [0.7, 2.0]) + kernels.Linear(0.3) + kernels.White(0.1), [0.7, 2.0]),
    "product": (kernels.SquaredExponential(1.2, [3.0, 2.0]) * kernels.Matern12(0.8, [0.7, 4.0]), [0.7, 2.0]),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_every_kind_of_kernel_by_the_dense_formula(fixed, name):
    """Lengthscales are infinite where an input is not seen, the shortest in combinations, and spreads where none is."""
    _, data, Z, Xs = fixed
    kernel, scales = COMPOSED[name]
    scales = data.X.std(axis=0) if scales is None else np.asarray(scales)
    model, (q,) = svgp(kernel, Z, np.random.default_rng(18))
    ours = model.posterior(data).predict_f(Xs, neighbours=4)
    dense = Dense(kernel, data.X, data.y, Z, NOISE)
    assert_same(ours, expected(dense, kernel, data.X, Z, Xs, 4, q, scales=scales), 1e-6, 1e-8)


def test_one_row_of_each(fixed, post):
    kernel, data, Z, Xs = fixed
    whole = post.predict_f(Xs, neighbours=4)
    assert_same(post.predict_f(Xs[2:3], neighbours=4), [a[2:3] for a in whole], 1e-10, 1e-12)
    one = data.take([5])
    dense = Dense(kernel, one.X, one.y, Z, NOISE)
    model, (q,) = svgp(kernel, Z, np.random.default_rng(15))
    ours = model.posterior(one).predict_f(Xs, neighbours=4)
    assert_same(ours, expected(dense, kernel, one.X, Z, Xs, 1, q))


def single(data):
    return tgp.Dataset(*(None if a is None else a.astype(np.float32) for a in (data.X, data.y, data.noise_variance)))


@pytest.mark.parametrize("known", [False, True], ids=["noise", "known noise"])
def test_float32(fixed, post, known):
    kernel, data, Z, Xs = fixed
    data = single(tgp.Dataset(data.X, data.y, np.full(N, NOISE)) if known else data)
    low = tgp.SGPR(kernel, Z.astype(np.float32), None if known else NOISE).posterior(data)
    for full_cov in (False, True):
        ours = low.predict_f(Xs.astype(np.float32), neighbours=4, full_cov=full_cov)
        assert {a.dtype for a in ours} == {np.dtype(np.float32)}
        assert_same(ours, post.predict_f(Xs, neighbours=4, full_cov=full_cov), 0, 2e-3)


@pytest.mark.parametrize("size", [1.0, 100.0])
def test_float32_with_hardly_any_noise(size):
    """What the inducing points leave of the prior is rounding then, and not positive: predictions stay as good."""
    X = np.random.default_rng(19).uniform(-1, 1, size=(300, 2)).astype(np.float32)
    kernel, f = kernels.SquaredExponential(size, 1.0), np.sin(3 * X[:, 0])
    post = tgp.SGPR(kernel, X[:80], 1.01e-6).posterior(tgp.Dataset(X[:250], f[:250]))
    near, far = post.predict_f(X[250:], neighbours=32), post.predict_f(X[250:])
    worst = [np.max(np.abs(np.asarray(mean) - f[250:])) for mean, _ in (near, far)]
    assert worst[0] < 3 * worst[1]
    assert np.all(near[1] >= 0)


# Refusals.


@pytest.mark.parametrize("neighbours", [-1, 2.5, True, "64"])
def test_a_number_of_neighbours_is_a_whole_one(fixed, post, neighbours):
    *_, Xs = fixed
    calls = [
        lambda: post.predict_f(Xs, neighbours=neighbours),
        lambda: post.predict_f(Xs, neighbours=neighbours, full_cov=True),
        lambda: post.predict_y(Xs, neighbours=neighbours),
        lambda: post.log_density(Xs, Xs[:, 0], neighbours=neighbours),
        lambda: post.sample_f(jax.random.key(0), Xs, neighbours=neighbours),
        lambda: post.sample_y(jax.random.key(0), Xs, neighbours=neighbours),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="neighbours must be a whole number of at least 0"):
            call()


def refused(post, Xs, message):
    calls = [
        lambda: post.predict_f(Xs, neighbours=4),
        lambda: post.predict_y(Xs, neighbours=4),
        lambda: post.sample_f(jax.random.key(0), Xs, neighbours=4),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=message):
            call()


def test_what_has_no_local_prediction_says_so(fixed):
    kernel, data, Z, Xs = fixed
    gaussian = likelihoods.Gaussian(NOISE)
    counts = tgp.Dataset(data.X, np.arange(N) % 3 + 0.0)
    refused(tgp.SVGP(kernel, likelihoods.Poisson(), Z).posterior(counts), Xs, "Gaussian noise, not Poisson")
    two = tgp.SVGP(kernel, likelihoods.HeteroscedasticGaussian(), Z).posterior(data)
    refused(two, Xs, "Gaussian noise, not HeteroscedasticGaussian")
    mixed = tgp.SVGP(kernel, gaussian, Z, mixing=[[1.0], [0.5]])
    refused(mixed.posterior(tgp.Dataset(data.X, np.stack([data.y] * 2, axis=1))), Xs, "not a mixing")
    scaled = tgp.SVGP(kernel, gaussian, Z, "spherical").posterior(data, scaled=True)
    refused(scaled, Xs, "make the posterior with scaled=False")
    rows = "needs training rows, and this posterior keeps none"
    refused(tgp.SVGP(kernel, gaussian, Z).posterior(), Xs, rows)
    refused(tgp.SVGP(kernel, gaussian, Z).posterior(data).without_rows(), Xs, rows)
    refused(tgp.SGPR(kernel, Z, NOISE).posterior(data).without_rows(), Xs, rows)
    refused(tgp.ExactGP(kernel, NOISE).posterior(data), Xs, rows)


@pytest.mark.parametrize("full_cov", [False, True])
def test_one_way_to_predict_at_a_time(fixed, post, full_cov):
    *_, Xs = fixed
    with pytest.raises(ValueError, match="neighbours and exact_conditional are two ways"):
        post.predict_f(Xs, neighbours=4, exact_conditional=True, full_cov=full_cov)
    with pytest.raises(ValueError, match="neighbours and exact_conditional are two ways"):
        post.predict_y(Xs, neighbours=4, exact_conditional=True, full_cov=full_cov)


def test_neighbours_within_transformations(fixed, post, monkeypatch):
    """Marginal predictions go through them, joint ones do not, and a posterior that is made there has no neighbours."""
    *_, Xs = fixed
    Xs = jnp.asarray(Xs)
    marginals = [
        lambda p, X: p.predict_f(X, neighbours=4),
        lambda p, X: p.predict_y(X, neighbours=4),
        lambda p, X: p.log_density(X, jnp.zeros(TESTS), neighbours=4),
    ]
    joints = [
        lambda p, X: p.predict_f(X, neighbours=4, full_cov=True),
        lambda p, X: p.sample_f(jax.random.key(0), X, neighbours=4),
        lambda p, X: p.sample_y(jax.random.key(0), X, neighbours=4),
    ]
    for call in marginals:
        for got, wanted in zip(
            jax.tree.leaves(jax.jit(lambda X, call=call: call(post, X))(Xs)),
            jax.tree.leaves(call(post, Xs)),
            strict=True,
        ):
            np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-10)
    step = jnp.linspace(-1.0, 1.0, Xs.size).reshape(Xs.shape)
    total = jax.jit(lambda X: jnp.sum(post.predict_f(X, neighbours=4)[0]))
    slope = jnp.sum(jax.grad(total)(Xs) * step)
    np.testing.assert_allclose(slope, (total(Xs + 1e-6 * step) - total(Xs - 1e-6 * step)) / 2e-6, rtol=1e-5)
    for call in joints:
        with pytest.raises(ValueError, match="outside of JAX transformations"):
            jax.jit(lambda X, call=call: call(post, X))(Xs)
    for call in (*marginals, *joints):
        with pytest.raises(ValueError, match="outside of JAX transformations"):
            eqx.filter_jit(lambda p, call=call: call(p, Xs))(post)
    monkeypatch.setattr(local, "MAX_TRACED", 3)
    with pytest.raises(ValueError, match=r"at most 3 are feasible: pass neighbours=0"):
        jax.make_jaxpr(lambda X: marginals[0](post, X))(Xs)


def test_traced_distances_have_full_precision(post, fixed):
    traced = jax.make_jaxpr(lambda X: local.marginals(post._functions, post.training, NOISE, X, 4))(fixed[-1])
    outer = [one for one in traced.eqns if one.primitive.name == "dot_general"]
    assert outer
    assert all("HIGHEST" in str(one.params["precision"]) for one in outer)


def test_too_many_neighbours_for_a_joint_prediction(fixed, post, monkeypatch):
    *_, Xs = fixed
    monkeypatch.setattr(local, "MAX_JOINT", 5)
    with pytest.raises(ValueError, match=r"the rows of X have \d+ different neighbours.*at most 5 are feasible"):
        post.predict_f(Xs, neighbours=4, full_cov=True)
    with pytest.raises(ValueError, match=r"different neighbours.*fewer neighbours"):
        post.sample_f(jax.random.key(0), Xs, neighbours=4)
    assert np.all(np.isfinite(post.predict_f(Xs[:1], neighbours=4, full_cov=True)[0]))


# Files.


@pytest.mark.parametrize("which", ["SGPR", "SVGP"])
def test_a_loaded_posterior_predicts_the_same_bits(fixed, post, tmp_path, which):
    kernel, data, Z, Xs = fixed
    if which == "SVGP":
        post = svgp(kernel, Z, np.random.default_rng(16))[0].posterior(data)
    tgp.save(post, tmp_path / "whole.safetensors")
    tgp.save(post.without_rows(), tmp_path / "small.safetensors")
    whole, small = tgp.load(tmp_path / "whole.safetensors"), tgp.load(tmp_path / "small.safetensors")
    assert_same(whole.predict_f(Xs, neighbours=4), post.predict_f(Xs, neighbours=4), 0, 0)
    assert_same(small.predict_f(Xs), post.predict_f(Xs), 0, 0)
    room = (tmp_path / "whole.safetensors").stat().st_size - (tmp_path / "small.safetensors").stat().st_size
    assert room >= data.X.nbytes + data.y.nbytes
    refused(small, Xs, "keeps none: make it by posterior")


def test_rows_may_come_from_a_file(fixed, tmp_path):
    kernel, data, Z, Xs = fixed
    np.save(tmp_path / "X.npy", data.X)
    np.save(tmp_path / "y.npy", data.y)
    mapped = tgp.Dataset(*(np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "Xy"))
    model, _ = svgp(kernel, Z, np.random.default_rng(17))
    post = model.posterior(mapped)
    assert_same(post.predict_f(Xs, neighbours=4), model.posterior(data).predict_f(Xs, neighbours=4), 0, 0)
    assert_same(post.predict_f(Xs), model.posterior().predict_f(Xs), 0, 0)


def test_answers_do_not_depend_on_what_was_asked_before(fixed):
    """All training rows are whitened at once for many test points alone, whoever asked before."""
    kernel, data, Z, Xs = fixed
    fresh = tgp.SGPR(kernel, Z, NOISE).posterior(data)
    (group,) = local._groups(fresh._functions, fresh.training, fresh.likelihood.variance)
    assert group.everything(1, 4) is None
    before = fresh.predict_f(Xs[:1], neighbours=4)
    fresh.predict_f(Xs, neighbours=4)
    kept = group.everything(TESTS, 4)
    assert kept is not None
    assert group.everything(TESTS, 4) is kept
    assert group.everything(1, 4) is None
    for a, b in zip(before, fresh.predict_f(Xs[:1], neighbours=4), strict=True):
        np.testing.assert_array_equal(a, b)
