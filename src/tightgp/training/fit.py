"""`fit`: one function from a model and data to a trained model and an account of how it went."""

import time
from typing import Any

import jax
import numpy as np

from tightgp import checks
from tightgp.diagnosis import NumericalError
from tightgp.training import adam, lbfgs
from tightgp.training.outcome import Outcome
from tightgp.training.problem import Problem
from tightgp.training.progress import ProgressBar
from tightgp.training.result import FitResult

METHODS = ("lbfgs", "adam")


def fit(
    model,
    data,
    method: str = "lbfgs",
    *,
    steps: int = 1000,
    learning_rate: float = 0.01,
    tolerance: float = 1e-9,
    restarts: int = 0,
    seed: int = 0,
    progress: bool = True,
    callback=None,
) -> FitResult:
    """Maximise ``model``'s objective on ``data``.

    Args:
        model: what to train; frozen parameters stay, parameters with priors make it MAP estimation.
        data: a `Dataset`.
        method: "lbfgs" (L-BFGS-B, the default) or "adam" (full batch).
        steps: most iterations for "lbfgs", exactly this many for "adam".
        learning_rate: Adam's step size.
        tolerance: relative gain of a step under which training counts as converged; L-BFGS then stops.
        restarts: further starts, drawn at random by ``seed``; the best is returned.
        seed: makes the restarts, and so the result, the same again.
        progress: show a bar, where standard error is a terminal.
        callback: called as ``callback(step, row)`` with each step's scalars; returning True stops training.

    Returns:
        A `FitResult`. Ctrl-C ends training and returns the best model so far, with the message "interrupted".
    """
    checks.choice("method", method, METHODS)
    checks.count("steps", steps)
    checks.positive("learning_rate", learning_rate)
    checks.positive("tolerance", tolerance)
    if restarts:
        checks.count("restarts", restarts)
    began = time.perf_counter()
    model, rows = model.prepare(data)
    runs: list[tuple[Outcome, Any]] = []
    for start in range(restarts + 1):
        key = jax.random.fold_in(jax.random.key(seed), start)
        problem = Problem(model if start == 0 else model.random_start(key, rows), rows)
        outcome = _run(problem, method, steps, learning_rate, tolerance, progress, callback)
        runs.append((outcome, problem.model(problem.from_vector(outcome.best))))
        if outcome.message == "interrupted":
            break
    best, trained = max(runs, key=lambda run: run[0].objective)
    if not np.isfinite(best.objective):
        raise NumericalError(model.explain(rows))
    return FitResult(
        model=trained,
        trace=best.trace.arrays(),
        converged=best.converged,
        message=best.message,
        objective=best.objective,
        seconds=time.perf_counter() - began,
        evaluations=sum(outcome.evaluations for outcome, _ in runs),
        rejected=sum(outcome.rejected for outcome, _ in runs),
        restarts=[outcome.objective for outcome, _ in runs],
    )


class _Stop(Exception):
    """Raised by a callback's wish."""


def _run(problem, method, steps, learning_rate, tolerance, progress, callback) -> Outcome:
    outcome = Outcome()
    outcome.best = problem.to_vector(problem.start)
    if not bool(problem.evaluate(problem.start)[3]):
        outcome.message = "the objective is not finite at the start"
        return outcome
    with ProgressBar(steps, progress) as bar:

        def report(step, row):
            bar.update(step, row["objective"])
            if callback is not None and callback(step, row):
                raise _Stop

        try:
            if method == "lbfgs":
                lbfgs.maximise(problem, outcome, steps, tolerance, report)
            else:
                adam.maximise(problem, outcome, steps, learning_rate, tolerance, report)
        except KeyboardInterrupt:
            outcome.converged, outcome.message = False, "interrupted"
        except _Stop:
            outcome.converged, outcome.message = False, "stopped by the callback"
    return outcome
