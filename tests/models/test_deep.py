"""Deep GPs: a dense reference with the same draws, laws, the evidence by brute force, training, predictions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightgp as tgp
from tightgp import likelihoods as lk
from tightgp.models.deep import DeepGP
from tightgp.models.hidden import HiddenLayer, linear
from tightgp.posterior.deep import DeepPosterior

N, M, D = 12, 4, 2
KEY = jax.random.key(7)


def random_q(rng, m, count):
    root = np.tril(0.2 * rng.normal(size=(count, m, m))) + np.eye(m) * rng.uniform(0.2, 1.0, size=(count, 1, m))
    return {"mean": rng.normal(size=(m, count)), "root": root}


def build(bound="diagonal", hidden_bound="spherical", samples=3, seed=0, deep=True):
    """Hidden layers of two functions and one (or the first alone) and the targets' layer, with random parameters."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(N, D))
    hidden = [HiddenLayer(tgp.kernels.SquaredExponential(0.6, [0.9, 1.3]), X[:M] + 0.1, 2, bound=hidden_bound)]
    if deep:
        slopes, Z = linear(rng.normal(size=(D, 1))), X[:M] - 0.1
        hidden.append(HiddenLayer(tgp.kernels.Matern52(0.4, 1.1), Z, 1, slopes, bound=hidden_bound))
    Z = rng.normal(size=(M, hidden[-1].num_functions))
    model = DeepGP(hidden, tgp.SVGP(tgp.kernels.SquaredExponential(1.2, 0.8), lk.Gaussian(0.2), Z, bound), samples)
    for place, count in (("hidden[0]", 2), ("hidden[1]", 1), ("output", 1))[:: 1 if deep else 2]:
        model = tgp.assign(model, {f"{place}.q.{k}": v for k, v in random_q(rng, M, count).items()})
        v = rng.uniform(0.3, 1.5, size=count)
        if hidden_bound == "spherical" and place != "output":
            model = tgp.assign(model, {f"{place}.v": v})
    return model, tgp.Dataset(X, np.sin(X[:, 0]) + 0.3 * rng.normal(size=N), rng.uniform(0.01, 0.2, size=N))


class Dense:
    """(7.6) as it stands, for Gaussian noise, in NumPy."""

    def __init__(self, model, data, key):
        self.cost, S = 0.0, model.num_samples
        keys = jax.random.split(jax.random.split(key)[0], len(model.hidden))
        padded = model.prepare(data)[1].num_rows
        H = np.broadcast_to(data.X, (S, N, D)).reshape(S * N, D)
        for layer, k in zip(model.hidden, keys, strict=True):
            mean, spread, left = self.layer(layer.kernel, layer.Z, layer.q, H)
            v = np.asarray(layer.v)
            self.cost += 0.5 * N * np.sum(v - np.log(v) - 1)
            noise = np.asarray(jax.random.normal(k, (S, padded, len(v))))[:, :N].reshape(S * N, -1)
            H = np.asarray(layer.mean(H)) + mean + np.sqrt(spread + v * left[:, None]) * noise
        out = model.output
        mean, spread, self.left = self.layer(out.kernel, out.Z, out.q, H)
        self.noise = np.tile(float(out.likelihood.noise_variance) + data.noise_variance, S)
        error = (np.tile(data.y, S) - mean[:, 0]) ** 2 + spread[:, 0]
        self.expected = np.sum(-0.5 * np.log(2 * np.pi * self.noise) - 0.5 * error / self.noise) / S
        self.samples = S

    def layer(self, kernel, Z, q, H):
        K = np.asarray(kernel(Z))
        A = np.linalg.solve(np.linalg.cholesky(K + 1e-6 * np.mean(np.diag(K)) * np.eye(M)), np.asarray(kernel(Z, H)))
        m, S = np.asarray(q.mean), np.einsum("lij,lkj->lik", q.root, q.root)
        for j in range(m.shape[1]):
            self.cost += 0.5 * (np.trace(S[j]) + m[:, j] @ m[:, j] - M - np.linalg.slogdet(S[j])[1])
        return A.T @ m, np.einsum("mi,lmn,ni->il", A, S, A), np.asarray(kernel.diagonal(H)) - np.sum(A * A, axis=0)

    def bound(self, name, v=1.0):
        ratio = self.left / self.noise
        penalty = {"standard": ratio, "spherical": v * ratio, "diagonal": np.log1p(ratio)}[name]
        extra = 0.5 * N * (v - np.log(v) - 1) if name == "spherical" else 0.0
        return self.expected - 0.5 * np.sum(penalty) / self.samples - extra - self.cost


