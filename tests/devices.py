"""What `test_placement` compares between one device and several: ``python devices.py`` prints it as JSON."""

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
    made, rows = model.prepare(data)
    return np.asarray(ravel_pytree(distributed.to_one_device(_gradient(made, rows)))[0])


@eqx.filter_jit
def _gradient(made, rows):
    return eqx.filter_grad(lambda one: one.objective(rows)[0])(made)


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
    found["neighbours"] = {"elbo": float(model(data.X, tgp.Neighbours(8, block=4)).elbo(data))}
    found["vecchia"] = {"elbo": float(model(data.X, tgp.Vecchia(8, block=4)).elbo(data))}
    found |= {name: explicit(one, *rest) for name, (one, *rest) in explicit_models().items()}
    one, uncertain = model(data.X, "diagonal"), tgp.Dataset(data.X, data.y, input_variance=[0.0, 0.1])
    found["uncertain"] = {"elbo": float(one.elbo(uncertain)), "gradient": gradient(one, uncertain).tolist()}
    return found


def explicit_models():
    """Models with an explicit q(u), and data of theirs."""
    X, y = rows()
    kernel, counts = tgp.kernels.Matern32(1.3, [0.8, 1.7]), np.floor(np.exp(y + 1))
    latent = tgp.GPLVM(tgp.SGPR(tgp.kernels.SquaredExponential(1.0, 1.0), X[:9].copy(), 0.1), X)
    two_outputs = tgp.SVGP(tgp.kernels.SquaredExponential(), tgp.likelihoods.Gaussian(0.1), X[:9].copy(), num_latents=2)
    few = tgp.GPLVM(two_outputs, X)
    unknown = tgp.Dataset.latent(np.column_stack([y, X[:, 0] * y]), 2)
    return {
        "svgp": (tgp.SVGP(kernel, tgp.likelihoods.Poisson(), X[:60:12].copy()), tgp.Dataset(X, counts)),
        "svgp in blocks": (
            tgp.SVGP(kernel, tgp.likelihoods.Gaussian(0.1), X[:60:12].copy(), tgp.Block(8)),
            tgp.Dataset(X, y),
        ),
        "svgp with neighbours": (
            tgp.SVGP(kernel, tgp.likelihoods.Gaussian(0.1), X[:60:12].copy(), tgp.Neighbours(8, block=4)),
            tgp.Dataset(X, y),
        ),
        "gplvm": (latent, unknown),
        "gplvm with q(u)": (few, unknown),
    }


def explicit(one, data):
    return {"elbo": float(one.elbo(data)), "gradient": gradient(one, data).tolist()}


def trained_on_minibatches(streams=(False, True)):
    """Where training leads, which alone can be compared: batches are drawn differently on several devices.

    By model: the bound after training with batches of arrays on the device and with streamed ones, and before it.
    """
    found = {}
    for name, (one, data) in explicit_models().items():
        if name != "gplvm":
            how = {"batch_size": 32, "epochs": 30, "learning_rate": 0.02, "progress": False}
            results = [tgp.fit(one, data, stream=stream, **how) for stream in streams]
            found[name] = [float(model.elbo(data)) for model in (*(result.model for result in results), one)]
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
    found["minibatches"] = trained_on_minibatches()
    json.dump(found, sys.stdout)
