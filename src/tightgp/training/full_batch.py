"""Training on all rows at once: L-BFGS, and first-order steps in compiled runs of many."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightgp.training import lbfgs
from tightgp.training.first_order import FirstOrder, State
from tightgp.training.lbfgs import LBFGS, Report
from tightgp.training.objective import Objective, Parts, Scalars, choose
from tightgp.training.result import StopReason
from tightgp.training.run import Job, Outcome, Progress

#: First-order steps of one compiled call; progress is shown and Ctrl-C is handled after each.
_RUN = 50
#: Training has converged where no entry of the gradient is larger than this.
_FLAT = 1e-6
#: ``min_gain`` is what so many iterations of L-BFGS must gain together.
GAIN_STEPS = 5


class LBFGSJob(Job):
    """L-BFGS for at most ``steps`` iterations.

    It ends before if the relative gain of an iteration falls under ``tolerance``, or if the last `GAIN_STEPS` together
    gained less than ``min_gain``.
    """

    optimiser = LBFGS()

    def __init__(self, steps: int, tolerance: float, min_gain: float = 0.0):
        self.length, self._tolerance, self._min_gain = steps, tolerance, min_gain

    def begin(self, objective: Objective, progress: Progress) -> None:
        start = objective.to_vector(objective.start)
        progress.best = jnp.asarray(start)
        progress.state = objective.placed(self.optimiser.init(progress.best))
        progress.numbers = {"gain": np.inf, "steepest": np.inf, "failed": False}
        self.program = objective.program(_lbfgs_step, self.optimiser)

    def point(self, objective: Objective, best: Any) -> Any:
        return objective.from_vector(best)

    def outcome(self, progress: Progress) -> Outcome | None:
        numbers = progress.numbers
        if progress.evaluations and not len(progress.trace):
            return StopReason.NOT_FINITE, "the objective is not finite at the start"
        if numbers["steepest"] <= _FLAT:
            return StopReason.FLAT, f"gradient is zero after {progress.steps} steps"
        if numbers["gain"] <= self._tolerance:
            return StopReason.TOLERANCE, f"gain fell under the tolerance after {progress.steps} steps"
        last = progress.trace.last("objective", GAIN_STEPS + 1)
        if len(last) > GAIN_STEPS and last[-1] - last[0] < self._min_gain:
            message = f"the last {GAIN_STEPS} of {progress.steps} steps gained only {last[-1] - last[0]:.2g} nats"
            return StopReason.TOLERANCE, message
        if progress.steps >= self.length:
            return StopReason.STEP_LIMIT, f"stopped at the limit of {self.length} steps"
        if numbers["failed"]:
            message = f"line search failed after {progress.steps} steps: nothing better on its way"
            return StopReason.LINE_SEARCH, message
        return None

    def advance(self, objective: Objective, progress: Progress) -> dict[str, float] | None:
        progress.state, found = objective.advance(self.program, progress.state)
        report = {name: found.pop(name) for name in Report._fields}
        started = len(progress.trace) > 0
        progress.evaluations += 1
        progress.rejected += bool(started and not report["finite"])
        progress.numbers["failed"] = bool(report["failed"])
        if report["best"] > progress.objective:
            progress.objective, progress.best = report["best"], progress.state.best_x
        if not report["accepted"]:
            return None
        progress.numbers["steepest"] = report["steepest"]
        row = {"objective": report["value"], **found, "rejected": progress.rejected}
        progress.trace.add(row)
        if not started:
            return None
        progress.numbers["gain"] = report["gain"]
        progress.steps += 1
        return row


def _lbfgs_step(parts: Parts, optimiser: LBFGS, state: lbfgs.State, trial=None) -> tuple[lbfgs.State, Scalars]:
    state, report, followed = optimiser.step(state, parts.at_vector, trial)
    return state, Scalars.of({**report._asdict(), **followed})


class _Climb(NamedTuple):
    """The state of a first-order optimiser, and the best point that it evaluated."""

    state: State
    best: Any
    best_value: jax.Array


class FirstOrderJob(Job):
    """``steps`` first-order steps.

    Converged means that over the last tenth of the steps the objective moved by less than ``tolerance`` a step,
    relative to its size.
    """

    def __init__(self, optimiser: FirstOrder, steps: int, tolerance: float):
        self._optimiser, self.length, self._tolerance = optimiser, steps, tolerance

    def begin(self, objective: Objective, progress: Progress) -> None:
        state = self._optimiser.init(objective.start)
        climb = _Climb(state, objective.start, jnp.asarray(-jnp.inf, state.shrink.dtype))
        progress.state = objective.placed(climb)
        self._program = objective.program(_steps, self._optimiser)

    def outcome(self, progress: Progress) -> Outcome | None:
        if progress.steps and progress.objective == -np.inf:
            return StopReason.NOT_FINITE, "the objective is not finite at the start"
        if progress.steps < self.length:
            return None
        last, gain = progress.last_gain(self.length)
        rest = last > 1 and abs(gain) <= self._tolerance * last * (1 + abs(progress.objective))
        message = f"took all {progress.steps} steps; the last {last} gained {gain:.3g} nats"
        return StopReason.TOLERANCE if rest else StopReason.STEP_LIMIT, message

    def advance(self, objective: Objective, progress: Progress) -> dict[str, float] | None:
        length = min(_RUN, self.length - progress.steps)
        climb, columns = self._program(progress.state, np.zeros(length))
        progress.trace.extend(columns)
        progress.state = climb
        progress.steps += length
        progress.evaluations = progress.steps
        progress.rejected = int(climb.state.rejected)
        progress.best, progress.objective = climb.best, float(climb.best_value)
        return {name: float(column[-1]) for name, column in columns.items()}


def _steps(parts: Parts, optimiser: FirstOrder, climb: _Climb, numbers):
    """As many steps as ``numbers`` has entries, and the scalars of each."""

    def body(c: _Climb, _):
        state, step = optimiser.step(c.state, parts.fixed, parts.rows)
        better = step.finite & (step.value > c.best_value)
        best, best_value = choose(better, (step.point, step.value), (c.best, c.best_value))
        return _Climb(state, best, best_value), {"objective": step.value, **step.followed, "rejected": state.rejected}

    return jax.lax.scan(body, climb, numbers)
