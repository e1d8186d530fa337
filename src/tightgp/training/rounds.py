"""Rounds: rows are grouped again by what was learnt, and training goes on from there."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tightgp.training.checkpoint import Checkpoint, Section
from tightgp.training.objective import Objective
from tightgp.training.result import StopReason
from tightgp.training.run import Progress


class Rounds:
    """Training on one partition of the rows after the other, from the first one's best point on.

    Each partition is an objective of its own, so the last one's result counts, even if it is lower than an earlier one.
    """

    def __init__(self, model, first: Progress):
        self.model, self.kept, self.partitions = model, [first], [0]
        self.evaluations = self.rejected = 0
        assert first.reason is not None
        self.reason, self.message = first.reason, first.message

    @property
    def objective(self) -> float:
        """What the model reaches on its own partition."""
        return self.kept[-1].objective

    def end(self, reason: StopReason, message: str) -> None:
        """Training ends here."""
        self.reason, self.message = reason, message

    def go_on(self, data, times: int, train: Callable, checkpoint: Checkpoint | None) -> None:
        """Group the rows again up to ``times`` times, and call ``train(objective, section, partition, steps before)``.

        Where the partition stays the same, training goes on, unless it had come to rest. Where a round comes to no
        finite objective, the one before stays the result.
        """
        made = 0
        for number in range(1, times + 1):
            try:
                new = self.model.regrouped(data)
                if new is None and self.reason.converged:
                    break
                partition = made if new is None else made + 1
                model, rows = self.model.prepare(data) if new is None else new
                objective = Objective(model, rows)
                section = Section(None) if checkpoint is None else checkpoint.round(number, model)
            except KeyboardInterrupt:
                return self.end(StopReason.INTERRUPTED, "interrupted")
            progress, best = train(objective, section, partition, sum(one.steps for one in self.kept))
            self.evaluations += progress.evaluations
            self.rejected += progress.rejected
            if np.isfinite(progress.objective):
                self.model, made = objective.model(best), partition
                self.kept.append(progress)
                self.partitions.append(partition)
                self.reason, self.message = progress.reason, progress.message
            if progress.ended_by_user:
                return self.end(progress.reason, progress.message)
            if progress is not self.kept[-1]:
                message = f"{self.message}; the objective was not finite in partition {partition}, {made} stays"
                return self.end(StopReason.NOT_FINITE, message)
        else:
            if made:
                self.message += f"; partition recomputed {_times(made)}"
                return
        after = f"being recomputed {_times(made)}" if made else "training"
        self.message += f"; partition unchanged after {after}"

    def trace(self) -> dict[str, np.ndarray]:
        """The rows of all rounds, and which partition they belong to."""
        traces = [one.trace.arrays() for one in self.kept]
        columns: dict[str, Any] = {name: np.concatenate([trace[name] for trace in traces]) for name in traces[0]}
        return {**columns, "partition": np.repeat(self.partitions, [len(one.trace) for one in self.kept])}


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
