"""Scores of held-out rows: log density, error, coverage of intervals, and the time of a prediction."""

import time
from typing import Any

import jax
import numpy as np
from scipy import stats
from sklearn.metrics import root_mean_squared_error

import tightgp as tgp
from tightgp.app import scores

LEVELS = (50, 90, 95)
#: A prediction that takes longer than this is not repeated, in seconds.
_LONG = 5.0
#: Errors that are recorded and do not end the run; JAX's is mostly that memory ran out.
FAILURES = (tgp.NumericalError, jax.errors.JaxRuntimeError)


def error_text(failed: Exception) -> str:
    return f"{type(failed).__name__}: {failed}"[:2000]


def prediction(post: tgp.Posterior, test, neighbours: int | None) -> dict[str, Any]:
    """Scores of the test rows, and seconds of two predictions.

    The first may include compilation. There is no second one (None) if the first took long.
    """
    options: dict[str, Any] = {} if neighbours is None else {"neighbours": neighbours}
    seconds: list[float] = []
    try:
        while len(seconds) < 2 and sum(seconds) < _LONG:
            began = time.perf_counter()
            mean, var = (np.asarray(array) for array in post.predict_y(test.X, **options))
            seconds.append(time.perf_counter() - began)
    except FAILURES as failed:
        return {"neighbours": neighbours, "error": error_text(failed)}
    if not (np.all(np.isfinite(mean)) and np.all(np.isfinite(var) & (var > 0))):
        return {"neighbours": neighbours, "error": "some predictions are not finite"}
    sd = np.sqrt(var)
    half = {level: stats.norm.ppf(0.5 + level / 200) * sd for level in LEVELS}
    return {
        "neighbours": neighbours,
        "log_density": float(np.mean(stats.norm.logpdf(test.y, mean, sd))),
        "crps": scores.crps_gaussian(test.y, mean, sd),
        "rmse": root_mean_squared_error(test.y, mean),
        "coverage": {str(level): scores.coverage(test.y, mean - h, mean + h) for level, h in half.items()},
        "width": {str(level): float(2 * np.mean(h)) for level, h in half.items()},
        "first_seconds": seconds[0],
        "seconds": seconds[1] if len(seconds) > 1 else None,
    }
