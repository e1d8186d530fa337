import numpy as np
import pytest

import tightgp as tgp


@pytest.fixture
def snelson_like(rng):
    X = rng.uniform(0, 6, size=(40, 1))
    return tgp.Dataset(X, np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=40))


@pytest.fixture
def waves(rng):
    X = rng.uniform(-3, 3, size=(203, 1))
    return tgp.Dataset(X, np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=203))
