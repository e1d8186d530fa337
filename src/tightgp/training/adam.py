"""Adam, as compiled runs of many steps."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax

from tightgp.training.outcome import Outcome
from tightgp.training.problem import Problem, evaluate

#: Steps a compiled run takes before progress is shown and an interruption is heard.
_RUN = 50


class _State(NamedTuple):
    point: Any
    adam: Any
    good_point: Any
    good_adam: Any
    best: Any
    best_value: jax.Array
    rate: jax.Array
    rejected: jax.Array


def maximise(problem: Problem, outcome: Outcome, steps: int, learning_rate: float, tolerance: float, report) -> None:
    """Take ``steps`` full-batch Adam steps.

    A step that leads to a non-finite objective is taken back half of its way, and the learning rate is halved.
    Converged means that over the last tenth of the steps the objective moved by less than ``tolerance`` a step,
    relative to its size.
    """
    start, adam = problem.start, optax.scale_by_adam().init(problem.start)
    dtype = jax.tree.leaves(start)[0].dtype
    low, rate = jnp.asarray(-jnp.inf, dtype), jnp.asarray(learning_rate, dtype)
    state = _State(start, adam, start, adam, start, low, rate, jnp.asarray(0))
    done = 0
    while done < steps:
        length = min(_RUN, steps - done)
        state, rows = _run(state, problem.fixed, problem.rows, length)
        done += length
        outcome.evaluations += length
        outcome.trace.extend(rows)
        outcome.offer(problem.to_vector(state.best), float(state.best_value))
        outcome.rejected = int(state.rejected)
        if outcome.objective == -np.inf:
            outcome.message = "the objective is not finite at the start"
            return
        report(done, {name: float(column[-1]) for name, column in rows.items()})
    last = outcome.trace.arrays()["objective"][-max(steps // 10, 2) :]
    gain = float(last[-1] - last[0])
    outcome.converged = len(last) > 1 and abs(gain) <= tolerance * len(last) * (1 + abs(outcome.objective))
    outcome.message = f"took all {steps} steps; the last {len(last)} gained {gain:.3g} nats"


@eqx.filter_jit
def _run(state: _State, fixed, rows, length: int):
    return jax.lax.scan(lambda s, _: _step(s, fixed, rows), state, None, length=length)


def _step(s: _State, fixed, rows):
    value, gradient, followed, finite = evaluate(s.point, fixed, rows)
    down = jax.tree.map(lambda g: jnp.where(finite, -g, 0.0), gradient)
    direction, next_adam = optax.scale_by_adam().update(down, s.adam)
    rate = jnp.where(finite, s.rate, 0.5 * s.rate)
    rejected = s.rejected + ~finite

    def choose(yes, no):
        return jax.tree.map(lambda a, b: jnp.where(finite, a, b), yes, no)

    onwards = jax.tree.map(lambda x, d: x - rate * d, s.point, direction)
    halfway = jax.tree.map(lambda good, x: good + 0.5 * (x - good), s.good_point, s.point)
    better = finite & (value > s.best_value)
    new = _State(
        point=choose(onwards, halfway),
        adam=choose(next_adam, s.good_adam),
        good_point=choose(s.point, s.good_point),
        good_adam=choose(s.adam, s.good_adam),
        best=jax.tree.map(lambda a, b: jnp.where(better, a, b), s.point, s.best),
        best_value=jnp.where(better, value, s.best_value),
        rate=rate,
        rejected=rejected,
    )
    return new, {"objective": value, **followed, "rejected": rejected}
