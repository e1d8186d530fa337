"""Minibatch training: each epoch compiled, reshuffled, and scored on held-out rows where there are some."""

import itertools
import time
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tightgp.data import Batch
from tightgp.training import checkpoint, stepping
from tightgp.training.checkpoint import Section
from tightgp.training.outcome import Outcome
from tightgp.training.problem import Problem
from tightgp.training.stepping import Settings


def maximise(
    problem: Problem,
    outcome: Outcome,
    source,
    epochs: int,
    settings: Settings,
    validation,
    patience: int,
    report,
    section: Section,
) -> None:
    """Go through the data ``epochs`` times.

    Without ``validation`` rows the last point is the result. With them it is the best-scoring one, and training ends
    when ``patience`` epochs in a row have not brought a better one.
    """
    state = stepping.begin(problem.start, settings)
    best, waited = -np.inf, 0
    number, done = 0, 0
    totals: dict[str, Any] = {}
    if section.stored is not None:
        s = section.stored
        state, totals = checkpoint.like(state, s["state"]), s["totals"]
        number, done, best, waited = s["epoch"], s["segments"], s["best"], s["waited"]
        outcome.steps, outcome.evaluations, outcome.rejected = number, s["evaluations"], int(state.rejected)
        outcome.trace.restore(s["trace"])
        if s["objective"] > -np.inf:
            outcome.replace(checkpoint.like(problem.start, s["point"]), s["objective"])
        source.carry(s["carried"])

    def keep(carried) -> None:
        section.offer(
            {
                "epoch": number,
                "segments": done,
                "state": checkpoint.leaves(state),
                "totals": totals,
                "best": best,
                "waited": waited,
                "carried": carried,
                "point": checkpoint.leaves(outcome.best),
                "objective": outcome.objective,
                "evaluations": outcome.evaluations,
                "trace": outcome.trace.arrays(),
            }
        )

    while number < epochs and waited < patience:
        began, taken, carried = time.perf_counter(), 0, source.carried()
        try:
            for batches, resident in itertools.islice(source.epoch(number), done, None):
                state, sums = _run(state, problem.fixed, batches, resident, settings)
                totals = jax.tree.map(jnp.add, totals, sums) if totals else sums
                done, taken = done + 1, taken + len(jax.tree.leaves(batches)[0])
                report.within(number + taken / source.steps)
                keep(carried)
        except KeyboardInterrupt:
            if totals and validation is None:  # an epoch may be days: what it brought is kept
                outcome.evaluations += int(totals["steps"])
                outcome.replace(state.good_point, _means(totals)["objective"])
            raise
        row = _means(totals)
        outcome.evaluations += int(totals["steps"])
        outcome.rejected = int(state.rejected)
        speed = taken / (time.perf_counter() - began)
        number, done, totals = number + 1, 0, {}
        outcome.steps = number
        if not np.isfinite(row["objective"]):
            outcome.message = f"the objective was not finite at any step of epoch {number}"
            return
        score = None
        if validation is not None:
            score = row["validation"] = float(problem.score(state.point, validation))
        outcome.trace.add({**row, "steps_per_second": speed, "rejected": outcome.rejected})
        waited = 0 if score is None or score > best else waited + 1
        if waited == 0:
            best = score if score is not None else best
            outcome.replace(_firm(state), row["objective"])
        keep(source.carried())
        seen = "" if score is None else f", validation {score:.4f}"
        report(number, row, f"ELBO {row['objective']:.6g}{seen}, {speed:.3g} steps/s")
    if waited >= patience:
        outcome.converged = True
        outcome.message = (
            f"validation has not improved for {patience} epochs; stopped after {number}, "
            f"the best was epoch {number - waited}"
        )
        return
    last = outcome.trace.arrays()["objective"][-max(epochs // 10, 2) :]
    outcome.message = f"took all {number} epochs; the last {len(last)} gained {last[-1] - last[0]:.3g} nats"
    if outcome.rejected:
        outcome.message += f"; {outcome.rejected} of {outcome.evaluations} steps were not finite"
    if validation is not None:
        outcome.message += f"; kept epoch {number - waited}, the best on validation"


def _firm(state):
    """Where training stands, or stood last, if its last step led to what is no number."""
    finite = all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(state.point))
    return state.point if finite else state.good_point


@eqx.filter_jit
def _run(state, fixed, batches, resident: Batch | None, settings: Settings):
    """One compiled segment, all steps of an epoch where the rows are resident; and sums over its finite steps."""

    def body(state, here):
        if resident is not None:
            index, weight, key = here
            rows = jax.tree.map(lambda a: a[index], resident._replace(key=None))
            here = rows._replace(weight=weight, key=key)
        step = stepping.step(state, fixed, here, settings)
        return step.state, ({"objective": step.before, **step.followed}, step.finite)

    state, (columns, finite) = jax.lax.scan(body, state, batches)
    sums = {name: jnp.sum(jnp.where(finite, values, 0.0)) for name, values in columns.items()}
    return state, {**sums, "steps": finite.size, "finite": jnp.sum(finite)}


def _means(totals: dict[str, Any]) -> dict[str, float]:
    """Means over an epoch's finite steps."""
    finite = int(totals["finite"])
    names = [name for name in totals if name not in ("steps", "finite")]
    return {name: float(totals[name]) / finite if finite else float("nan") for name in names}
