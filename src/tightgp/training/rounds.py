"""Rounds: the rows are grouped anew by what was learnt, and training goes on from there."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tightgp.training.checkpoint import Checkpoint, Section
from tightgp.training.outcome import Outcome
from tightgp.training.problem import Problem


class Rounds:
    """Training on one partition of the rows after the other, from the first one's best point on.

    Each partition is an objective of its own, so the last one's result counts, be it lower than those before.
    """

    def __init__(self, model, first: Outcome):
        self.model, self.kept, self.partitions = model, [first], [0]
        self.evaluations = self.rejected = 0
        self.message, self.converged = first.message, first.converged

    @property
    def objective(self) -> float:
        """What the model reaches on its own partition."""
        return self.kept[-1].objective

    def end(self, message: str) -> None:
        """Training ends here, before its time."""
        self.message, self.converged = message, False

    def go_on(self, data, times: int, run: Callable[..., Outcome], checkpoint: Checkpoint | None) -> None:
        """Make the partition anew up to ``times`` times; each time ``run(problem, section, partition, steps before)``.

        Where the partition stays the same, training goes on, unless it had come to rest. Where a round comes to no
        finite objective, the one before stays the result.
        """
        made = 0
        for number in range(1, times + 1):
            try:
                new = self.model.refreshed(data)
                if new is None and self.converged:
                    break
                partition = made if new is None else made + 1
                model, rows = self.model.prepare(data) if new is None else new
                problem = Problem(model, rows)
                section = Section(None) if checkpoint is None else checkpoint.round(number, model)
            except KeyboardInterrupt:
                return self.end("interrupted")
            outcome = run(problem, section, partition, sum(one.steps for one in self.kept))
            self.evaluations += outcome.evaluations
            self.rejected += outcome.rejected
            if np.isfinite(outcome.objective):
                self.model, made = problem.model(outcome.best), partition
                self.kept.append(outcome)
                self.partitions.append(partition)
                self.message, self.converged = outcome.message, outcome.converged
            if outcome.ended:
                return self.end(outcome.message)
            if outcome is not self.kept[-1]:
                return self.end(f"{self.message}; the objective was not finite in partition {partition}, {made} stays")
        else:
            if made:
                self.message += f"; partition made anew {_times(made)}"
                return
        after = f"being made anew {_times(made)}" if made else "training"
        self.message += f"; partition unchanged after {after}"

    def trace(self) -> dict[str, np.ndarray]:
        """The rows of all rounds, and which partition they belong to."""
        traces = [one.trace.arrays() for one in self.kept]
        columns: dict[str, Any] = {name: np.concatenate([trace[name] for trace in traces]) for name in traces[0]}
        return {**columns, "partition": np.repeat(self.partitions, [len(one.trace) for one in self.kept])}


def _times(count: int) -> str:
    return f"{count} time" if count == 1 else f"{count} times"
