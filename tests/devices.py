"""What `test_layout` compares between one device and several: ``python devices.py`` prints it as JSON."""

import json
import sys

import equinox as eqx
import jax
import numpy as np
from jax.flatten_util import ravel_pytree

import tightgp as tgp
from tightgp import distributed

#: A prime: nothing divides it.
NUM_ROWS = 101
BOUNDS = {"diagonal": "diagonal", "block": tgp.Block(8)}


def rows():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(NUM_ROWS, 2))
    return X, np.sin(2 * X[:, 0]) + np.cos(X[:, 1]) + 0.1 * rng.normal(size=NUM_ROWS)


def model(X, bound):
    return tgp.SGPR(tgp.kernels.Matern32(1.3, [0.8, 1.7]), np.array(X[:60:12]), 0.1, bound)


def gradient(model, data) -> np.ndarray:
    """The objective's derivatives in every parameter, Z's too."""
    made, laid = model.prepare(data)
    return np.asarray(ravel_pytree(distributed.at_home(_gradient(made, laid)))[0])


@eqx.filter_jit
def _gradient(made, laid):
    return eqx.filter_grad(lambda one: one.objective(laid)[0])(made)


def values(data, X_new):
    """Objective, gradient, posterior mean and variance, and upper bound, by bound; and with uncertain inputs."""
    found = {}
    for name, bound in BOUNDS.items():
        one = model(data.X, bound)
        mean, var = one.posterior(data).predict_f(X_new)
        found[name] = {
            "elbo": float(one.elbo(data)),
            "gradient": gradient(one, data).tolist(),
            "mean": np.asarray(mean).tolist(),
            "var": np.asarray(var).tolist(),
            "upper": float(one.upper_bound(data)),
        }
    one, uncertain = model(data.X, "diagonal"), tgp.Dataset(data.X, data.y, input_variance=[0.0, 0.1])
    found["uncertain"] = {"elbo": float(one.elbo(uncertain)), "gradient": gradient(one, uncertain).tolist()}
    return found


def trained(data, X_new):
    """What a few steps lead to, and that one can go on from there."""
    found = {}
    for method in ("lbfgs", "adam"):
        result = tgp.fit(model(data.X, "diagonal"), data, method, steps=3, progress=False)
        mean = np.asarray(result.model.posterior(data).predict_f(X_new)[0])
        found[method] = {"objective": result.objective, "again": float(result.model.elbo(data)), "mean": mean.tolist()}
    return found


if __name__ == "__main__":
    X, y = rows()
    data, X_new = tgp.Dataset(X, y), X[:5] + 0.1
    found = {"devices": jax.device_count(), "values": values(data, X_new), "trained": trained(data, X_new)}
    json.dump(found, sys.stdout)
