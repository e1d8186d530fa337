"""Full-batch Adam, with or without natural gradients, as compiled runs of many steps."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tightgp.training import checkpoint, stepping
from tightgp.training.checkpoint import Section
from tightgp.training.outcome import Outcome
from tightgp.training.problem import Problem
from tightgp.training.stepping import Settings, State

#: Steps a compiled run takes before progress is shown and an interruption is heard.
_RUN = 50


class _Climb(NamedTuple):
    state: State
    best: Any
    best_value: jax.Array


def maximise(
    problem: Problem, outcome: Outcome, steps: int, settings: Settings, tolerance: float, report, section: Section
) -> None:
    """Take ``steps`` full-batch steps.

    Converged means that over the last tenth of the steps the objective moved by less than ``tolerance`` a step,
    relative to its size.
    """
    state = stepping.begin(problem.start, settings)
    climb = _Climb(state, problem.start, jnp.asarray(-jnp.inf, state.shrink.dtype))
    done = 0
    if section.stored is not None:
        done = section.stored["done"]
        climb = checkpoint.like(climb, section.stored["climb"])
        outcome.trace.restore(section.stored["trace"])
        _note(outcome, climb, done)
    while done < steps:
        length = min(_RUN, steps - done)
        climb, rows = _run(climb, problem.fixed, problem.rows, length, settings)
        done += length
        outcome.trace.extend(rows)
        _note(outcome, climb, done)
        if outcome.objective == -np.inf:
            outcome.message = "the objective is not finite at the start"
            return
        row = {name: float(column[-1]) for name, column in rows.items()}
        section.offer({"done": done, "climb": checkpoint.leaves(climb), "trace": outcome.trace.arrays()})
        report(done, row, f"objective {row['objective']:.6g}")
    last = outcome.trace.arrays()["objective"][-max(steps // 10, 2) :]
    gain = float(last[-1] - last[0])
    outcome.converged = len(last) > 1 and abs(gain) <= tolerance * len(last) * (1 + abs(outcome.objective))
    outcome.message = f"took all {done} steps; the last {len(last)} gained {gain:.3g} nats"


def _note(outcome: Outcome, climb: _Climb, done: int) -> None:
    outcome.evaluations = outcome.steps = done
    outcome.offer(climb.best, float(climb.best_value))
    outcome.rejected = int(climb.state.rejected)


@eqx.filter_jit
def _run(climb: _Climb, fixed, rows, length: int, settings: Settings):
    def body(c: _Climb, _):
        step = stepping.step(c.state, fixed, rows, settings)
        better = step.finite & (step.value > c.best_value)
        best = jax.tree.map(lambda a, b: jnp.where(better, a, b), step.point, c.best)
        row = {"objective": step.value, **step.followed, "rejected": step.state.rejected}
        return _Climb(step.state, best, jnp.where(better, step.value, c.best_value)), row

    return jax.lax.scan(body, climb, None, length=length)
