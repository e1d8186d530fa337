"""GPflow's side of `benchmarks.convergence`: ``python convergence_peer.py CASE SETTINGS``.

It runs in the peers' environment and knows nothing of tightgp. CASE is an .npz file; the line printed is JSON.
"""

import json
import sys
import time

import numpy as np


def main(path, settings):
    import gpflow

    settings = json.loads(settings)
    with np.load(path, allow_pickle=False) as arrays:
        case = {name: arrays[name] for name in arrays.files}
    gpflow.config.set_default_jitter(settings["jitter"])
    kernel = gpflow.kernels.Matern32(float(case["variance"]), case["lengthscale"])
    y, y_test = (case[name].reshape(len(case[name]), -1) for name in ("y", "y_test"))
    model = gpflow.models.SGPR((case["X"], y), kernel, case["Z"], noise_variance=float(case["noise"]))
    loss = model.training_loss_closure(compile=True)
    trace, following = [float(model.elbo())], 0.0

    def followed(step, variables, values):
        nonlocal following
        began = time.perf_counter()
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value)
        trace.append(-float(loss()))
        following += time.perf_counter() - began

    began = time.perf_counter()
    done = gpflow.optimizers.Scipy().minimize(
        loss,
        model.trainable_variables,
        method="L-BFGS-B",
        options={"maxiter": settings["steps"], "maxcor": 20, "ftol": 0.0, "gtol": 0.0},
        step_callback=followed,
    )
    seconds = time.perf_counter() - began - following
    density = float(np.mean(model.predict_log_density((case["X_test"], y_test))))
    answer = {"trace": trace, "evaluations": int(done.nfev), "seconds": seconds, "log_density": density}
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