@pytest.fixture(scope="module")
def trained():
    """A model with one hidden layer of two functions trained by Adam on minibatches; its posterior, data and start."""
    model, data = build(samples=1, deep=False)
    result = tgp.fit(model, data, steps=150, batch_size=6, validation=data, patience=1000, progress=False)
    assert {"hidden_v", "divergence", "noise_variance", "validation"} <= set(result.trace)
    return result.model, result.model.posterior(), data, model


@pytest.mark.parametrize("bound", ["standard", "spherical", "diagonal"])
def test_dense_reference(bound):
    model, data = build(bound, "standard" if bound == "standard" else "spherical")
    model = tgp.assign(model, {"output.v": 0.6}) if bound == "spherical" else model
    wanted = Dense(model, data, KEY).bound(bound, 0.6)
    assert float(model.elbo(data, key=KEY)) == pytest.approx(wanted, rel=1e-9)


def test_a_layer_that_adds_nothing_leaves_the_bound_of_the_last():
    """q at the prior of a tiny function costs nothing, and the path is the input itself."""
    _, data = build()
    output = tgp.SVGP(tgp.kernels.SquaredExponential(1.2, 0.8), lk.Gaussian(0.2), data.X[:M])
    output = tgp.assign(output, {f"q.{k}": v for k, v in random_q(np.random.default_rng(1), M, 1).items()})
    layer = HiddenLayer(tgp.kernels.SquaredExponential(1e-18), data.X[:M], D)
    layer = tgp.assign(layer, {"q.root": np.broadcast_to(np.eye(M), (D, M, M))})
    model = DeepGP(layer, output)
    assert float(model.elbo(data)) == pytest.approx(float(output.elbo(data)), rel=1e-7)
    post, flat = model.posterior(), output.posterior()
    for ours, theirs in zip(post.predict_f(data.X, 3), flat.predict_f(data.X), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


def test_tight_is_above_standard_draw_by_draw():
    for seed in range(3):
        standard, data = build("standard", "standard", seed=seed)
        tight = tgp.assign(build("diagonal", seed=seed)[0], {"*.v": 1.0})
        np.testing.assert_array_equal(tight.output.q.mean, standard.output.q.mean)
        assert float(tight.elbo(data, key=KEY)) > float(standard.elbo(data, key=KEY))


def log_mean(values):
    """log E[e^x] from draws of x, and its standard error."""
    top = values.max()
    weights = np.exp(values - top)
    return top + np.log(weights.mean()), weights.std() / weights.mean() / np.sqrt(len(values))


@pytest.mark.parametrize(
    ("X", "y", "kernels", "noise", "Z", "gap", "bounds"),
    [
        # Left without the last layer's penalty, training goes half a nat above the evidence here,
        ([-1.0, -0.2, 0.3, 1.1], [-0.8, -0.5, 0.7, 0.6], ((0.1, 0.8), (1.0, 0.7)), 0.2, [-0.6, 0.7], 1.2, ("s", "d")),
        # and without the hidden layer's divergence six nats here.
        ([-0.3, -0.1, 0.1, 0.3], [-1.5, -1.4, 1.4, 1.5], ((1.0, 0.5), (1.0, 2.0)), 0.1, [-0.2, 0.2], 3.2, ("d",)),
    ],
)
def test_under_the_evidence(X, y, kernels, noise, Z, gap, bounds):
    """Four rows and a hidden function: the evidence is an average over draws of that function at them."""
    X, y, Z = np.array(X)[:, None], np.array(y), np.array(Z)[:, None]
    first, second = (tgp.kernels.SquaredExponential(*numbers) for numbers in kernels)
    rng = np.random.default_rng(0)
    H = X[:, 0] + rng.normal(size=(300_000, 4)) @ np.linalg.cholesky(np.asarray(first(X)) + 1e-9 * np.eye(4)).T
    K = np.exp(-0.5 * ((H[:, :, None] - H[:, None, :]) / kernels[1][1]) ** 2) + noise * np.eye(4)
    L = np.linalg.cholesky(K)
    z = np.linalg.solve(L, np.broadcast_to(y[:, None], (len(H), 4, 1)))[:, :, 0]
    logdet = np.sum(np.log(np.diagonal(L, axis1=1, axis2=2)), axis=1)
    evidence, error = log_mean(-0.5 * np.sum(z * z, axis=1) - logdet - 2 * np.log(2 * np.pi))
    assert error < 0.02

    data, values = tgp.Dataset(X, y), {}
    for name in bounds:
        hidden_bound, bound = {"s": ("standard", "standard"), "d": ("spherical", "diagonal")}[name]
        layer = HiddenLayer(first, Z, 1, bound=hidden_bound)
        model = DeepGP(layer, tgp.SVGP(second, lk.Gaussian(noise), Z, bound), 10)
        model = tgp.assign(model, {"hidden[0].q.root": 0.3 * np.eye(2)[None]})
        model = tgp.freeze(model, "*kernel*", "*noise_variance")
        model = tgp.fit(model, data, steps=400, batch_size=4, learning_rate=0.05, progress=False).model
        draws = [float(model.elbo(data, key=jax.random.key(i), num_samples=2000)) for i in range(10)]
        values[name] = np.mean(draws)
        assert values[name] < evidence + 4 * (error + np.std(draws) / np.sqrt(10))
    assert evidence - gap < values["d"]
    assert values.get("s", -np.inf) + 0.5 < values["d"]


def test_gradient_at_a_fixed_key():
    model, data = build()
    model, rows = model.prepare(data)
    arrays, rest = eqx.partition(model, eqx.is_array)
    leaves, shape = jax.tree.flatten(arrays)
    rng = np.random.default_rng(3)
    along = [jnp.asarray(rng.normal(size=leaf.shape)) for leaf in leaves]

    def value(t):
        moved = jax.tree.unflatten(shape, [leaf + t * step for leaf, step in zip(leaves, along, strict=True)])
        return eqx.combine(moved, rest).objective(rows)[0]

    both, step = jax.jit(jax.value_and_grad(value)), 1e-5
    slope = (float(both(step)[0]) - float(both(-step)[0])) / (2 * step)
    assert float(both(0.0)[1]) == pytest.approx(slope, rel=1e-5)


def mean_and_error(model, data, num_data=None):
    """The bound by many draws."""
    values = [float(model.elbo(data, num_data, jax.random.key(i))) for i in range(20)]
    return np.mean(values), np.std(values) / np.sqrt(len(values))


def test_minibatches_and_draws_average_to_the_whole():
    model, data = build(samples=200, deep=False)
    whole, error = mean_and_error(model, data)
    parts = np.array([mean_and_error(model, data.take(slice(i, i + 4)), N) for i in range(0, N, 4)])
    error = np.sqrt(error**2 + np.sum(parts[:, 1] ** 2) / 9)
    assert error < 0.02 * abs(whole)
    assert abs(whole - parts[:, 0].mean()) < 4 * error


def test_rows_of_which_nothing_was_seen_change_nothing():
    model, data = build(samples=200, deep=False)
    y = np.where(np.arange(N) < 4, data.y, np.nan)
    missing, e = mean_and_error(model, tgp.Dataset(data.X, y, data.noise_variance, missing=True))
    there, error = mean_and_error(model, data.take(slice(0, 4)))
    assert abs(missing - there) < 4 * np.hypot(e, error)
    v = np.asarray(model.hidden[0].v)
    assert 4 * np.hypot(e, error) < 0.5 * 8 * np.sum(v - np.log(v) - 1)  # what eight rows more would cost


def test_the_same_key_gives_the_same_answer(trained):
    model, post, data, _ = trained
    assert float(model.elbo(data)) == float(model.elbo(data))
    assert float(model.elbo(data, key=KEY)) == float(model.elbo(data, key=KEY))
    assert float(model.elbo(data, key=KEY)) != float(model.elbo(data))
    np.testing.assert_array_equal(post.predict_f(data.X)[0], post.predict_f(data.X)[0])
    others = np.concatenate([data.X[:5], data.X[5:] + 1])
    np.testing.assert_allclose(post.predict_f(others)[0][:5], post.predict_f(data.X)[0][:5], rtol=1e-10)
    assert not np.array_equal(post.predict_f(data.X, key=KEY)[0], post.predict_f(data.X)[0])


def test_minibatch_training_improves(trained):
    model, _, data, start = trained
    before, after = (float(m.elbo(data, key=KEY, num_samples=200)) for m in (start, model))
    assert after > before + 1
    assert not np.array_equal(model.hidden[0].q.mean, start.hidden[0].q.mean)
    np.testing.assert_array_equal(model.hidden[0].mean.slope, np.eye(D))  # frozen


def test_natural_gradients_from_a_start():
    _, data = build()
    start = DeepGP.start(data.X, lk.Gaussian(0.2), num_inducing=M)
    result = tgp.fit(start, data, "natural", steps=200, batch_size=6, progress=False)
    before, after = (float(m.elbo(data, key=KEY, num_samples=200)) for m in (start, result.model))
    assert after > before + 1
    assert result.rejected == 0


def test_lbfgs_climbs_with_fixed_draws_and_restarts():
    few, data = build(deep=False)
    with pytest.raises(ValueError, match="made of few draws, which must be new in each step; pass batch_size"):
        tgp.fit(few, data, progress=False)
    model, data = build(deep=False, samples=10)
    model = tgp.freeze(model, "hidden[0].Z")
    before = float(model.elbo(data))
    result = tgp.fit(model, data, steps=5, restarts=1, progress=False)
    assert result.objective > before
    assert result.objective == pytest.approx(float(result.model.elbo(data)), rel=1e-6)
    np.testing.assert_array_equal(result.model.hidden[0].Z, model.hidden[0].Z)
    assert len(result.restarts) == 2
    assert result.restarts[0] != result.restarts[1]
    shown = repr(result.model)
    assert "DeepGP, hidden 2 → 2, bound spherical, M = 4; output SVGP, Gaussian" in shown
    assert "hidden[0].kernel.lengthscale" in shown


def test_priors_are_in_the_objective_and_not_in_the_bound():
    model, data = build()
    with_prior = tgp.with_priors(
        model,
        {"hidden[1].kernel.variance": tgp.priors.LogNormal(0.0, 1.0), "output.kernel.variance": tgp.priors.Gamma(2, 1)},
    )
    plain, rows = model.prepare(data)
    assert float(with_prior.elbo(data)) == pytest.approx(float(model.elbo(data)), rel=1e-12)
    extra = float(with_prior.objective(rows)[0]) - float(plain.objective(rows)[0])
    assert extra == pytest.approx(float(tgp.parameters.log_prior(with_prior)), rel=1e-6)


def test_predictions_are_moments_of_the_mixture(trained):
    """Against paths drawn one by one, and against joint draws at several rows."""
    _, post, data, _ = trained
    X = data.X[:3]
    mean, var = post.predict_f(X, 4000)
    assert mean.shape == var.shape == (3,)
    draws = np.asarray(post.sample_f(jax.random.key(1), X, 4000))
    assert draws.shape == (4000, 3)
    error = np.sqrt(np.asarray(var) / 4000)
    assert np.all(np.abs(draws.mean(axis=0) - mean) < 6 * error)
    np.testing.assert_allclose(draws.var(axis=0), var, rtol=0.25)

    y_mean, y_var = post.predict_y(X, 4000)
    np.testing.assert_allclose(y_mean, mean, rtol=1e-9)
    np.testing.assert_allclose(y_var, var + post.noise_variance, rtol=1e-9)
    np.testing.assert_allclose(post.predict_y(X, 4000, noise_variance=0.5)[1], y_var + 0.5, rtol=1e-9)
    targets = np.asarray(post.sample_y(jax.random.key(2), X, 4000))
    np.testing.assert_allclose(targets.var(axis=0), y_var, rtol=0.25)

    noise = float(post.noise_variance) + 0.1
    densities = np.mean(np.exp(-0.5 * (data.y[:3] - draws) ** 2 / noise) / np.sqrt(2 * np.pi * noise), axis=0)
    np.testing.assert_allclose(np.exp(post.log_density(X, data.y[:3], 4000, noise_variance=0.1)), densities, rtol=0.15)


def test_nearby_rows_are_drawn_together(trained):
    """A joint draw is of one function: equal rows have equal values."""
    _, post, data, _ = trained
    draws = np.asarray(post.sample_f(jax.random.key(3), np.repeat(data.X[:1], 3, axis=0), 4000))
    assert np.max(np.ptp(draws, axis=1)) < 0.1 * np.std(draws)


def test_v_at_new_inputs(trained):
    model, _, data, _ = trained
    (wide, narrow) = (model.posterior(scaled=s).hidden[0] for s in (False, True))
    left = np.asarray(wide.residual_variance(data.X))[:, None]
    expected = np.asarray(wide.predict_f(data.X)[1]) - (1 - np.asarray(model.hidden[0].v)) * left
    np.testing.assert_allclose(narrow.predict_f(data.X)[1], expected, rtol=1e-8, atol=1e-12)
    assert model.posterior(scaled=True).output.scale is None  # the tight term has a v for each row


def test_files(trained, tmp_path):
    model, post, data, _ = trained
    classes = [DeepGP, HiddenLayer, DeepPosterior]
    tgp.save(model, tmp_path / "model.safetensors")
    tgp.save(post, tmp_path / "posterior.safetensors", training_rows=False)
    again = tgp.load(tmp_path / "model.safetensors", classes)
    assert float(again.elbo(data)) == float(model.elbo(data))
    same = tgp.load(tmp_path / "posterior.safetensors", classes)
    np.testing.assert_array_equal(same.predict_f(data.X)[0], post.predict_f(data.X)[0])


def test_labels():
    """Another likelihood trains v in the last layer; probabilities and densities are averages over paths."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N, D))
    data = tgp.Dataset(X, (X[:, 0] > 0).astype(float))
    model = DeepGP.start(X, lk.Bernoulli(), 1, num_inducing=M, kernel=tgp.kernels.Matern52, num_samples=2)
    assert model.output.v.shape == (1,)
    result = tgp.fit(model, data, "adam", steps=150, learning_rate=0.05, batch_size=N, progress=False)
    post = result.model.posterior()
    p, var = (np.asarray(a) for a in post.predict_y(X))
    assert np.mean((p > 0.5) == data.y) > 0.9
    np.testing.assert_allclose(var, p * (1 - p), rtol=1e-9)
    np.testing.assert_allclose(np.exp(post.log_density(X, data.y)), np.where(data.y == 1, p, 1 - p), rtol=1e-9)


def test_float32_and_columns():
    _, data = build()
    X, y = data.X.astype("float32"), data.y.astype("float32")
    model = DeepGP.start(X, lk.Gaussian(0.2), num_inducing=M)
    column = tgp.Dataset(X, y[:, None])
    assert model.elbo(column).dtype == np.float32
    post = model.for_targets(False).posterior()
    mean, var = post.predict_f(X[:3])
    assert mean.shape == var.shape == (3, 1)
    assert mean.dtype == np.float32


def test_a_start_follows_the_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3)) * [5.0, 0.1, 1.0]
    model = DeepGP.start(X, lk.Gaussian(), (2, 4), num_inducing=6, seed=1)
    first, second = model.hidden
    assert [layer.num_functions for layer in model.hidden] == [2, 4]
    assert np.abs(first.mean.slope[0, 0]) > 0.99  # the widest direction comes first
    np.testing.assert_array_equal(second.mean.slope, np.eye(2, 4))
    np.testing.assert_allclose(second.Z, first.mean(first.Z), rtol=1e-12)
    np.testing.assert_allclose(model.output.Z, second.mean(second.Z), rtol=1e-12)
    assert np.all(np.asarray(model.output.kernel.lengthscale) > 0)
    assert DeepGP.start(X, lk.Gaussian(), num_inducing=6).hidden[0].num_functions == 3


def test_a_broken_layer_is_named():
    model, data = build()
    model = eqx.tree_at(lambda m: m.hidden[1].kernel._variance.raw, model, jnp.asarray(jnp.nan))
    with pytest.raises(tgp.NumericalError, match=r"in hidden\[1\]: .*could not be factorised"):
        model.elbo(data)
    with pytest.raises(tgp.NumericalError, match="Kuu of a layer could not be factorised"):
        model.posterior()


def layer(count=2, **options):
    return HiddenLayer(options.pop("kernel", tgp.kernels.SquaredExponential()), np.eye(2), count, **options)


def output(bound=None, Z=None):
    return tgp.SVGP(tgp.kernels.SquaredExponential(), lk.Gaussian(), np.eye(2) if Z is None else Z, bound)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DeepGP([], output()), "hidden must be a HiddenLayer or a list of them, got an empty list"),
        (lambda: DeepGP(output(), output()), "hidden must be a HiddenLayer.*SVGP"),
        (lambda: DeepGP(layer(), layer()), r"output must be a tightgp\.SVGP"),
        (lambda: DeepGP(layer(), output("block")), "groups rows by their inputs"),
        (lambda: DeepGP(layer(), output(tgp.Block(2))), "groups rows by their inputs"),
        (lambda: DeepGP(layer(), output(Z=np.eye(3))), r"hidden\[0\] has 2 function.*Z of output.*has 3 column"),
        (lambda: DeepGP(layer(), output(Z=np.eye(2, dtype="float32"))), "Z of output has dtype float32"),
        (lambda: DeepGP([layer(1, mean=tgp.means.Zero()), layer()], output()), r"1 function.*Z of hidden\[1\]"),
        (lambda: DeepGP(layer(), output(), 0), "num_samples must be a whole number"),
        (lambda: DeepGP.start(np.eye(3), lk.Gaussian(), (), num_inducing=2), "hidden is empty"),
        (lambda: DeepGP.start(np.eye(3), lk.Gaussian(), 0, num_inducing=2), "hidden must be a whole number"),
        (
            lambda: DeepGP.start(np.eye(3), lk.Gaussian(), num_inducing=2, kernel=tgp.kernels.Matern32()),
            "kernel must be a class",
        ),
        (lambda: DeepGP(layer(), output()).elbo(tgp.Dataset(np.ones((3, 1)), np.ones(3))), "X has 1 column"),
        (lambda: DeepGP(layer(), output()).elbo(np.ones(3)), r"must be a tightgp\.Dataset"),
        (lambda: DeepGP(layer(), output()).elbo(tgp.Dataset(np.eye(2), np.ones(2)), num_samples=0), "num_samples"),
        (lambda: DeepGP(layer(), output()).posterior().predict_f(np.ones((2, 3))), "X has 3 column"),
        (lambda: DeepGP(layer(), output()).posterior().predict_f(np.eye(2), 0), "num_samples"),
        (lambda: DeepGP(layer(), output()).posterior().log_density(np.eye(2), np.ones(3)), "y must have shape"),
        (
            lambda: DeepGP(layer(), output()).posterior().predict_y(np.eye(2), noise_variance=-1.0),
            "noise_variance must not be negative",
        ),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_many_rows_go_by_parts(trained, monkeypatch):
    from tightgp.numerics import chunks

    _, post, data, _ = trained
    densities = post.log_density(data.X, data.y, 10)
    monkeypatch.setattr(chunks, "_MAP_BYTES", {"cpu": 10 * M * 8 * 5, "gpu": 10 * M * 8 * 5})
    jax.clear_caches()
    np.testing.assert_allclose(post.log_density(data.X, data.y, 10), densities, rtol=1e-9)
    jax.clear_caches()
