from types import SimpleNamespace

import jax
import numpy as np
import pytest
from threadpoolctl import threadpool_limits

import tightgp as tgp


@pytest.fixture(autouse=True, scope="package")
def quick_compilation():
    """Arrays are small here: compiling takes most of the time, and threads that wait for each other the rest."""
    jax.config.update("jax_disable_most_optimizations", True)
    with threadpool_limits(limits=1):
        yield
    jax.config.update("jax_disable_most_optimizations", False)


@pytest.fixture(scope="package")
def table():
    """Forty rows of two columns with every kind of target: most tests share its shape, and so its programs."""
    rng = np.random.default_rng(7)
    X = np.stack([rng.uniform(-3, 3, size=40), 20 + 5 * rng.normal(size=40)], axis=1)
    f = np.sin(1.5 * X[:, 0]) + 0.1 * (X[:, 1] - 20)
    return SimpleNamespace(
        X=X,
        y=300 * f + 30 * rng.normal(size=40) + 5000,
        labels=np.where(f + 0.2 * rng.normal(size=40) > 0, "yes", "no"),
        three=np.array(["low", "mid", "high"])[np.digitize(f, [-0.4, 0.4])],
        counts=rng.poisson(np.exp(f + 7.5)),
        new=np.stack([rng.uniform(-3, 3, size=9), 20 + 5 * rng.normal(size=9)], axis=1),
    )


SMALL = {"n_inducing": 8, "max_iter": 50}


@pytest.fixture(scope="package")
def regressor(table):
    return tgp.SparseGPRegressor(**SMALL).fit(table.X, table.y)


@pytest.fixture(scope="package")
def classifier(table):
    return tgp.SparseGPClassifier(**SMALL).fit(table.X, table.labels)


@pytest.fixture(scope="package")
def counter(table):
    return tgp.SparseGPCountRegressor(**SMALL).fit(table.X, table.counts)
