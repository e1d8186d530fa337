"""First-order steps: Adam, any optax transformation, natural gradients."""

import equinox as eqx
import jax
import numpy as np
import optax
import pytest

import tightgp as tgp
from tests.training.problems import svgp, train_on_batches
from tightgp import likelihoods as lk


def test_adam_against_optax_by_hand(snelson_like):
    """The compiled loop takes plain Adam steps."""
    model = tgp.ExactGP(tgp.kernels.SquaredExponential())
    result = tgp.fit(model, snelson_like, "adam", steps=7, learning_rate=0.05, progress=False)
    model, rows = model.prepare(snelson_like)
    optimiser = optax.adam(0.05)
    params, static = eqx.partition(model, tgp.parameters.trainable(model))
    state, values = optimiser.init(params), []
    for _ in range(7):
        value, grad = jax.value_and_grad(lambda p: -eqx.combine(p, static).objective(rows)[0])(params)
        values.append(-float(value))
        updates, state = optimiser.update(grad, state)
        params = optax.apply_updates(params, updates)
    np.testing.assert_allclose(result.trace["objective"], values, rtol=1e-7)


@pytest.mark.parametrize("batch_size", [None, 20])
def test_any_optax_transformation(snelson_like, batch_size):
    """It takes the steps that it takes by hand."""
    model = tgp.SVGP(tgp.kernels.SquaredExponential(), tgp.likelihoods.Gaussian(0.1), snelson_like.X[:5])
    transformation = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(0.05))
    result = tgp.fit(model, snelson_like, transformation, steps=60, batch_size=batch_size, progress=False)
    assert result.objective > float(model.elbo(snelson_like)) + 10
    params, static = eqx.partition(model, tgp.parameters.trainable(model))
    _, rows = model.prepare(snelson_like)
    state = transformation.init(params)
    gradient = jax.grad(lambda p: -eqx.combine(p, static).objective(rows)[0])(params)
    expected = optax.apply_updates(params, transformation.update(gradient, state, params)[0])
    one = tgp.fit(model, snelson_like, transformation, steps=2, progress=False)
    if batch_size is None:
        value = float(eqx.combine(expected, static).objective(rows)[0])
        assert one.trace["objective"][1] == pytest.approx(value, rel=1e-9)


def test_natural_gradients_reach_the_collapsed_optimum(waves):
    collapsed = tgp.fit(tgp.SGPR(tgp.kernels.SquaredExponential(1.0, 1.0), svgp(waves).Z, 0.1), waves, progress=False)
    result = tgp.fit(svgp(waves), waves, "natural", steps=400, learning_rate=0.05, progress=False)
    assert result.objective == pytest.approx(collapsed.objective, abs=0.5)
    assert result.trace["natural_scale"][-1] == 1
    stochastic = train_on_batches(svgp(waves), waves, method="natural", epochs=30, batch_size=100)
    assert float(stochastic.model.elbo(waves)) == pytest.approx(collapsed.objective, abs=8)
    # What is reported of an epoch is what the batches said before q saw them: no better than the bound itself.
    assert stochastic.objective == pytest.approx(float(stochastic.model.elbo(waves)), abs=10)


@pytest.mark.parametrize("model", ["counts", "odvgp", "fixed"])
def test_natural_gradients_do_not_blow_up(waves, model):
    """Large counts from a start at the prior; covariances held fixed: steps that lower the bound are taken back."""
    if model == "counts":
        waves = tgp.Dataset(waves.X, np.floor(1000 + 500 * waves.y))
        start = tgp.SVGP(tgp.kernels.SquaredExponential(), lk.Poisson(), np.linspace(-3, 3, 8)[:, None])
    elif model == "odvgp":
        start = tgp.ODVGP(tgp.kernels.SquaredExponential(), lk.Gaussian(0.01), waves.X[:6], waves.X[10:20])
    else:
        start = svgp(waves, covariance="fixed")
    before = float(start.elbo(waves))
    result = tgp.fit(start, waves, "natural", steps=150, natural_rate=1.0, progress=False)
    assert result.objective > before
    assert np.isfinite(float(result.model.elbo(waves)))
    assert result.rejected == 0


def test_natural_steps_leave_what_is_frozen(waves):
    model = tgp.freeze(svgp(waves), "q.root", "kernel.*")
    result = tgp.fit(model, waves, "natural", steps=20, progress=False)
    np.testing.assert_array_equal(result.model.q.root, model.q.root)
    assert float(result.model.kernel.variance) == float(model.kernel.variance)
    assert not np.array_equal(result.model.q.mean, model.q.mean)
