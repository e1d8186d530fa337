"""SVGP: laws over random problems, dense references, several latents, and what is refused."""

import jax
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tightgp as tgp
from tests.models.problems import D, M, N, build, gradient, laws, natural_step, problems, random_q
from tests.reference import Uncollapsed
from tightgp import likelihoods as lk


@laws
@given(problems)
def test_dense_reference(problem):
    kernel, data, Z, noise, rng = build(problem)
    mean, root = random_q(rng, M)
    dense = Uncollapsed(kernel, data.X, data.y, Z, noise, mean[:, 0], root[0] @ root[0].T, known=data.noise_variance)
    v = rng.uniform(0.1, 2.0)
    rows = np.kron(np.eye(N // 4), np.ones((4, 4)))
    expected = {
        "standard": dense.scaled(),
        "spherical": dense.scaled(v),
        "diagonal": dense.tight(),
        "block": dense.tight(np.ones((N, N))),
        tgp.Block(4, "rows"): dense.tight(rows),
    }
    for bound, value in expected.items():
        model = tgp.SVGP(kernel, lk.Gaussian(noise), Z, bound)
        model = tgp.assign(model, {"q.mean": mean, "q.root": root, **({"v": v} if bound == "spherical" else {})})
        assert float(model.elbo(data)) == pytest.approx(value, rel=1e-9), bound


@laws
@given(problems)
def test_one_natural_step_lands_on_the_collapsed_bound(problem):
    """From any q, for Gaussian noise; and q then is the optimal one, so predictions agree too (maths 4.2, 4.4)."""
    kernel, data, Z, noise, rng = build(problem)
    mean, root = random_q(rng, M)
    for bound in ("standard", "diagonal", "block"):
        start = tgp.assign(tgp.SVGP(kernel, lk.Gaussian(noise), Z, bound), {"q.mean": mean, "q.root": root})
        model = natural_step(start, data)
        collapsed = tgp.SGPR(kernel, Z, noise, bound=tgp.Block(N, "rows") if bound == "block" else bound)
        best = float(collapsed.elbo(data))
        assert float(model.elbo(data)) == pytest.approx(best, rel=1e-8)
        assert float(start.elbo(data)) <= best + 1e-8 * abs(best)
    X = rng.normal(size=(4, D))
    for ours, theirs in zip(model.posterior().predict_f(X), collapsed.posterior(data).predict_f(X), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)


@laws
@given(problems, st.sampled_from(["standard", "spherical", "diagonal", tgp.Block(4, "rows")]))
def test_minibatch_estimates_average_to_the_full_value(problem, bound):
    kernel, data, Z, noise, rng = build(problem)
    mean, root = random_q(rng, M)
    model = tgp.assign(tgp.SVGP(kernel, lk.Gaussian(noise), Z, bound), {"q.mean": mean, "q.root": root})
    parts = [float(model.elbo(data.take(slice(i, i + 8)), num_data=N)) for i in range(0, N, 8)]
    assert np.mean(parts) == pytest.approx(float(model.elbo(data)), rel=1e-10)


@laws
@given(problems, st.sampled_from([(tgp.Block(5), 1), (tgp.Block(5, "random"), 2)]))
def test_blocks_at_the_best_q_are_those_of_the_collapsed_bound(problem, which):
    """The same partition of the same rows, a short last block included; for one output or two (maths 4.2)."""
    kernel, data, Z, noise, rng = build(problem)
    bound, outputs = which
    data = tgp.Dataset(data.X, rng.normal(size=(N, outputs)), data.noise_variance)
    collapsed = tgp.SGPR(kernel, Z, noise, bound=bound)
    best, q = float(collapsed.elbo(data)), collapsed.posterior(data).latents[0].q[0]
    model = tgp.SVGP(kernel, lk.Gaussian(noise), Z, bound, num_latents=outputs)
    model = tgp.assign(model, {"q.mean": q.mean, "q.root": np.broadcast_to(q.root, (outputs, M, M))})
    assert float(model.elbo(data)) == pytest.approx(best, rel=1e-8)
    if bound.partition.how == "locality":  # neighbours are neighbours in any order
        assert float(model.elbo(data.take(rng.permutation(N)))) == pytest.approx(best, rel=1e-8)


@pytest.mark.parametrize("how", ["locality", "random"])
def test_rows_in_which_nothing_was_seen_leave_their_blocks(rng, how):
    """Each latent's blocks lose the rows that say nothing of it, and no more (maths 4.3)."""
    X, y, _, kernels, noise = coregionalised(rng)
    model = tgp.SVGP(kernels, lk.Gaussian(noise[:2]), X[:4], tgp.Block(5, how))
    data = tgp.Dataset(X, y[:, :2], missing=True)
    whole, placed = model.prepare(data)
    rows, singles = placed.sample(placed.real()), []
    for i, one in enumerate(kernels):
        seen = ~np.isnan(np.asarray(rows.y[:, i]))
        blocks = np.arange(len(seen))[seen] // 5
        dense = Uncollapsed(
            one, *(np.asarray(a)[seen] for a in (rows.X, rows.y[:, i])), X[:4], noise[i], np.zeros(4), np.eye(4)
        )
        singles.append(dense.tight(blocks[:, None] == blocks))
    assert float(model.elbo(data)) == pytest.approx(sum(singles), rel=1e-8)
    assert whole.metric is None or how == "locality"


def test_the_metric_of_several_kernels_is_stored_and_stays(rng):
    X, y, _, _, noise = coregionalised(rng, whole=True)
    X = np.concatenate([X, X[::-1] ** 2], axis=1)
    kernels = [tgp.kernels.Matern32(1.0, [0.5, 2.0]), tgp.kernels.Matern32(1.0, [1.0, 0.3])]
    data = tgp.Dataset(X, y[:, :2])
    model, rows = tgp.SVGP(kernels, lk.Gaussian(noise[:2]), X[:4], tgp.Block(4)).prepare(data)
    expected = 1 / np.sqrt(np.mean(1 / np.array([[0.5, 2.0], [1.0, 0.3]]) ** 2, axis=0))
    np.testing.assert_allclose(model.metric, expected, rtol=1e-12)
    moved = tgp.assign(model, {"kernel[0].lengthscale": [100.0, 0.01]})
    again, same = moved.prepare(data)
    np.testing.assert_array_equal(again.metric, model.metric)
    np.testing.assert_array_equal(same.rows.X, rows.rows.X)


def test_a_partition_inside_a_trace_is_refused(problem):
    data, Z, _ = problem

    def value(lengthscale, bound):
        one = tgp.kernels.Matern32(1.0, lengthscale)
        return tgp.SVGP(one, lk.Gaussian(0.1), Z, bound).elbo(data)

    with pytest.raises(ValueError, match=r"a partition into neighbours needs known inputs.*model\.prepare"):
        jax.grad(value)(1.0, tgp.Block(8))
    assert jax.eval_shape(lambda x: value(x, tgp.Block(8, "random")), 1.0).shape == ()  # looks at no input


@laws
@given(problems)
def test_optimised_v_under_gaussian_noise_is_the_spherical_collapsed_bound(problem):
    """Maths 5.4: v's optimum has a closed form there, and no other v, one included, does better."""
    kernel, data, Z, noise, rng = build(problem)
    model = natural_step(tgp.SVGP(kernel, lk.Gaussian(noise), Z, "spherical"), data)
    functions = model.posterior().latents[0]
    A = np.asarray(functions.rows(data.X))
    r = (np.asarray(kernel.diagonal(data.X)) - np.sum(A * A, axis=1)) / (noise + data.noise_variance)
    best = float(tgp.assign(model, {"v": 1 / (1 + r.mean())}).elbo(data))
    assert best == pytest.approx(float(tgp.SGPR(kernel, Z, noise, bound="spherical").elbo(data)), rel=1e-8)
    for v in (1.0, rng.uniform(0.01, 3.0)):
        assert float(tgp.assign(model, {"v": v}).elbo(data)) <= best + 1e-9 * abs(best)


def test_large_data_pass_in_chunks(problem, monkeypatch):
    data, Z, kernel = problem
    model = tgp.SVGP(kernel, lk.Gaussian(0.1), Z)
    _, batch = model.prepare(data)
    whole = gradient(model, batch)
    from tightgp.bounds import uncollapsed

    monkeypatch.setattr(uncollapsed, "_CHUNK_BYTES", {"cpu": 6 * 8 * 8, "gpu": 6 * 8 * 8})
    jax.clear_caches()
    cut = gradient(model, batch)
    jax.clear_caches()
    for a, b in zip(jax.tree.leaves(whole), jax.tree.leaves(cut), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


def test_several_latents_are_the_sum_of_single_ones(rng):
    """Shared or separate kernels and inducing inputs, one v each: independent outputs add up."""
    X, y = rng.normal(size=(20, 2)), rng.normal(size=(20, 2))
    kernels = [tgp.kernels.SquaredExponential(1.0, 0.7), tgp.kernels.Matern32(0.5, 1.5)]
    sets = [X[:4] + 0.1, X[5:11] + 0.1]
    mean, root = random_q(rng, 4, 2)
    mean6, root6 = random_q(rng, 6)
    v = np.array([0.4, 0.9])

    def single(i, kernel, Z, mean, root):
        model = tgp.SVGP(kernel, lk.Poisson(), Z)
        model = tgp.assign(model, {"q.mean": mean, "q.root": root, "v": v[i]})
        return float(model.elbo(tgp.Dataset(X, counts[:, i])))

    counts = rng.poisson(2.0, size=y.shape)
    data = tgp.Dataset(X, counts)
    shared = tgp.assign(
        tgp.SVGP(kernels[0], lk.Poisson(), sets[0], num_latents=2), {"q.mean": mean, "q.root": root, "v": v}
    )
    parts = [single(i, kernels[0], sets[0], mean[:, i : i + 1], root[i : i + 1]) for i in range(2)]
    assert float(shared.elbo(data)) == pytest.approx(sum(parts), rel=1e-10)

    separate = tgp.assign(
        tgp.SVGP(kernels, lk.Poisson(), sets),
        {"q[0].mean": mean[:, :1], "q[0].root": root[:1], "q[1].mean": mean6, "q[1].root": root6, "v": v},
    )
    parts = [single(0, kernels[0], sets[0], mean[:, :1], root[:1]), single(1, kernels[1], sets[1], mean6, root6)]
    assert float(separate.elbo(data)) == pytest.approx(sum(parts), rel=1e-10)
    assert {"kernel[1].lengthscale", "Z[1]", "q[1].root", "v"} <= set(tgp.named_parameters(separate))

    f, var = separate.posterior().predict_f(X[:3])
    assert f.shape == var.shape == (3, 2)
    cov = separate.posterior().predict_f(X[:3], full_cov=True)[1]
    np.testing.assert_allclose(np.diagonal(cov, axis1=1, axis2=2).T, var, rtol=1e-8)


def coregionalised(rng, whole=False):
    X, mixing = rng.normal(size=(12, 1)), np.array([[1.0, 0.3], [-0.5, 1.2], [0.8, 0.0]])
    y = rng.normal(size=(12, 3))
    if not whole:
        y[rng.random(size=y.shape) < 0.3] = np.nan
        y[4] = np.nan
    kernels = [tgp.kernels.SquaredExponential(1.0, 0.7), tgp.kernels.Matern32(0.5, 1.5)]
    return X, y, mixing, kernels, np.array([0.1, 0.2, 0.3])


def dense_evidence(X, y, mixing, kernels, noise):
    K = sum(np.kron(np.outer(w, w), np.asarray(k(X))) for w, k in zip(mixing.T, kernels, strict=True))
    K = K + np.kron(np.diag(noise), np.eye(len(X)))
    seen = ~np.isnan(y.T.ravel())
    K, y = K[np.ix_(seen, seen)], y.T.ravel()[seen]
    return -0.5 * (y @ np.linalg.solve(K, y) + np.linalg.slogdet(2 * np.pi * K)[1])


def test_coregionalisation_with_missing_outputs(rng):
    """standard ≤ spherical ≤ diagonal ≤ block ≤ evidence, at each one's best q."""
    X, y, mixing, kernels, noise = coregionalised(rng)
    data = tgp.Dataset(X, y, missing=True)
    evidence = dense_evidence(X, y, mixing, kernels, noise)

    def best(bound, Z):
        model = tgp.SVGP(kernels, lk.Gaussian(noise), Z, bound, mixing=mixing)
        frozen = tgp.freeze(model, *(n for n in tgp.named_parameters(model) if not n.startswith(("q", "v"))))
        return tgp.fit(frozen, data, "natural", steps=60, learning_rate=0.1, progress=False)

    values = [best(bound, X[:3] + 0.05).objective for bound in ("standard", "spherical", "diagonal", "block")]
    assert np.all(np.diff(values) > -1e-6), values
    assert values[-1] < evidence
    tight = best("diagonal", X)
    assert values[-1] < tight.objective < evidence  # q makes the latents independent, which they are not here

    f = tight.model.posterior().predict_f(X)[0]
    draws = tight.model.posterior().sample_f(jax.random.key(0), X, 4000)
    np.testing.assert_allclose(np.mean(draws, axis=0), f, atol=0.08)
    cov = tight.model.posterior().predict_f(X, full_cov=True)[1]
    np.testing.assert_allclose(np.var(draws, axis=0), np.diagonal(cov, axis1=1, axis2=2).T, rtol=0.15, atol=0.01)


def test_coregionalisation_reaches_the_evidence_where_the_latents_are_independent_given_y(rng):
    """Orthogonal columns, equal noise, nothing missing, Z = X: q's independence costs nothing."""
    X, y, _, kernels, _ = coregionalised(rng, whole=True)
    mixing, noise = np.array([[1.0, 0.5], [-0.5, 1.0], [0.0, 0.0]]), np.full(3, 0.2)
    model = tgp.SVGP(kernels, lk.Gaussian(noise), X, mixing=mixing)
    frozen = tgp.freeze(model, "kernel*", "Z", "mixing", "likelihood.*")
    result = tgp.fit(frozen, tgp.Dataset(X, y), "natural", natural_rate=1.0, steps=3, progress=False)
    assert result.objective == pytest.approx(dense_evidence(X, y, mixing, kernels, noise), abs=2e-4)


@pytest.mark.parametrize("bound", ["standard", "spherical", "diagonal", "block"])
def test_missing_rows_change_nothing(rng, bound):
    """A row of which nothing was seen adds nothing to a bound."""
    X, y, mixing, kernels, noise = coregionalised(rng)
    model = tgp.SVGP(kernels, lk.Gaussian(noise), X[:4], bound, mixing=mixing)
    model = tgp.assign(model, {"v": 0.3}) if bound == "spherical" else model
    seen = ~np.isnan(y).all(axis=1)
    with_them = float(model.elbo(tgp.Dataset(X, y, missing=True)))
    without = float(model.elbo(tgp.Dataset(X[seen], y[seen], missing=True)))
    assert with_them == pytest.approx(without, rel=1e-12)
    slopes = gradient(*model.prepare(tgp.Dataset(X, y, missing=True)))
    assert all(np.all(np.isfinite(g)) for g in jax.tree.leaves(slopes))


def test_multi_class(rng):
    X = np.concatenate([rng.normal(size=(15, 2)) + c for c in ((0, 0), (4, 0), (0, 4))])
    y = np.repeat([0, 1, 2], 15)
    for likelihood in (lk.Softmax(3), lk.RobustMax(3)):
        model = tgp.SVGP(tgp.kernels.SquaredExponential(1.0, 2.0), likelihood, X[::5])
        result = tgp.fit(model, tgp.Dataset(X, y), steps=40, progress=False)
        probabilities, _ = result.model.posterior().predict_y(X)
        assert probabilities.shape == (45, 3)
        np.testing.assert_allclose(np.sum(probabilities, axis=1), 1, rtol=1e-6)
        assert np.mean(np.argmax(probabilities, axis=1) == y) > 0.95
        assert result.model.posterior().log_density(X, y).shape == (45,)
        assert result.model.v.shape == (3,)


def test_heteroscedastic_noise_is_found(rng):
    X = np.sort(rng.uniform(-2, 2, size=(150, 1)), axis=0)
    sd = np.exp(X[:, 0] - 1)
    data = tgp.Dataset(X, np.sin(2 * X[:, 0]) + sd * rng.normal(size=150))
    kernels = [tgp.kernels.SquaredExponential(1.0, 1.0), tgp.kernels.SquaredExponential(1.0, 2.0)]
    model = tgp.SVGP(kernels, lk.HeteroscedasticGaussian(), X[::15])
    post = tgp.fit(model, data, steps=150, progress=False).model.posterior()
    _, log_variance = np.asarray(post.predict_f(X)[0]).T
    assert np.corrcoef(log_variance, np.log(sd))[0, 1] > 0.9
    _, var = post.predict_y(X)
    assert var.shape == (150,)
    assert float(var[-1]) > 5 * float(var[0])


def test_posterior_with_and_without_v(problem):
    data, Z, kernel = problem
    model = tgp.assign(tgp.SVGP(kernel, lk.Poisson(), Z), {"v": 0.5})
    (mean, var), (mean_v, var_v) = (model.posterior(scaled=s).predict_f(data.X) for s in (False, True))
    np.testing.assert_allclose(mean, mean_v)
    left = np.asarray(kernel.diagonal(data.X)) - np.sum(np.asarray(model.posterior().latents[0].rows(data.X)) ** 2, 1)
    np.testing.assert_allclose(var - var_v, 0.5 * np.maximum(left, 0), atol=1e-9)
    with pytest.raises(ValueError, match="diagonal bound has none"):
        tgp.SVGP(kernel, lk.Gaussian(), Z).posterior(scaled=True)


def test_samples_of_targets(problem):
    data, Z, kernel = problem
    post = tgp.SVGP(kernel, lk.Poisson(), Z).posterior()
    draws = post.sample_y(jax.random.key(1), data.X[:3], num_samples=5)
    assert draws.shape == (5, 3)
    assert np.all(np.asarray(draws) == np.floor(draws))


def test_float32(problem):
    data, Z, kernel = problem
    data32 = tgp.Dataset(data.X.astype("float32"), data.y.astype("float32"))
    model = tgp.SVGP(kernel, lk.Gaussian(0.1), Z.astype("float32"))
    assert model.elbo(data32).dtype == np.float32
    exact = float(tgp.SVGP(kernel, lk.Gaussian(0.1), Z, jitter=1e-5).elbo(data))
    assert float(model.elbo(data32)) == pytest.approx(exact, rel=1e-3)
    assert model.posterior().predict_y(data32.X)[0].dtype == np.float32


def test_mean_functions_and_random_starts(problem):
    data, Z, kernel = problem
    shifted = tgp.Dataset(data.X, data.y + 5)
    plain = float(tgp.SVGP(kernel, lk.Gaussian(0.1), Z).elbo(data))
    model = tgp.SVGP(kernel, lk.Gaussian(0.1), Z, mean=tgp.means.Constant(5.0))
    assert float(model.elbo(shifted)) == pytest.approx(plain, rel=1e-12)
    model, rows = model.prepare(shifted)
    other = model.random_start(jax.random.key(0), rows)
    assert not np.array_equal(other.Z, model.Z)
    assert float(other.kernel.variance) != float(model.kernel.variance)


def make(kernel=None, likelihood=None, Z=None, bound=None, **options):
    kernel = tgp.kernels.SquaredExponential() if kernel is None else kernel
    return tgp.SVGP(kernel, likelihood or lk.Gaussian(), np.eye(2) if Z is None else Z, bound, **options)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bound": "tight"}, "bound must be one of"),
        ({"likelihood": "Poisson"}, "likelihood must be one of tightgp.likelihoods"),
        ({"kernel": "rbf"}, "kernel must be one of"),
        ({"covariance": "low-rank"}, "covariance must be one of"),
        ({"orthogonal": np.eye(3)}, "orthogonal has 3 column"),
        ({"orthogonal": [np.eye(2), np.eye(2)]}, "orthogonal must be one set"),
        ({"orthogonal": np.eye(2), "whiten": False}, "whiten must be True"),
        ({"whiten": "yes"}, "whiten must be one of True, False"),
        ({"Z": np.array([[np.nan, 0.0]])}, "Z has NaN"),
        ({"jitter": -1.0}, "jitter must not be negative"),
    ],
)
def test_bad_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        make(**arguments)


@pytest.mark.parametrize(
    ("model", "data", "message"),
    [
        (make(), tgp.Dataset(np.ones((3, 1)), np.ones(3)), "X has 1 column.*Z has 2"),
        (make(), tgp.Dataset(np.ones((3, 2)), np.ones((3, 2))), "y has 2 column.*model has 1"),
        (make(), tgp.Dataset(np.ones((3, 2), "float32"), np.ones(3, "float32")), "dtype float32"),
        (make(likelihood=lk.Poisson()), tgp.Dataset(np.ones((3, 2)), [1.0, 2.0, -1.0]), "row 2 is -1"),
        (make(likelihood=lk.Poisson()), tgp.Dataset(np.ones((3, 2)), np.ones(3), np.ones(3)), "not with Poisson"),
        (make(likelihood=lk.Gaussian(None)), tgp.Dataset(np.ones((3, 2)), np.ones(3)), "noise_variance is None"),
        (make(), (np.ones((3, 2)), np.ones(3)), "must be a tightgp.Dataset"),
        (make(mean=tgp.means.Constant([1.0, 2.0])), tgp.Dataset(np.ones((3, 2)), np.ones(3)), "mean gives 2 outputs"),
    ],
)
def test_bad_data(model, data, message):
    with pytest.raises(ValueError, match=message):
        model.elbo(data)


def test_collapsed_models_refuse_missing_outputs():
    data = tgp.Dataset(np.ones((3, 1)), [1.0, np.nan, 2.0], missing=True)
    with pytest.raises(ValueError, match=r"need tightgp\.SVGP"):
        tgp.SGPR(tgp.kernels.SquaredExponential(), np.ones((1, 1))).elbo(data)
    with pytest.raises(ValueError, match="infinite"):
        tgp.Dataset(np.ones((2, 1)), [1.0, np.inf], missing=True)


def test_each_latent_of_a_likelihood_has_a_mean_of_its_own(rng):
    """A level of y is no level of its log noise variance."""
    X = rng.normal(size=(6, 1))
    data = tgp.Dataset(X, rng.normal(size=6) + 5)
    options = (tgp.kernels.SquaredExponential(), lk.HeteroscedasticGaussian(), X[:3])
    with pytest.raises(ValueError, match="mean gives 1 outputs for 2 function"):
        tgp.SVGP(*options, mean=tgp.means.Constant(5.0)).elbo(data)
    post = tgp.SVGP(*options, mean=tgp.means.Constant([5.0, -1.0])).posterior()
    np.testing.assert_allclose(post.predict_f(X)[0], [[5.0, -1.0]] * 6)


def test_densities_of_partly_seen_rows(rng):
    X, y, mixing, kernels, noise = coregionalised(rng)
    post = tgp.SVGP(kernels, lk.Gaussian(noise), X[:4], mixing=mixing).posterior()
    densities = np.asarray(post.log_density(X, y, missing=True))
    np.testing.assert_array_equal(np.isnan(densities), np.isnan(y))
    with pytest.raises(ValueError, match="y has NaN"):
        post.log_density(X, y)


def test_targets_in_a_column_give_predictions_in_a_column(problem):
    data, Z, kernel = problem
    column = tgp.Dataset(data.X, data.y[:, None])
    model = tgp.fit(tgp.SVGP(kernel, lk.Gaussian(0.1), Z), column, steps=1, progress=False).model
    post = model.posterior()
    assert post.predict_f(data.X)[0].shape == (37, 1)
    assert post.log_density(column.X, column.y).shape == (37, 1)
