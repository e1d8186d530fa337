"""What all workers share: data, timing and peak memory. It imports NumPy alone."""

import resource
import sys
import time
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

import numpy as np

SEED = 0
#: The start of training in every library.
VARIANCE, NOISE = 1.0, 0.1
#: Options of L-BFGS-B for every other library, with the limits of tightgp's `fit`.
LBFGS = {"maxiter": 200, "maxfun": 4000, "ftol": 1e-9, "gtol": 1e-6, "maxcor": 20}
#: Rows of a part, where a library's prediction is also tried in parts.
PART = 4096


def regression(n: int, d: int, dtype: str = "float64") -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of the timings."""
    rng = np.random.default_rng(SEED)
    X = rng.normal(size=(n, d))
    return X.astype(dtype), (np.sin(X[:, 0]) + 0.1 * rng.normal(size=n)).astype(dtype)


def small_set(n: int, d: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of the whole fits: every input matters, so that there is something to learn."""
    rng = np.random.default_rng(SEED)
    X = rng.uniform(-3, 3, size=(n, d))
    return X, np.sum(np.sin(2 * X), 1) + 0.1 * rng.normal(size=n)


def inducing(m: int, d: int, dtype: str = "float64") -> np.ndarray:
    """Inducing inputs that are not rows of the data."""
    return np.random.default_rng(SEED + 1).normal(size=(m, d)).astype(dtype)


def test_inputs(n: int, d: int) -> np.ndarray:
    """Inputs of predictions."""
    return np.random.default_rng(SEED + 2).normal(size=(n, d))


def timed(call: Callable[[], object], budget: float, each: int = 1, most: int = 30) -> dict:
    """Seconds of the first call, with compilation, and of later calls until the budget is spent.

    At least three calls are timed. If a call does its work ``each`` times, its time is divided by that.
    """
    first = _seconds(call)
    _seconds(call)  # the second may still trace or allocate
    times: list[float] = []
    while len(times) < 3 or (sum(times) < budget and len(times) < most):
        times.append(_seconds(call))
    return {"first": first / each, "seconds": [t / each for t in times]}


def timed_fits(fit: Callable[[], tuple[float, int]], budget: float) -> dict:
    """`timed` for a whole fit, which returns its objective (nats in total) and its number of evaluations."""
    answers: list[tuple[float, int]] = []
    times = timed(lambda: answers.append(fit()), budget, most=10)
    objective, evaluations = answers[-1]
    return {**times, "objective": float(objective), "evaluations": int(evaluations)}


def _seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def peak_mb(warm_up: Callable[[], object], call: Callable[[], object]) -> dict:
    """Peak memory of ``call`` beyond that of the imports and a small warm-up, in MB."""
    warm_up()
    before = _high_water_mb()
    call()
    seconds = _seconds(call)
    return {"peak_mb": _high_water_mb() - before, "seconds": [seconds]}


def _high_water_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


def versions(*names: str) -> dict[str, str]:
    """Versions of packages that are installed."""
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
