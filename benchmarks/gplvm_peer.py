"""GPflow's side of `benchmarks.gplvm`: ``python gplvm_peer.py CASE TASK SETTINGS``.

It runs in the peers' environment and knows nothing of tightgp. CASE is an .npz file with Y, Z, the mean and variance of
q(X), the kernel's variance and lengthscales, and the noise variance; the last line printed is JSON.
"""

import json
import sys
import time
from importlib.metadata import version

import numpy as np


def peak_mb() -> float:
    """The peak memory of this process; ``getrusage`` would include its parent's."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def build(case, jitter):
    import gpflow

    gpflow.config.set_default_jitter(float(jitter))
    kernel = gpflow.kernels.SquaredExponential(float(case["kernel_variance"]), case["lengthscale"])
    model = gpflow.models.BayesianGPLVM(
        case["Y"],
        X_data_mean=case["mean"],
        X_data_var=case["variance"],
        kernel=kernel,
        inducing_variable=case["Z"],
        X_prior_var=np.ones_like(case["mean"]),
    )
    model.likelihood.variance.assign(float(case["noise_variance"]))
    return model


def values(case, settings):
    """The bound, and the bound with its rows in other orders."""
    found = {}
    for jitter in settings["jitters"]:
        found[str(jitter)] = []
        for order in [np.arange(len(case["Y"])), *settings["orders"]]:
            moved = {**case, **{name: case[name][order] for name in ("Y", "mean", "variance")}}
            found[str(jitter)].append(float(build(moved, jitter).elbo()))
    return {"values": found}


def evaluation(case, settings):
    """Seconds of value and gradient, compiled."""
    import tensorflow as tf

    imported = peak_mb()
    model = build(case, settings["jitter"])
    loss = model.training_loss_closure(compile=True)
    variables = model.trainable_variables

    @tf.function
    def both():
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            value = loss()
        return value, tape.gradient(value, variables)

    def once():
        began = time.perf_counter()
        value, gradients = both()
        return float(value), [tf.convert_to_tensor(g).numpy() for g in gradients], time.perf_counter() - began

    first = once()[2]
    seconds = [once()[2] for _ in range(settings["repeats"])]
    return {"first": first, "seconds": seconds, "value": -once()[0], "peak_mb": peak_mb(), "imported_mb": imported}


def fit(case, settings):
    """Seconds and bound of a fit by L-BFGS."""
    import gpflow

    model = build(case, settings["jitter"])
    loss = model.training_loss_closure(compile=True)
    options = {"maxiter": settings["steps"], "maxcor": 20, "ftol": 0.0, "gtol": 0.0}
    began = time.perf_counter()
    done = gpflow.optimizers.Scipy().minimize(loss, model.trainable_variables, method="L-BFGS-B", options=options)
    seconds = time.perf_counter() - began
    answer = {"seconds": seconds, "bound": float(model.elbo()), "steps": int(done.nit), "evaluations": int(done.nfev)}
    return answer | {"peak_mb": peak_mb()}


def main(path, task, settings):
    with np.load(path, allow_pickle=False) as arrays:
        case = {name: arrays[name] for name in arrays.files}
    answer = {"values": values, "evaluation": evaluation, "fit": fit}[task](case, json.loads(settings))
    print(json.dumps(answer | {"versions": {name: version(name) for name in ("gpflow", "tensorflow", "numpy")}}))


if __name__ == "__main__":
    main(*sys.argv[1:])
