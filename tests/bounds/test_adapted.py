"""The bound with an adapted mean: between the bound with neighbours and the evidence, with the right derivative."""

import jax
import numpy as np
import pytest

import tightgp as tgp
from tests.reference import Dense


def build(noise, two=True):
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, size=(45, 2))
    y = np.stack([np.sin(2 * X[:, 0]), X[:, 1]], axis=1) + 0.1 * rng.normal(size=(45, 2))
    kernel, mean = tgp.kernels.Matern32(1.3, [0.8, 1.7]), tgp.means.Constant([0.3, -0.2])
    known = noise * rng.uniform(0, 1, size=45)
    model = tgp.SGPR(kernel, X[:6] + 0.1, noise, bound=tgp.Certified(8, block=4), mean=mean)
    dense = Dense(kernel, X, y, X[:6] + 0.1, noise, mean=np.array([0.3, -0.2]), known=known)
    return model, tgp.Dataset(X, y, known), dense


@pytest.mark.parametrize("noise", [1e-4, 0.1])
def test_it_is_the_neighbour_bound_with_the_exact_quadratic_term(noise):
    model, data, dense = build(noise)
    looser = float(tgp.SGPR(model.kernel, model.Z, noise, tgp.Neighbours(8, block=4), model.mean).elbo(data))
    value = float(model.elbo(data))
    residual = dense.y - dense.mean
    exact, sparse = (np.sum(residual * np.linalg.solve(C + np.diag(dense.noise), residual)) for C in (dense.K, dense.Q))
    assert value == pytest.approx(looser + 0.5 * (sparse - exact), abs=1e-4)
    assert looser < value < dense.evidence()


def test_derivative_against_finite_differences_with_the_mean_found_again():
    model, data, _ = build(0.05)
    model, rows = model.prepare(data)
    leaves, structure = jax.tree.flatten(model)
    value = jax.jit(lambda leaves: jax.tree.unflatten(structure, leaves).objective(rows)[0])
    gradient = jax.jit(jax.grad(lambda leaves: jax.tree.unflatten(structure, leaves).objective(rows)[0]))(leaves)
    rng = np.random.default_rng(0)
    direction = [rng.normal(size=leaf.shape) for leaf in leaves]
    slope = sum(float(np.sum(g * d)) for g, d in zip(gradient, direction, strict=True))

    def along(step):
        return float(value([leaf + step * d for leaf, d in zip(leaves, direction, strict=True)]))

    assert slope == pytest.approx((along(1e-4) - along(-1e-4)) / 2e-4, rel=1e-4)


def test_training_and_prediction(tmp_path):
    model, data, _ = build(0.05)
    result = tgp.fit(model, data, steps=3, progress=False)
    assert result.objective > float(model.elbo(data))
    assert np.all(result.trace["solver_steps"] >= 1)
    learnt = result.model
    vecchia = tgp.SGPR(learnt.kernel, learnt.Z, learnt.noise_variance, mean=learnt.mean, bound=tgp.Vecchia(8, block=4))
    for ours, theirs in zip(
        *(one.posterior(data).predict_f(data.X[:3]) for one in (learnt.ungrouped(), vecchia)), strict=True
    ):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    tgp.save(result.model, tmp_path / "model.safetensors")
    assert tgp.load(tmp_path / "model.safetensors").bound == model.bound


def test_other_models_refuse_it():
    X, y = np.random.default_rng(0).normal(size=(20, 2)), np.ones(20)
    svgp = tgp.SVGP(tgp.kernels.Matern32(), tgp.likelihoods.Gaussian(), X[:4], bound=tgp.Certified(4))
    with pytest.raises(ValueError, match=r"for tightgp\.SGPR alone"):
        svgp.elbo(tgp.Dataset(X, y))
