"""Rounds: the rows are grouped again by the lengthscales just learnt, and training goes on."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tightgp.training.checkpoint import Checkpoint
from tightgp.training.objective import Objective
from tightgp.training.result import StopReason
from tightgp.training.run import Progress


class Rounds:
    """Training on one partition of the rows after the other, from the best start on.

    Each partition has its own objective, so the last one's result counts, even if it is lower than an earlier one.

    Attributes:
        model: the best model on the last partition.
        runs: all runs: those of the starts, then one for each round.
        kept: the runs that led to ``model``.
        partitions: the number of the partition of each run in ``kept``.
        reason: why training ended.
        message: the same as a sentence.
    """

    def __init__(self, model, best: Progress, starts: list[Progress]):
        self.model, self.kept, self.partitions = model, [best], [0]
        self.runs = list(starts)
        ended = starts[-1] if starts[-1].reason.by_user else best
        self.reason, self.message = ended.reason, ended.message

    def train(self, data, times: int, train: Callable, checkpoint: Checkpoint) -> None:
        """Group the rows again up to ``times`` times, and call ``train``, which is that of `fit`.

        Where the partition stays the same, training goes on unless it has converged. Where a round has no finite
        objective, the result of the one before stays.
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
                section = checkpoint.name_round(number, model)
            except KeyboardInterrupt:
                self.reason, self.message = StopReason.INTERRUPTED, "interrupted"
                return
            steps_before = sum(run.steps for run in self.kept)
            progress, best = train(objective, checkpoint, section, partition, steps_before)
            self.runs.append(progress)
            finite = np.isfinite(progress.objective)
            if finite:
                self.model, made = objective.model(best), partition
                self.kept.append(progress)
                self.partitions.append(partition)
            if finite or progress.reason.by_user:
                self.reason, self.message = progress.reason, progress.message
            else:
                self.reason = StopReason.NOT_FINITE
                self.message += f"; the objective was not finite in partition {partition}, {made} stays"
            if progress.reason.by_user or not finite:
                return
        else:
            if made:
                self.message += f"; partition recomputed {_times(made)}"
                return
        after = f"being recomputed {_times(made)}" if made else "training"
        self.message += f"; partition unchanged after {after}"

    def trace(self) -> dict[str, np.ndarray]:
        """The rows of all rounds, and which partition they belong to."""
        traces = [run.trace.arrays() for run in self.kept]
        columns: dict[str, Any] = {name: np.concatenate([trace[name] for trace in traces]) for name in traces[0]}
        return {**columns, "partition": np.repeat(self.partitions, [len(run.trace) for run in self.kept])}


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
