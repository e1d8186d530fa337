"""Kernels of learnt features."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightgp as tgp
from tests.kernels.cases import NETWORK, X3, Network
from tightgp import kernels as K


def test_the_network_is_trained_with_the_kernel(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    data = tgp.Dataset(X, np.sin(X[:, 0] + X[:, 1]))
    model = tgp.SGPR(K.Deep(K.Matern52(), NETWORK), X[:15], 0.1, bound="vecchia")
    trained = tgp.fit(model, data, steps=15, progress=False).model
    before, after = tgp.named_parameters(model.kernel), tgp.named_parameters(trained.kernel)
    assert not np.allclose(before["network.first.weight"].value, after["network.first.weight"].value)
    assert trained.elbo(data) > model.elbo(data) + 1
    # Neighbours are told apart by the inputs' standard deviations: features have no lengthscale of the inputs.
    post = trained.posterior(data)
    assert np.all(np.isinf(trained.kernel.length_scales(3)))
    mean, var = post.predict_f(X[:4], neighbours=8)
    assert np.all(np.isfinite(mean))
    assert np.all(var >= 0)
    tgp.save(post, tmp_path / "post.safetensors")
    loaded = tgp.load(tmp_path / "post.safetensors", classes=[Network, eqx.nn.Linear])
    np.testing.assert_array_equal(loaded.predict_f(X[:4], neighbours=8)[0], mean)


def test_a_frozen_network_stays():
    kernel = tgp.freeze(K.Deep(K.Matern52(), NETWORK), "network.*")
    frozen = {name for name, p in tgp.named_parameters(kernel).items() if p.frozen}
    assert frozen == {f"network.{layer}.{part}" for layer in ("first", "second") for part in ("weight", "bias")}


def test_a_network_with_functions_works_and_is_not_saved(tmp_path):
    network = eqx.nn.MLP(3, 2, 4, 1, activation=jnp.tanh, key=jax.random.key(0))
    kernel = K.Deep(K.Matern52(), network)
    assert all(eqx.is_array(leaf) for leaf in jax.tree.leaves(kernel))
    expected = K.Matern52()(jax.vmap(network)(X3.astype(np.float32)).astype(float))
    np.testing.assert_allclose(kernel(X3), expected, atol=1e-5)
    with pytest.raises(ValueError, match=r"network\.activation.* which a model file cannot hold"):
        tgp.save(kernel, tmp_path / "kernel.safetensors")
