"""Kernels of learnt features."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightgp as tgp
from tests.kernels.cases import NETWORK, X3
from tightgp import kernels as K


def test_the_network_is_trained_with_the_kernel():
    data = tgp.Dataset(X3, np.sin(X3[:, 0] + X3[:, 1]))
    model = tgp.ExactGP(K.Deep(K.Matern52(), NETWORK), 0.1)
    trained = tgp.fit(model, data, steps=3, progress=False).model
    before, after = tgp.named_parameters(model.kernel), tgp.named_parameters(trained.kernel)
    for name in ("network.first.weight", "network.first.bias", "network.second.weight", "kernel.lengthscale"):
        assert not np.array_equal(before[name].value, after[name].value)
    assert trained.log_evidence(data) > model.log_evidence(data)
    assert np.all(np.isinf(trained.kernel.length_scales(3)))


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
