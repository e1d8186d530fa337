"""`fit`: one function from a model and data to a trained model and an account of how it went."""

import time

import jax
import numpy as np

from tightgp import checks
from tightgp.diagnosis import NumericalError
from tightgp.training import adam, lbfgs
from tightgp.training.outcome import Outcome, Stop
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
        callback: called as ``callback(step, row)`` with a step's scalars, after each L-BFGS iteration and after
            every 50 Adam steps; returning True ends training.

    Returns:
        A `FitResult`. Ctrl-C ends training and returns the best model so far, with the message "interrupted".
    """
    _check(model, method, steps, learning_rate, tolerance, restarts, seed, callback)
    began = time.perf_counter()
    model, rows = model.prepare(data)
    runs: list[tuple[Outcome, Problem]] = []
    for start in range(restarts + 1):
        problem = Problem(model if start == 0 else _another(model, seed, start, rows), rows)
        outcome = Outcome(problem.to_vector(problem.start))
        runs.append((outcome, problem))
        _run(problem, outcome, method, steps, learning_rate, tolerance, progress, callback)
        if outcome.ended:
            break
    best, problem = max(runs, key=lambda run: run[0].objective)
    if best.objective == -np.inf and best.ended:
        best.offer(best.best, float(problem.evaluate(problem.start)[0]))
    if not np.isfinite(best.objective):
        raise NumericalError(model.explain(rows))
    last, _ = runs[-1]
    return FitResult(
        model=problem.model(problem.from_vector(best.best)),
        trace=best.trace.arrays(),
        converged=best.converged and not last.ended,
        message=last.message if last.ended else best.message,
        objective=best.objective,
        seconds=time.perf_counter() - began,
        evaluations=sum(outcome.evaluations for outcome, _ in runs),
        rejected=sum(outcome.rejected for outcome, _ in runs),
        restarts=[outcome.objective for outcome, _ in runs],
    )


def _check(model, method, steps, learning_rate, tolerance, restarts, seed, callback) -> None:
    checks.choice("method", method, METHODS)
    checks.count("steps", steps)
    checks.positive("learning_rate", checks.number("learning_rate", learning_rate))
    checks.positive("tolerance", checks.number("tolerance", tolerance))
    checks.seed("restarts", restarts)
    checks.seed("seed", seed)
    if callback is not None and not callable(callback):
        raise ValueError(f"callback must be a function of (step, row), got {type(callback).__name__}")
    if not hasattr(model, "prepare"):
        raise ValueError(f"model must be a model such as tightgp.SGPR, got {type(model).__name__}")


def _another(model, seed: int, start: int, rows):
    return model.random_start(jax.random.fold_in(jax.random.key(seed), start), rows)


def _run(problem, outcome, method, steps, learning_rate, tolerance, progress, callback) -> None:
    with ProgressBar(steps, progress) as bar:

        def report(step, row):
            bar.update(step, row["objective"])
            if callback is not None and callback(step, row):
                raise Stop

        try:
            if method == "lbfgs":
                lbfgs.maximise(problem, outcome, steps, tolerance, report)
            else:
                adam.maximise(problem, outcome, steps, learning_rate, tolerance, report)
        except KeyboardInterrupt:
            outcome.end("interrupted")
        except Stop:
            outcome.end("stopped by the callback")
