"""optax's side of `benchmarks.convergence`: ``optax.lbfgs`` on tightgp's own objective, over the same vector.

It has its default zoom line search and a memory of 100 steps. As its documentation advises, a step takes its value and
gradient from the last line search, and one compiled program runs the whole step. The best of all steps counts.
"""

import json
import sys
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from threadpoolctl import threadpool_limits

from benchmarks.convergence import start
from tightgp.training import coordinates
from tightgp.training.objective import Objective, Parts, Scalars

MEMORY = 100


def step(parts: Parts, solver, state) -> tuple[Any, Scalars]:
    """One step: the objective before and after it, and the number of evaluations it took."""

    def negative(x):
        point = coordinates.to_point(x, parts.units, parts.start)
        value, _ = eqx.combine(point, parts.fixed).objective(parts.rows)
        return -value

    x, memory = state
    unknown = ~jnp.isfinite(memory[-1].value)  # before the first step: the state has no value yet
    value, gradient = optax.value_and_grad_from_state(negative)(x, state=memory)
    update, memory = solver.update(gradient, memory, x, value=value, grad=gradient, value_fn=negative)
    search = memory[-1]  # the line search is the last of the chain
    numbers = {"before": -value, "after": -search.value, "evaluations": search.info.num_linesearch_steps + unknown}
    return (optax.apply_updates(x, update), memory), Scalars.of(numbers)


def climb(objective: Objective, steps: int) -> dict[str, Any]:
    """The objective after each step, the best vector, the number of evaluations, and the seconds to the first step."""
    solver = optax.lbfgs(memory_size=MEMORY)
    x = jnp.asarray(objective.to_vector(objective.start))
    # With types as in later steps; those that optax starts with would have the step compiled twice.
    memory = jax.tree.map(lambda a: jnp.asarray(a, a.dtype), solver.init(x))
    program, state = objective.program(step, solver), (x, memory)
    trace: list[float] = []
    evaluations, best, first, began = 0, x, 0.0, time.perf_counter()
    for _ in range(steps):
        state, numbers = objective.advance(program, state)
        first = first or time.perf_counter() - began
        trace = trace or [numbers["before"]]
        evaluations += int(numbers["evaluations"])
        if numbers["after"] > max(trace):
            best = state[0]
        trace.append(numbers["after"])
    return {"trace": trace, "best": best, "evaluations": evaluations, "first": first}


def main(path: str, settings: dict[str, Any]) -> None:
    model, data, test = start(path, settings)
    began = time.perf_counter()
    objective = Objective(*model.prepare(data))
    with threadpool_limits(1, "blas"):  # as `tightgp.fit` does on a CPU
        found = climb(objective, settings["steps"])
    seconds = time.perf_counter() - began
    trained = objective.model(objective.from_vector(found.pop("best")))
    density = float(np.mean(np.asarray(trained.posterior(data).log_density(test.X, test.y))))
    print(json.dumps({**found, "seconds": seconds, "log_density": density}))


if __name__ == "__main__":
    main(sys.argv[2], json.loads(sys.argv[3]))
