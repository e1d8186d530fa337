"""Scores of held-out rows: log density, error, how many lie inside intervals, and the time that predicting takes."""

import time
from typing import Any

import jax
import numpy as np
from scipy import stats
from sklearn.metrics import root_mean_squared_error

import tightgp as tgp
from tightgp.app import scores

LEVELS = (50, 90, 95)
#: Seconds that a prediction may take and be repeated.
_LONG = 5.0
#: What is recorded instead of ending the run; JAX's own error is mostly memory that ran out.
FAILURES = (tgp.NumericalError, jax.errors.JaxRuntimeError)


def told(failed: Exception) -> str:
    return f"{type(failed).__name__}: {failed}"[:2000]


def prediction(post: tgp.Posterior, test, neighbours: int | None) -> dict[str, Any]:
    """Scores of the test rows, and seconds: of the first time, which may hold compilation, and of a second, which there
    is not (None) where the first took long."""
    options: dict[str, Any] = {} if neighbours is None else {"neighbours": neighbours}
    seconds: list[float] = []
    try:
        while len(seconds) < 2 and sum(seconds) < _LONG:
            began = time.perf_counter()
            mean, var = (np.asarray(array) for array in post.predict_y(test.X, **options))
            seconds.append(time.perf_counter() - began)
    except FAILURES as failed:
        return {"neighbours": neighbours, "error": told(failed)}
    if not (np.all(np.isfinite(mean)) and np.all(np.isfinite(var) & (var > 0))):
        return {"neighbours": neighbours, "error": "some predictions are not finite"}
    sd = np.sqrt(var)
    half = {level: stats.norm.ppf(0.5 + level / 200) * sd for level in LEVELS}
    return {
        "neighbours": neighbours,
        "log_density": float(np.mean(stats.norm.logpdf(test.y, mean, sd))),
        "rmse": root_mean_squared_error(test.y, mean),
        "coverage": {str(level): scores.coverage(test.y, mean - h, mean + h) for level, h in half.items()},
        "width": {str(level): float(2 * np.mean(h)) for level, h in half.items()},
        "first_seconds": seconds[0],
        "seconds": seconds[1] if len(seconds) > 1 else None,
    }
