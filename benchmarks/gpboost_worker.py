"""One side of `benchmarks.gpboost` in a process of its own: ``python -P gpboost_worker.py DATA OUT SETTINGS``.

DATA is an .npz file with X, y and X_test. Mean and variance of the test targets go to OUT, another .npz file. The last
line printed is JSON. Each side imports only its own library. ``-P`` keeps this folder off the import path, because the
driver beside this file is called gpboost too.
"""

import json
import math
import os
import sys
import time
from collections.abc import Callable

import numpy as np


def gpboost(X, y, X_test, s, approximation):
    import gpboost  # type: ignore[import-not-found]

    def fit():
        # GPBoost predicts from twice as many neighbours by default. Without covariates its mean is zero, like ours.
        options = {"num_ind_points": s["inducing"]} if approximation == "full_scale_vecchia" else {}
        model = gpboost.GPModel(
            gp_coords=X,
            cov_function="matern",
            cov_fct_shape=1.5,
            likelihood="gaussian",
            gp_approx=approximation,
            num_neighbors=s["peer_neighbours"],
            num_parallel_threads=s["threads"],
            seed=s["seed"],
            **options,
        )
        model.fit(y=y, params={"maxit": s["steps"], "delta_rel_conv": s["tolerance"]})
        return model

    def predict(model):
        out = model.predict(gp_coords_pred=X_test, predict_var=True, predict_response=True)
        return out["mu"], out["var"]

    def describe(model):
        noise, variance, lengthscale = np.ravel(model.get_cov_pars())[:3].tolist()
        found = {"noise_variance": noise, "variance": variance, "lengthscale": lengthscale}
        return found | {"steps": model._get_num_optim_iter(), "converged": model._get_convergence_status() == 0}

    return fit, predict, describe, ("gpboost", "numpy")


def tightgp(X, y, X_test, s, bound):
    import tightgp as tgp

    train = tgp.Dataset(X, y)

    def fit():
        kernel = tgp.kernels.Matern32(1.0, max(1.0, 0.5 * math.sqrt(X.shape[1])))
        Z = tgp.inducing.kmeans(X, s["inducing"], seed=s["seed"])
        structure = {
            "tight": tgp.Vecchia(32),
            "pep": tgp.PowerEP(1.0, block=64),
            "half": tgp.PowerEP(0.5, block=64),
            "block": tgp.Block(64),
        }[bound]
        model = tgp.SGPR(kernel, Z, 0.1, bound=structure)
        result = tgp.fit(model, train, "lbfgs", steps=s["steps"], tolerance=s["tolerance"], progress=False)
        posterior = result.model.posterior(train)
        if bound == "tight":  # as many neighbours as predict training rows best, and no look at test rows
            posterior = posterior.with_best_neighbours((16, 64, 128), seed=s["seed"])
        return result, posterior

    def predict(fitted):
        return fitted[1].predict_y(X_test, neighbours=None if bound == "tight" else s["neighbours"] or None)

    def describe(fitted):
        result, kernel = fitted[0], fitted[0].model.kernel
        found = {"noise_variance": result.model.noise_variance, "variance": kernel.variance}
        found = {name: float(value) for name, value in (found | {"lengthscale": kernel.lengthscale}).items()}
        return found | {"steps": len(result.trace["objective"]) - 1, "converged": result.converged}

    return fit, predict, describe, ("tightgp", "jax", "numpy")


METHODS: dict[str, tuple[Callable, str]] = {
    "tight": (tightgp, "tight"),
    "pep": (tightgp, "pep"),
    "half": (tightgp, "half"),
    "block": (tightgp, "block"),
    "vecchia": (gpboost, "vecchia"),
    "vif": (gpboost, "full_scale_vecchia"),
}


def main(data, out, settings):
    s = json.loads(settings)
    if hasattr(os, "sched_setaffinity"):  # JAX uses as many threads as it has cores
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: s["threads"]])
    with np.load(data, allow_pickle=False) as arrays:
        given = [np.ascontiguousarray(arrays[name]) for name in ("X", "y", "X_test")]
    library, variant = METHODS[s["method"]]
    fit, predict, describe, packages = library(*given, s, variant)
    began = time.perf_counter()
    fitted = fit()
    fit_seconds = time.perf_counter() - began
    began = time.perf_counter()
    mean, var = (np.asarray(array) for array in predict(fitted))
    predict_seconds = time.perf_counter() - began
    np.savez(out, mean=mean, var=var)
    answer = {"fit_seconds": fit_seconds, "predict_seconds": predict_seconds, **describe(fitted)}
    print(json.dumps(answer | {"versions": {name: sys.modules[name].__version__ for name in packages}}))


if __name__ == "__main__":
    main(*sys.argv[1:])
