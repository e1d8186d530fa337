"""GPJax's measurements. Everything runs under ``jax.jit``, as its documentation recommends."""

import sys
import time

import equinox as eqx
import gpjax as gpx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from scipy.optimize import minimize

from benchmarks.workers import common

#: Adam steps of one timed call.
STEPS = 10


def probe() -> dict:
    return {
        "versions": common.versions("gpjax", "jax", "jaxlib", "equinox", "optax", "numpy", "scipy"),
        "device": jax.devices()[0].device_kind,
        "variants": {"predict": ["whole", "in parts"]},
    }


def _collapsed_family(Z, lengthscales):
    kernel = gpx.kernels.RBF(lengthscale=jnp.asarray(lengthscales), variance=common.VARIANCE)
    prior = gpx.gps.Prior(mean_function=gpx.mean_functions.Zero(), kernel=kernel)
    # GPJax trains the standard deviation of the noise.
    likelihood = gpx.likelihoods.Gaussian(obs_stddev=jnp.asarray(common.NOISE**0.5))
    return gpx.variational_families.CollapsedVariationalGaussian(
        model=prior * likelihood, inducing_inputs=jnp.asarray(Z)
    )


def _dataset(X, y):
    return gpx.Dataset(X=jnp.asarray(X), y=jnp.asarray(y)[:, None])


def _loss(static):
    """The loss as a function of trained parameters and data, so that the program does not hold them as constants."""
    return lambda params, data: -gpx.objectives.collapsed_elbo(eqx.combine(params, static), data)


def _evaluation(X, y, m: int):
    params, static = eqx.partition(_collapsed_family(X[:m].copy(), np.full(X.shape[1], 3.0)), eqx.is_array)
    program, data = jax.jit(jax.value_and_grad(_loss(static))), _dataset(X, y)
    return lambda: jax.block_until_ready(program(params, data))


def collapsed(n: int, d: int, m: int, budget: float) -> dict:
    jax.config.update("jax_enable_x64", True)
    call = _evaluation(*common.regression(n, d), m)
    return {**common.timed(call, budget), "objective": -float(call()[0])}


def memory(n: int, d: int, m: int) -> dict:
    jax.config.update("jax_enable_x64", True)
    X, y = common.regression(n, d)
    few = min(m, 64)
    warm_up = _evaluation(X[: 2 * few], y[: 2 * few], few)
    answer = common.peak_mb(warm_up, lambda: _evaluation(X, y, m)())
    return answer | {"data_mb": (X.nbytes + y.nbytes) / 2**20}


def svgp(batch: int, d: int, m: int, dtype: str, budget: float) -> dict:
    """Steps of `gpjax.fit`, several in one scan as there, but compiled once instead of at every call."""
    jax.config.update("jax_enable_x64", dtype == "float64")
    X, y = common.regression(batch, d, dtype)
    kernel = gpx.kernels.Matern32(lengthscale=jnp.asarray(2.0), variance=common.VARIANCE)
    prior = gpx.gps.Prior(mean_function=gpx.mean_functions.Zero(), kernel=kernel)
    model = prior * gpx.likelihoods.Gaussian(obs_stddev=jnp.asarray(common.NOISE**0.5))
    Z = jnp.asarray(common.inducing(m, d, dtype))
    family = gpx.variational_families.WhitenedVariationalGaussian(model=model, inducing_inputs=Z)
    params, static = eqx.partition(family, eqx.is_array)
    data, adam = _dataset(X, y), optax.adam(0.01)

    def loss(params, data):
        return -gpx.objectives.elbo(eqx.combine(params, static), data)

    @jax.jit
    def steps(params, state, data):
        def step(carry, _):
            params, state = carry
            updates, state = adam.update(jax.grad(loss)(params, data), state, params)
            return (optax.apply_updates(params, updates), state), None

        return jax.lax.scan(step, (params, state), None, STEPS)[0]

    state = adam.init(params)
    answer = common.timed(lambda: jax.block_until_ready(steps(params, state, data)), budget, STEPS)
    value = float(loss(steps(params, state, data)[0], data))
    if not np.isfinite(value):
        print(f"the loss is {value} after {STEPS} steps", file=sys.stderr)
    return {**answer, "finite": bool(np.isfinite(value))}


def fit(n: int, d: int, m: int, budget: float) -> dict:
    """Whole fits by the adapter of `gpjax.fit_scipy`, with a tolerance and without compiling at every call."""
    jax.config.update("jax_enable_x64", True)
    X, y = common.small_set(n, d)
    params, static = eqx.partition(_collapsed_family(X[:m].copy(), np.ones(d)), eqx.is_array)
    start, unravel = ravel_pytree(params)
    data, loss = _dataset(X, y), _loss(static)
    program = jax.jit(lambda x, data: jax.value_and_grad(lambda x: loss(unravel(x), data))(x))

    def evaluate(x):
        value, gradient = program(x, data)
        return float(value), np.asarray(gradient)

    def once():
        done = minimize(evaluate, np.asarray(start), jac=True, method="L-BFGS-B", options=common.LBFGS)
        return -done.fun, done.nfev

    return common.timed_fits(once, budget)


def predict(points: int, n: int, d: int, m: int, budget: float, variant: str) -> dict:
    jax.config.update("jax_enable_x64", True)
    X, y = common.regression(n, d)
    family, data = _collapsed_family(X[:m].copy(), np.full(d, 3.0)), _dataset(X, y)
    condition = eqx.filter_jit(lambda family, data: family.condition(data))
    jax.block_until_ready(jax.tree.leaves(condition(family, data)))
    began = time.perf_counter()
    posterior = condition(family, data)
    jax.block_until_ready(jax.tree.leaves(posterior))
    made = time.perf_counter() - began

    @eqx.filter_jit
    def marginals(posterior, X):
        q = posterior(X, covariance="diagonal")
        return q.mean, q.variance

    size = points if variant == "whole" else common.PART
    test = jnp.asarray(common.test_inputs(points, d))
    parts = [test[i : i + size] for i in range(0, points, size)]

    def call():
        return jax.block_until_ready([marginals(posterior, part) for part in parts])

    answer = common.timed(call, budget)
    means = [float(np.mean(np.concatenate(values))) for values in zip(*call(), strict=True)]
    return {**answer, "posterior": made, "means": means}


TASKS = {"collapsed": collapsed, "memory": memory, "svgp": svgp, "fit": fit, "predict": predict}
