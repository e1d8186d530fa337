import gc

import jax
import numpy as np
import pytest

import tightgp as tgp


@pytest.fixture(autouse=True, scope="module")
def programs_of_one_file():
    """Every compiled program holds memory maps, of which a process may have only so many: let go of a file's."""
    yield
    jax.clear_caches()
    gc.collect()


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def problem(rng):
    """A small regression problem: data, inducing inputs, kernel."""
    X = rng.normal(size=(37, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=37)
    kernel = tgp.kernels.SquaredExponential(1.3, [0.8, 1.7])
    return tgp.Dataset(X, y), X[:6].copy(), kernel
