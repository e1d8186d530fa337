"""Minibatch training: each epoch compiled, reshuffled, and scored on held-out rows where there are some."""

import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tightgp.data import Batch
from tightgp.training import stepping
from tightgp.training.outcome import Outcome
from tightgp.training.problem import Problem
from tightgp.training.stepping import Settings


def maximise(
    problem: Problem, outcome: Outcome, source, epochs: int, settings: Settings, validation, patience: int, report
) -> None:
    """Go through the data ``epochs`` times.

    Without ``validation`` rows the last point is the result. With them it is the best-scoring one, and training ends
    when ``patience`` epochs in a row have not brought a better one.
    """
    state = stepping.begin(problem.start, settings)
    best, waited = -np.inf, 0
    for number in range(epochs):
        began, parts = time.perf_counter(), []
        for batches, resident in source.epoch(number):
            state, rows = _run(state, problem.fixed, batches, resident, settings)
            parts.append(rows)
        row = _summary(parts)
        outcome.evaluations += int(row.pop("steps"))
        speed = source.steps / (time.perf_counter() - began)
        outcome.rejected = int(state.rejected)
        if not np.isfinite(row["objective"]):
            outcome.message = "the objective is not finite at the start"
            if number:
                outcome.message = f"the objective is not finite anywhere in epoch {number + 1}"
            return
        score = float(problem.score(state.point, validation)) if validation is not None else None
        if score is not None:
            row["validation"] = score
        row["steps_per_second"] = speed
        outcome.trace.add({**row, "rejected": outcome.rejected})
        waited = 0 if score is None or score > best else waited + 1
        if waited == 0:
            best = score if score is not None else best
            outcome.replace(problem.to_vector(state.point), row["objective"])
        seen = "" if score is None else f", validation {score:.4f}"
        report(number + 1, row, f"ELBO {row['objective']:.6g}{seen}, {speed:.3g} steps/s")
        if score is not None and waited >= patience:
            outcome.converged = True
            outcome.message = (
                f"validation has not improved for {patience} epochs; stopped after {number + 1}, "
                f"the best was epoch {number + 1 - waited}"
            )
            return
    objectives = outcome.trace.arrays()["objective"]
    last = objectives[-max(epochs // 10, 2) :]
    kept = "" if validation is None else f"; kept those of epoch {epochs - waited}, the best on validation"
    outcome.message = (
        f"took all {epochs} epochs of {source.steps} steps; the last {len(last)} gained {last[-1] - last[0]:.3g} nats"
        + kept
    )


@eqx.filter_jit
def _run(state, fixed, batches, resident: Batch | None, settings: Settings):
    """One compiled segment: all steps of an epoch where the rows are resident."""

    def body(state, here):
        if resident is not None:
            index, weight, key = here
            rows = jax.tree.map(lambda a: a[index], resident._replace(key=None))
            here = rows._replace(weight=weight, key=key)
        step = stepping.step(state, fixed, here, settings)
        return step.state, {"objective": step.before, **step.followed, "finite": step.finite}

    return jax.lax.scan(body, state, batches)


def _summary(parts: list[dict[str, Any]]) -> dict[str, float]:
    """Means over an epoch's finite steps, and how many steps there were."""
    columns = {name: np.concatenate([np.asarray(part[name]) for part in parts]) for name in parts[0]}
    finite = columns.pop("finite").astype(bool)
    means = {
        name: float(np.mean(values[finite], dtype=np.float64)) if finite.any() else float("nan")
        for name, values in columns.items()
    }
    return {**means, "steps": len(finite)}


def score_rows(model, validation) -> Batch:
    """Held-out rows on the device."""
    return jax.tree.map(jnp.asarray, model.as_batch(validation))
