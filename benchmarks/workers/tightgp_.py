"""tightgp's measurements."""

import time

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from threadpoolctl import threadpool_limits

import tightgp as tgp
from benchmarks.workers import common
from tightgp.training.first_order import FirstOrder
from tightgp.training.objective import Objective

#: Adam steps of one timed call.
STEPS = 10


def probe() -> dict:
    return {
        "versions": common.versions("tightgp", "jax", "jaxlib", "equinox", "optax", "numpy", "scipy"),
        "device": jax.devices()[0].device_kind,
    }


def _problem(X, y, m: int, bound: str, precision: str = "full") -> Objective:
    kernel = tgp.kernels.SquaredExponential(common.VARIANCE, np.full(X.shape[1], 3.0))
    model = tgp.SGPR(kernel, X[:m].copy(), common.NOISE, bound=bound, precision=precision)
    return Objective(*model.prepare(tgp.Dataset(X, y)))


def collapsed(n: int, d: int, m: int, bound: str, budget: float, precision: str = "full") -> dict:
    problem = _problem(*common.regression(n, d), m, bound, precision)
    start = jnp.asarray(problem.to_vector(problem.start))
    with threadpool_limits(1, "blas"):  # as in `fit`
        answer = common.timed(lambda: jax.block_until_ready(problem.at_vector(start)), budget)
    return {**answer, "objective": float(problem.at_vector(start).value)}


def memory(n: int, d: int, m: int, bound: str) -> dict:
    X, y = common.regression(n, d)

    def evaluate(rows: int, count: int):
        problem = _problem(X[:rows], y[:rows], count, bound)
        jax.block_until_ready(problem.at_vector(problem.to_vector(problem.start)))

    few = min(m, 64)
    answer = common.peak_mb(lambda: evaluate(2 * few, few), lambda: evaluate(n, m))
    stats = jax.devices()[0].memory_stats() if jax.default_backend() != "cpu" else None
    if stats:
        answer |= {"peak_mb": stats["peak_bytes_in_use"] / 2**20, "of": "device"}
    return answer | {"data_mb": (X.nbytes + y.nbytes) / 2**20}


def svgp(batch: int, d: int, m: int, dtype: str, bound: str, budget: float) -> dict:
    X, y = common.regression(batch, d, dtype)
    Z = common.inducing(m, d, dtype)
    kernel = tgp.kernels.Matern32(common.VARIANCE, 2.0)
    model = tgp.SVGP(kernel, tgp.likelihoods.Gaussian(common.NOISE), Z, bound)
    problem = Objective(*model.prepare(tgp.Dataset(X, y)))
    adam = FirstOrder.adam(0.01)

    @eqx.filter_jit
    def steps(state, fixed, rows):
        def step(state, _):
            return adam.step(state, fixed, rows)[0], None

        return jax.lax.scan(step, state, None, STEPS)[0]

    state = adam.init(problem.start)
    with threadpool_limits(1, "blas"):  # as in `fit`
        return common.timed(lambda: jax.block_until_ready(steps(state, problem.fixed, problem.rows)), budget, STEPS)


def fit(n: int, d: int, m: int, bound: str, budget: float) -> dict:
    X, y = common.small_set(n, d)

    def once():
        kernel = tgp.kernels.SquaredExponential(common.VARIANCE, np.ones(d))
        model = tgp.SGPR(kernel, X[:m].copy(), common.NOISE, bound=bound)
        steps, tolerance = common.LBFGS["maxiter"], common.LBFGS["ftol"]
        done = tgp.fit(model, tgp.Dataset(X, y), steps=steps, tolerance=tolerance, progress=False)
        return done.objective, done.evaluations

    return common.timed_fits(once, budget)


def predict(points: int, n: int, d: int, m: int, bound: str, budget: float) -> dict:
    X, y = common.regression(n, d)
    kernel = tgp.kernels.SquaredExponential(common.VARIANCE, np.full(d, 3.0))
    model, data = tgp.SGPR(kernel, X[:m].copy(), common.NOISE, bound=bound), tgp.Dataset(X, y)
    jax.block_until_ready(model.posterior(data).latents)
    began = time.perf_counter()
    posterior = model.posterior(data)
    jax.block_until_ready(posterior.latents)
    made = time.perf_counter() - began
    test = jnp.asarray(common.test_inputs(points, d))
    answer = common.timed(lambda: jax.block_until_ready(posterior.predict_f(test)), budget)
    return {**answer, "posterior": made, "means": [float(jnp.mean(a)) for a in posterior.predict_f(test)]}


TASKS = {"collapsed": collapsed, "memory": memory, "svgp": svgp, "fit": fit, "predict": predict}
