"""GPflow's measurements: compiled with ``tf.function``, with or without XLA, whichever is faster."""

import time

import gpflow
import numpy as np
import tensorflow as tf

from benchmarks.workers import common

#: Adam steps of one timed call.
STEPS = 10
PLAIN, XLA = "tf.function", "tf.function with XLA"


def probe() -> dict:
    gpus = tf.config.list_physical_devices("GPU")
    compilers, parts = [PLAIN, XLA], ["whole", "in parts"]
    return {
        "versions": common.versions("gpflow", "tensorflow", "tensorflow_cpu", "numpy", "scipy"),
        "device": gpus[0].name if gpus else "cpu",
        "variants": {"collapsed": compilers, "svgp": compilers, "fit": compilers, "predict": parts},
    }


def _model(X, y, m: int, lengthscale: float) -> gpflow.models.SGPR:
    kernel = gpflow.kernels.SquaredExponential(common.VARIANCE, np.full(X.shape[1], lengthscale))
    return gpflow.models.SGPR((X, y[:, None]), kernel, X[:m].copy(), noise_variance=common.NOISE)


def _evaluation(X, y, m: int, variant: str):
    model = _model(X, y, m, 3.0)

    @tf.function(jit_compile=variant == XLA)
    def value_and_gradient():
        with tf.GradientTape() as tape:
            value = model.elbo()
        return value, tape.gradient(value, model.trainable_variables)

    def call() -> float:
        value, gradients = value_and_gradient()
        for gradient in gradients:
            tf.convert_to_tensor(gradient).numpy()
        return float(value.numpy())

    return call


def collapsed(n: int, d: int, m: int, budget: float, variant: str) -> dict:
    call = _evaluation(*common.regression(n, d), m, variant)
    return {**common.timed(call, budget), "objective": call()}


def memory(n: int, d: int, m: int) -> dict:
    X, y = common.regression(n, d)
    few = min(m, 64)
    warm_up = lambda: _evaluation(X[: 2 * few], y[: 2 * few], few, PLAIN)()  # noqa: E731
    answer = common.peak_mb(warm_up, lambda: _evaluation(X, y, m, PLAIN)())
    return answer | {"data_mb": (X.nbytes + y.nbytes) / 2**20}


def svgp(batch: int, d: int, m: int, dtype: str, budget: float, variant: str) -> dict:
    """Adam steps inside one compiled function, so that none waits for Python."""
    gpflow.config.set_default_float(getattr(np, dtype))
    if dtype == "float32":
        gpflow.config.set_default_jitter(1e-4)  # its default of 1e-6 is for float64
    X, y = common.regression(batch, d, dtype)
    kernel = gpflow.kernels.Matern32(common.VARIANCE, 2.0)
    model = gpflow.models.SVGP(
        kernel, gpflow.likelihoods.Gaussian(common.NOISE), common.inducing(m, d, dtype), num_data=batch
    )
    data = tf.constant(X), tf.constant(y[:, None])
    adam = tf.keras.optimizers.Adam(0.01)
    variables = model.trainable_variables
    adam.build(variables)

    @tf.function(jit_compile=variant == XLA)
    def steps():
        loss = tf.zeros((), dtype)
        for _ in tf.range(STEPS):
            with tf.GradientTape() as tape:
                loss = model.training_loss(data)
            adam.apply_gradients(zip(tape.gradient(loss, variables), variables, strict=True))
        return loss

    return common.timed(lambda: steps().numpy(), budget, STEPS)


def fit(n: int, d: int, m: int, budget: float, variant: str) -> dict:
    """Whole fits by one optimiser, which keeps what it compiled."""
    X, y = common.small_set(n, d)
    model, optimiser = _model(X, y, m, 1.0), gpflow.optimizers.Scipy()
    start = gpflow.utilities.read_values(model)

    def once():
        gpflow.utilities.multiple_assign(model, start)
        done = optimiser.minimize(
            model.training_loss,
            model.trainable_variables,
            method="L-BFGS-B",
            options=common.LBFGS,
            compile=True,
            tf_fun_args={"jit_compile": variant == XLA},
        )
        return -done.fun, done.nfev

    return common.timed_fits(once, budget)


def predict(points: int, n: int, d: int, m: int, budget: float, variant: str) -> dict:
    """Predictions from a compiled posterior with its factors."""
    model = _model(*common.regression(n, d), m, 3.0)
    model.posterior()
    began = time.perf_counter()
    posterior = model.posterior()
    _ = [cached.numpy() for cached in posterior.cache]
    made = time.perf_counter() - began
    marginals = tf.function(posterior.predict_f, reduce_retracing=True)
    size = points if variant == "whole" else common.PART
    test = tf.constant(common.test_inputs(points, d))
    parts = [test[i : i + size] for i in range(0, points, size)]

    def call():
        return [[moment.numpy() for moment in marginals(part)] for part in parts]

    answer = common.timed(call, budget)
    means = [float(np.mean(np.concatenate(values))) for values in zip(*call(), strict=True)]
    return {**answer, "posterior": made, "means": means}


TASKS = {"collapsed": collapsed, "memory": memory, "svgp": svgp, "fit": fit, "predict": predict}
