"""The Bayesian GP-LVM: laws against regression, minibatches, placing new rows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightgp as tgp
from tests.reference import Averaged
from tightgp.models.gplvm import _elbo

BOUNDS = ("standard", "spherical", "diagonal")
N, Q, P, M = 30, 2, 4, 6


@pytest.fixture(scope="module")
def curve():
    """A noisy curve in four columns: Y, and where on the curve each row is."""
    rng = np.random.default_rng(0)
    t = np.linspace(-1.5, 1.5, N)
    Y = np.stack([t, np.sin(t), 0.4 * t**2, np.tanh(2 * t)], axis=1)
    Y = Y + 0.03 * rng.normal(size=Y.shape)
    return Y - Y.mean(axis=0), t


@pytest.fixture(scope="module")
def trained(curve):
    data = tgp.Dataset.latent(curve[0], Q)
    return tgp.fit(tgp.GPLVM.start(curve[0], Q, M), data, steps=150, progress=False), data


def parts(seed=0):
    """Everything that a model is made of, at random."""
    rng = np.random.default_rng(seed)
    kernel = tgp.kernels.SquaredExponential(1.2, [0.8, 1.5])
    return kernel, rng.normal(size=(M, Q)), 0.1, rng.normal(size=(N, Q)), rng.uniform(0.05, 0.5, size=(N, Q))


def collapsed(bound="diagonal"):
    kernel, Z, noise, mean, variance = parts()
    return tgp.GPLVM(tgp.SGPR(kernel, Z, noise, bound), mean, variance)


def explicit(bound="diagonal", likelihood=None):
    kernel, Z, noise, mean, variance = parts()
    likelihood = tgp.likelihoods.Gaussian(noise) if likelihood is None else likelihood
    return tgp.GPLVM(tgp.SVGP(kernel, likelihood, Z, bound, num_latents=P), mean, variance)


def divergence(mean, variance, prior_mean=0.0, prior=1.0):
    return 0.5 * np.sum(variance / prior + (mean - prior_mean) ** 2 / prior - 1 - np.log(variance / prior))


@pytest.mark.parametrize("bound", BOUNDS)
def test_dense_reference(curve, bound):
    kernel, Z, noise, mean, variance = parts()
    reference = Averaged(kernel, mean, variance, curve[0], Z, noise, nodes=60)
    expected = reference.bound(bound) - divergence(mean, variance)
    assert float(collapsed(bound).elbo(tgp.Dataset.latent(curve[0], Q))) == pytest.approx(expected, rel=1e-7)


def test_a_prior_from_the_data_and_known_columns(curve, rng):
    """One column is known; the other has a prior of its own in each row."""
    kernel, Z, noise, mean, variance = parts()
    X, S = rng.normal(size=(N, 2)), np.stack([np.zeros(N), rng.uniform(0.2, 2.0, size=N)], axis=1)
    data = tgp.Dataset(X, curve[0], input_variance=S)
    model = tgp.GPLVM(tgp.SGPR(kernel, Z, noise), mean[:, 1:], variance[:, 1:])
    inputs, spread = np.stack([X[:, 0], mean[:, 1]], axis=1), variance * [0.0, 1.0]
    reference = Averaged(kernel, inputs, spread, curve[0], Z, noise, nodes=60)
    expected = reference.bound("diagonal") - divergence(mean[:, 1], variance[:, 1], X[:, 1], S[:, 1])
    assert float(model.elbo(data)) == pytest.approx(expected, rel=1e-7)
    assert model.posterior(data).predict_f(X)[0].shape == (N, P)


def test_narrow_q_is_regression(curve):
    """As q(X) shrinks to a point, what is left besides its divergence is the regression bound, over all columns."""
    kernel, Z, noise, mean, _ = parts()
    for bound in BOUNDS:
        model = tgp.GPLVM(tgp.SGPR(kernel, Z, noise, bound), mean, 1e-12)
        value = float(model.elbo(tgp.Dataset.latent(curve[0], Q))) + divergence(mean, np.full((N, Q), 1e-12))
        expected = float(tgp.SGPR(kernel, Z, noise, bound).elbo(tgp.Dataset(mean, curve[0])))
        assert value == pytest.approx(expected, rel=1e-6)


def test_gradient_against_finite_differences(curve):
    model, rows = collapsed().prepare(tgp.Dataset.latent(curve[0], Q))
    raw, tree = jax.flatten_util.ravel_pytree(model)
    value = jax.jit(lambda raw: _elbo(tree(raw), rows, jax.random.key(0))[0])
    gradient = np.asarray(jax.grad(value)(raw))
    for i in np.random.default_rng(0).choice(len(raw), 25, replace=False):
        step = 1e-5 * jnp.zeros_like(raw).at[i].set(1.0)
        assert gradient[i] == pytest.approx(float(value(raw + step) - value(raw - step)) / 2e-5, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("bound", ["standard", "diagonal"])
def test_an_explicit_q_reaches_the_collapsed_bound(curve, bound):
    data = tgp.Dataset.latent(curve[0], Q)
    model = tgp.freeze(explicit(bound), "model.kernel.*", "model.Z", "model.likelihood.*", "inputs.*")
    best = tgp.fit(model, data, "natural", steps=3, progress=False).model
    assert float(best.elbo(data)) == pytest.approx(float(collapsed(bound).elbo(data)), rel=1e-7)


def test_minibatches(curve):
    data, model = tgp.Dataset.latent(curve[0], Q), explicit()
    order = np.random.default_rng(0).permutation(N).reshape(-1, 10)
    estimates = [float(model.elbo(data, rows=rows)) for rows in order]
    assert np.mean(estimates) == pytest.approx(float(model.elbo(data)), rel=1e-10)
    result = tgp.fit(model, data, "natural", batch_size=10, epochs=100, learning_rate=0.02, progress=False)
    assert result.objective > float(model.elbo(data)) + 100
    moved = np.abs(np.asarray(result.model.inputs.mean - model.inputs.mean))
    assert np.all(moved.max(axis=1) > 1e-3)  # every row's own
    streamed = tgp.fit(model, data, "natural", batch_size=10, epochs=3, learning_rate=0.02, progress=False, stream=True)
    np.testing.assert_allclose(streamed.trace["objective"], result.trace["objective"][:3], rtol=1e-9)


def test_training_finds_the_curve(curve, trained):
    result, data = trained
    model = result.model
    assert result.objective > float(tgp.GPLVM.start(curve[0], Q, M).elbo(data))
    relevance = np.asarray(model.relevance)
    best = int(np.argmax(relevance))
    place = np.asarray(model.inputs.mean)[:, best]
    ranks = np.argsort(np.argsort(place))
    assert abs(np.corrcoef(ranks, np.arange(N))[0, 1]) > 0.95
    assert np.min(relevance) < 0.2 * np.max(relevance)  # one latent input suffices
    mean, _ = model.posterior(data).predict_y(model.inputs.mean)
    assert np.sqrt(np.mean((mean - curve[0]) ** 2)) < 0.1
    assert "GPLVM, 30 rows, 2 latent inputs" in repr(model)
    scales = np.asarray(model.posterior(data).scales)
    assert scales.shape == (N,)
    assert np.all((scales > 0) & (scales <= 1))


def test_the_diagonal_bound_is_higher_at_the_same_parameters(trained):
    result, data = trained
    model = result.model.model
    values = [
        float(tgp.GPLVM(tgp.SGPR(model.kernel, model.Z, model.noise_variance, b), *moments(result.model)).elbo(data))
        for b in BOUNDS
    ]
    assert values == sorted(values)
    assert values[-1] == pytest.approx(result.objective, rel=1e-9)


def moments(model):
    return model.inputs.mean, model.inputs.variance


def test_new_rows_are_placed(curve, trained):
    result, data = trained
    Y, _ = curve
    model = result.model
    best = int(np.argmax(model.relevance))
    sd = float(np.std(model.inputs.mean[:, best]))
    placed = tgp.place(model, data, tgp.Dataset.latent(Y[5:9], Q), starts=2)
    np.testing.assert_allclose(placed.mean[:, best], model.inputs.mean[5:9, best], atol=0.1 * sd)
    assert np.all(np.asarray(placed.variance) < 1.5)
    missing = Y[5:9].copy()
    missing[:, 3] = np.nan
    placed = tgp.place(model, data, tgp.Dataset.latent(missing, Q, missing=True), starts=2)
    mean, var = model.posterior(data).predict_y(placed.mean, input_variance=placed.variance)
    assert np.sqrt(np.mean((mean[:, 3] - Y[5:9, 3]) ** 2)) < 0.3 * np.std(Y[:, 3])
    assert np.all(np.asarray(var) > 0)


def test_a_row_without_any_output_has_the_prior(curve, trained):
    result, data = trained
    nothing = tgp.Dataset.latent(np.full((1, P), np.nan), Q, missing=True)
    placed = tgp.place(result.model, data, nothing, starts=1)
    np.testing.assert_allclose(placed.mean, 0.0, atol=1e-3)
    np.testing.assert_allclose(placed.variance, 1.0, rtol=1e-3)


def test_missing_outputs_and_other_likelihoods_in_training(curve):
    """A row of which nothing was seen costs the divergence of its q and nothing else."""
    Y, others = curve[0].copy(), np.arange(N) != 3
    Y[3] = np.nan
    model = explicit()
    mean, variance = (np.asarray(a) for a in moments(model))
    without = tgp.GPLVM(model.model, mean[others], variance[others]).elbo(tgp.Dataset.latent(Y[others], Q))
    expected = float(without) - divergence(mean[3], variance[3])
    assert float(model.elbo(tgp.Dataset.latent(Y, Q, missing=True))) == pytest.approx(expected, rel=1e-10)
    model = explicit(None, tgp.likelihoods.Bernoulli())
    binary = tgp.Dataset.latent((curve[0] > 0).astype(float), Q)
    before = float(model.elbo(binary))
    how = {"batch_size": N, "steps": 60, "learning_rate": 0.05, "progress": False}
    assert tgp.fit(model, binary, "adam", **how).objective > before + 20


def test_start_copes_with_few_columns_and_missing_cells(rng):
    Y = rng.normal(size=(12, 2))
    Y[0, 1] = np.nan
    model = tgp.GPLVM.start(Y, 4, 3, collapsed=False)
    assert model.inputs.mean.shape == (12, 4)
    assert np.isfinite(float(model.elbo(tgp.Dataset.latent(Y, 4, missing=True))))
    other = model.random_start(jax.random.key(0), model.prepare(tgp.Dataset.latent(Y, 4, missing=True))[1])
    assert not np.allclose(other.inputs.mean, model.inputs.mean)


def test_files(trained, tmp_path):
    result, data = trained
    tgp.save(result.model, tmp_path / "model.safetensors")
    assert float(tgp.load(tmp_path / "model.safetensors").elbo(data)) == float(result.model.elbo(data))


def test_what_cannot_be_is_refused(curve, trained):
    Y = curve[0]
    data = tgp.Dataset.latent(Y, Q)
    with pytest.raises(ValueError, match=r"model must be tightgp\.SGPR or tightgp\.SVGP"):
        tgp.GPLVM(tgp.ExactGP(tgp.kernels.SquaredExponential()), np.zeros((N, Q)))
    with pytest.raises(ValueError, match=r"variance must be one number or have shape \(30, 2\)"):
        tgp.GPLVM(collapsed().model, np.zeros((N, Q)), np.ones(3))
    with pytest.raises(ValueError, match="variance must be positive"):
        tgp.GPLVM(collapsed().model, np.zeros((N, Q)), 0.0)
    with pytest.raises(ValueError, match=r"data have 29 row\(s\) but the model has latent inputs of 30"):
        collapsed().elbo(tgp.Dataset.latent(Y[1:], Q))
    with pytest.raises(ValueError, match="data say that all inputs are known"):
        collapsed().elbo(tgp.Dataset(np.zeros((N, Q)), Y))
    with pytest.raises(ValueError, match=r"3 uncertain input column\(s\) but the model has 2"):
        collapsed().elbo(tgp.Dataset.latent(Y, 3))
    S = np.ones((N, Q))
    S[2, 1] = 0
    with pytest.raises(ValueError, match="above zero in every row of a column that is uncertain"):
        collapsed().elbo(tgp.Dataset(np.zeros((N, Q)), Y, input_variance=S))
    with pytest.raises(ValueError, match="rows goes with a model with an explicit q"):
        collapsed().elbo(data, rows=[0, 1])
    for rows in ([100], 3, slice(0, 0)):
        with pytest.raises(ValueError, match="rows must"):
            explicit().elbo(data, rows=rows)
    with pytest.raises(ValueError, match="Batches do not say which row is which, and a GPLVM must know"):
        tgp.fit(explicit(), tgp.Batches([data], N), batch_size=10, epochs=1, progress=False)
    with pytest.raises(ValueError, match="validation: validation needs rows with known inputs"):
        tgp.fit(explicit(), data, batch_size=10, epochs=1, validation=data, progress=False)
    with pytest.raises(ValueError, match="made of few draws, which must be new in each step"):
        tgp.fit(explicit(None, tgp.likelihoods.Bernoulli()), data, progress=False)
    with pytest.raises(ValueError, match="above zero in every row of a column that is uncertain"):
        tgp.GPLVM.of(collapsed().model, tgp.Dataset(np.zeros((N, Q)), Y, input_variance=S))
    with pytest.raises(ValueError, match="Y has infinite values in 1 row"):
        tgp.GPLVM.start(np.where(np.arange(P) == 1, np.inf, Y[:1]), 1, 1)
    with pytest.raises(ValueError, match=r"Y has no value at all in column\(s\) 1"):
        tgp.GPLVM.start(np.where(np.arange(P) == 1, np.nan, Y), 2, 5)
    with pytest.raises(ValueError, match="data must be the Dataset that model was trained on"):
        tgp.place(trained[0].model, Y, trained[1])
    with pytest.raises(ValueError, match="y of new has dtype float32"):
        tgp.place(trained[0].model, trained[1], tgp.Dataset.latent(Y.astype(np.float32), Q))
    with pytest.raises(ValueError, match="batch_size needs a model with an explicit q"):
        tgp.fit(collapsed(), data, batch_size=10, epochs=1, progress=False)
    with pytest.raises(ValueError, match=r"num_inducing=31 is more than the number of rows of Y \(30\)"):
        tgp.GPLVM.start(Y, 2, 31)
    with pytest.raises(ValueError, match="leave out collapsed=True"):
        tgp.GPLVM.start(Y, 2, 5, likelihood=tgp.likelihoods.Poisson(), collapsed=True)
    with pytest.raises(ValueError, match=r"new must be a Dataset with 4 output\(s\) and 2 input\(s\)"):
        tgp.place(trained[0].model, trained[1], tgp.Dataset.latent(Y[:, :3], Q))
    with pytest.raises(ValueError, match=r"y must have shape \(N, P\)"):
        tgp.Dataset.latent(Y[:, 0], Q)
