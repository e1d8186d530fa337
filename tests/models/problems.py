"""Random problems for tests of models with an explicit q."""

import equinox as eqx
import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

import tightgp as tgp

N, M, Q, D = 24, 5, 4, 2
laws = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
#: A seed, log scales of prior and noise.
problems = st.tuples(st.integers(0, 2**32 - 1), st.floats(-1.5, 1.5), st.floats(-3, 0.5))


def build(problem):
    """A kernel, data, inducing inputs, a noise variance, and a random whitened q."""
    seed, log_variance, log_noise = problem
    rng = np.random.default_rng(seed)
    kernel = tgp.kernels.SquaredExponential(10**log_variance, 10 ** rng.uniform(-0.7, 0.7, size=D))
    X = rng.normal(size=(N, D))
    data = tgp.Dataset(X, rng.normal(size=N), rng.uniform(0.01, 0.5, size=N))
    return kernel, data, X[:M] + 0.1 * rng.normal(size=(M, D)), 10**log_noise, rng


def random_q(rng, m, count=1):
    root = np.tril(0.3 * rng.normal(size=(count, m, m))) + np.eye(m) * rng.uniform(0.2, 1.5, size=(count, 1, m))
    return rng.normal(size=(m, count)), root


def natural_step(model, data, rate=1.0):
    """q after one natural-gradient step on all of ``data``."""
    model, batch = model.prepare(data)
    return eqx.tree_at(lambda m: m.q, model, model.q.natural_step(gradient(model, batch).q, rate))


@eqx.filter_jit
def gradient(model, batch):
    return eqx.filter_grad(lambda m: m.objective(batch)[0])(model)
