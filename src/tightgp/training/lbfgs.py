"""L-BFGS-B, by SciPy."""

import hashlib
from typing import Any

import numpy as np
from scipy.optimize import minimize

from tightgp.training.checkpoint import Section
from tightgp.training.outcome import Outcome
from tightgp.training.problem import Evaluation, Problem


class NotFiniteAtStart(Exception):
    """The objective is not finite where training would begin."""


class _Evaluations:
    """Evaluates, and remembers where a checkpoint is kept.

    L-BFGS-B's own state is SciPy's and cannot be stored. But it always goes the same way, so it is led again
    through the evaluations that were stored, without computing any, to where it was.
    """

    def __init__(self, problem: Problem, section: Section):
        self._problem, self._section = problem, section
        self._points: list[int] = []
        self._known: list[Evaluation] = []
        self._asked = 0
        if section.stored is not None:
            s = section.stored
            rows = zip(*s["followed"].values(), strict=True)
            columns = zip(s["values"].tolist(), s["gradients"], rows, s["finite"].tolist(), strict=True)
            self._points = s["points"].tolist()
            self._known = [Evaluation(v, g, dict(zip(s["followed"], f, strict=True)), ok) for v, g, f, ok in columns]

    def __call__(self, x: np.ndarray) -> Evaluation:
        number, point = self._asked, _mark(x)
        self._asked += 1
        if number < len(self._known):
            if self._points[number] == point:
                return self._known[number]
            del self._points[number:], self._known[number:]  # another machine rounds otherwise: go on from here
        new = self._problem.at(x)
        if self._section.kept:
            self._points.append(point)
            self._known.append(new)
            self._section.offer_later(self._state)
        return new

    def _state(self) -> dict[str, Any]:
        known = self._known
        return {
            "points": np.array(self._points[: len(known)], np.uint64),
            "values": np.array([e.value for e in known]),
            "gradients": np.stack([e.gradient for e in known]),
            "finite": np.array([e.finite for e in known]),
            "followed": {name: np.array([e.followed[name] for e in known]) for name in known[0].followed},
        }


def _mark(x: np.ndarray) -> int:
    return int.from_bytes(hashlib.blake2b(x.tobytes(), digest_size=8).digest(), "little")


def maximise(problem: Problem, outcome: Outcome, steps: int, tolerance: float, report, section: Section) -> None:
    """Run L-BFGS-B for at most ``steps`` iterations, or until the relative gain falls under ``tolerance``.

    A point where the objective is not finite is rejected: the line search is told that the function rises
    steeply there, away from the best point, and turns back.
    """
    recent: dict[float, dict] = {}
    evaluate = _Evaluations(problem, section)
    best = problem.to_vector(problem.start)

    def negated(x):
        value, gradient, followed, finite = evaluate(x)
        outcome.evaluations += 1
        if not finite:
            if not len(outcome.trace):
                raise NotFiniteAtStart
            outcome.rejected += 1
            away = x - best
            steep = 1e3 * (1 + abs(outcome.objective)) / max(float(away @ away), 1e-300)
            return -outcome.objective + 0.5 * steep * float(away @ away), steep * away
        if value > outcome.objective:
            best[:] = x
            outcome.objective = value
        recent[value] = followed
        if not len(outcome.trace):
            outcome.trace.add({"objective": value, **followed, "rejected": 0})
        return -value, -gradient

    def accepted(intermediate_result):
        value = -float(intermediate_result.fun)
        row = {"objective": value, **recent.get(value, {}), "rejected": outcome.rejected}
        recent.clear()
        outcome.trace.add(row)
        outcome.steps += 1
        report(outcome.steps, row, f"objective {value:.6g}")

    options = {"maxiter": steps, "maxfun": 20 * steps, "ftol": tolerance, "gtol": 1e-6, "maxcor": 20}
    try:
        done = minimize(negated, best.copy(), method="L-BFGS-B", jac=True, callback=accepted, options=options)
    except NotFiniteAtStart:
        outcome.message = "the objective is not finite at the start"
        return
    finally:
        outcome.best = problem.from_vector(best)
    outcome.converged = done.status == 0
    if outcome.converged:
        why = "gradient is zero" if "GRADIENT" in str(done.message).upper() else "gain fell under the tolerance"
        outcome.message = f"{why} after {done.nit} steps"
    elif done.status == 1:
        outcome.message = f"stopped at the limit of {steps} steps"
    else:
        outcome.message = f"line search failed after {done.nit} steps: {str(done.message).strip().lower()}"
