"""Minibatch training: each epoch is reshuffled, compiled, and scored on held-out rows if there are any."""

import itertools
import time
from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from tightgp.data.placement import OnDevice, PlacedRows
from tightgp.training.first_order import FirstOrder, State
from tightgp.training.minibatches import Segment, Source, batch_of
from tightgp.training.objective import Objective, Parts, Scalars
from tightgp.training.result import StopReason
from tightgp.training.run import Job, Outcome, Progress


class MinibatchJob(Job):
    """``epochs`` passes through a source of minibatches.

    Without ``validation`` rows the last point is the result. With them it is the best-scoring one, and training ends
    after ``patience`` epochs in a row without a better one.
    """

    unit = "epoch"

    def __init__(
        self, optimiser: FirstOrder, source: Source, epochs: int, validation: OnDevice | None = None, patience: int = 10
    ):
        self._optimiser, self._source, self.length = optimiser, source, epochs
        self._validation, self._patience = validation, patience
        self._segments: Iterator[Segment] | None = None
        self._began, self._taken = 0.0, 0

    def begin(self, objective: Objective, progress: Progress) -> None:
        progress.state = objective.placed(self._optimiser.init(objective.start))
        progress.numbers = {
            "segments": 0,  # segments done in this epoch
            "sums": {},  # sums of the scalars over its finite steps
            "best score": -np.inf,
            "waited": 0,  # epochs since the best score
            "broken": False,  # no step of the last epoch was finite
            "left over": self._source.left_over(),
        }
        source = self._source
        self._program = objective.program(_segment, self._optimiser, source.resident, source.mesh)

    def outcome(self, progress: Progress) -> Outcome | None:
        epochs, best = progress.steps, progress.steps - progress.numbers["waited"]
        if progress.numbers["broken"]:
            return StopReason.NOT_FINITE, f"the objective was not finite at any step of epoch {epochs}"
        if epochs - best >= self._patience:
            message = f"validation has not improved for {self._patience} epochs; stopped after {epochs}, "
            return StopReason.PATIENCE, message + f"the best was epoch {best}"
        if epochs < self.length:
            return None
        last, gain = progress.last_gain(self.length)
        message = f"took all {epochs} epochs; the last {last} gained {gain:.3g} nats"
        if progress.rejected:
            message += f"; {progress.rejected} of {progress.evaluations} steps were not finite"
        if self._validation is not None:
            message += f"; kept epoch {best}, the best on validation"
        return StopReason.STEP_LIMIT, message

    def advance(self, objective: Objective, progress: Progress) -> dict[str, float] | None:
        numbers = progress.numbers
        if self._segments is None:
            self._source.begin_with(numbers["left over"])
            self._segments = itertools.islice(self._source.epoch(progress.steps), numbers["segments"], None)
            self._began, self._taken = time.perf_counter(), 0
        segment = next(self._segments, None)
        if segment is None:
            return self._end_epoch(objective, progress)
        progress.state, sums = objective.advance(lambda state: self._program(state, segment), progress.state)
        numbers["sums"] = {name: value + numbers["sums"].get(name, 0.0) for name, value in sums.items()}
        numbers["segments"] += 1
        self._taken += len(segment.keys)
        return None

    def _end_epoch(self, objective: Objective, progress: Progress) -> dict[str, float] | None:
        numbers, state = progress.numbers, progress.state
        row = _means(numbers["sums"])
        progress.evaluations += int(numbers["sums"]["steps"])
        progress.rejected = int(state.rejected)
        speed = self._taken / (time.perf_counter() - self._began)
        self._segments = None
        progress.steps += 1
        numbers |= {"segments": 0, "sums": {}, "left over": self._source.left_over()}
        if not np.isfinite(row["objective"]):
            numbers["broken"] = True
            return None
        if self._validation is not None:
            row["validation"] = objective.score(state.point, self._validation)
        better = self._validation is None or row["validation"] > numbers["best score"]
        numbers["waited"] = 0 if better else numbers["waited"] + 1
        if better:
            numbers["best score"] = row.get("validation", -np.inf)
            progress.best, progress.objective = _finite_point(state), row["objective"]
        row["steps_per_second"] = speed
        progress.trace.add({**row, "rejected": progress.rejected})
        return row

    def describe(self, progress: Progress, row: dict[str, float]) -> str:
        score = f", validation {row['validation']:.4f}" if "validation" in row else ""
        return f"ELBO {row['objective']:.6g}{score}, {row['steps_per_second']:.3g} steps/s"

    def share(self, progress: Progress) -> float:
        return progress.steps + self._taken / self._source.steps

    def interrupted(self, progress: Progress) -> None:
        sums = progress.numbers["sums"]
        if sums and self._validation is None:  # an epoch may take days: what it brought is kept
            progress.evaluations += int(sums["steps"])
            progress.best, progress.objective = progress.state.good_point, _means(sums)["objective"]

    def close(self) -> None:
        self._segments = None


def _segment(
    parts: Parts, optimiser: FirstOrder, resident: PlacedRows | None, mesh: Mesh | None, state: State, segment: Segment
) -> tuple[State, Scalars]:
    """Take all steps of a segment. Returns sums of their scalars over the finite steps too."""

    def body(state, one: Segment):
        state, step = optimiser.step(state, parts.fixed, batch_of(one, resident, mesh), one.keys)
        return state, ({"objective": step.before, **step.followed}, step.finite)

    state, (columns, finite) = jax.lax.scan(body, state, segment)
    sums = {name: jnp.sum(jnp.where(finite, values, 0.0)) for name, values in columns.items()}
    return state, Scalars.of({**sums, "steps": finite.size, "finite": jnp.sum(finite)})


def _finite_point(state: State):
    """The latest point, or the one before if the last step led to numbers that are not finite."""
    finite = all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in jax.tree.leaves(state.point))
    return state.point if finite else state.good_point


def _means(sums: dict[str, Any]) -> dict[str, float]:
    """Means over an epoch's finite steps."""
    finite = sums["finite"]
    names = [name for name in sums if name not in ("steps", "finite")]
    return {name: sums[name] / finite if finite else float("nan") for name in names}
