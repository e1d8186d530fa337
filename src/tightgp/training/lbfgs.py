"""L-BFGS-B, by SciPy."""

from scipy.optimize import minimize

from tightgp.training.outcome import Outcome
from tightgp.training.problem import Problem


class NotFiniteAtStart(Exception):
    """The objective is not finite where training would begin."""


def maximise(problem: Problem, outcome: Outcome, steps: int, tolerance: float, report) -> None:
    """Run L-BFGS-B for at most ``steps`` iterations, or until the relative gain falls under ``tolerance``.

    A point where the objective is not finite is rejected: the line search is told that the function rises
    steeply there, away from the best point, and turns back.
    """
    recent: dict[float, dict] = {}

    def negated(x):
        point = problem.from_vector(x)
        value, gradient, followed, finite = problem.evaluate(point)
        outcome.evaluations += 1
        if not bool(finite):
            if not len(outcome.trace):
                raise NotFiniteAtStart
            outcome.rejected += 1
            away = x - problem.to_vector(outcome.best)
            steep = 1e3 * (1 + abs(outcome.objective)) / max(float(away @ away), 1e-300)
            return -outcome.objective + 0.5 * steep * float(away @ away), steep * away
        value = float(value)
        outcome.offer(point, value)
        recent[value] = {name: float(number) for name, number in followed.items()}
        if not len(outcome.trace):
            outcome.trace.add({"objective": value, **recent[value], "rejected": 0})
        return -value, -problem.gradient_vector(gradient)

    def accepted(intermediate_result):
        value = -float(intermediate_result.fun)
        row = {"objective": value, **recent.get(value, {}), "rejected": outcome.rejected}
        recent.clear()
        outcome.trace.add(row)
        report(len(outcome.trace) - 1, row, f"objective {value:.6g}")

    options = {"maxiter": steps, "maxfun": 20 * steps, "ftol": tolerance, "gtol": 1e-6, "maxcor": 20}
    start = problem.to_vector(problem.start)
    try:
        done = minimize(negated, start, method="L-BFGS-B", jac=True, callback=accepted, options=options)
    except NotFiniteAtStart:
        outcome.message = "the objective is not finite at the start"
        return
    outcome.converged = done.status == 0
    if outcome.converged:
        why = "gradient is zero" if "GRADIENT" in str(done.message).upper() else "gain fell under the tolerance"
        outcome.message = f"{why} after {done.nit} steps"
    elif done.status == 1:
        outcome.message = f"stopped at the limit of {steps} steps"
    else:
        outcome.message = f"line search failed after {done.nit} steps: {str(done.message).strip().lower()}"
