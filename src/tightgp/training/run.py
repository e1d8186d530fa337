"""One run of training: a job that advances bit by bit, its progress, and what ends it."""

import abc
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tightgp.progress import ProgressBar
from tightgp.training.checkpoint import Checkpoint
from tightgp.training.objective import Objective
from tightgp.training.result import StopReason, Trace

#: Why a run ended, and the same as a sentence.
Outcome = tuple[StopReason, str]


class Progress:
    """Where a run stands. It is updated as the run goes, so that an interruption loses nothing.

    Attributes:
        state: the state of the optimiser: a tree of arrays.
        best: the best point so far, in the job's own form; `Job.point` turns it into a point of the model.
        objective: the objective there; for minibatches, the mean over the epoch.
        steps: steps (or epochs) taken, as a callback counts them.
        numbers: other numbers that the job keeps, by name.
        reason: why the run ended; set at its end.
        message: the same as a sentence.
    """

    reason: StopReason
    message: str

    def __init__(self, start: Any):
        self.best: Any = start
        self.objective = -np.inf
        self.state: Any = None
        self.trace = Trace()
        self.steps = self.evaluations = self.rejected = 0
        self.numbers: dict[str, Any] = {}

    def last_gain(self, length: int) -> tuple[int, float]:
        """How many steps the last tenth of ``length`` has, and what the objective gained over them."""
        last = self.trace.arrays()["objective"][-max(length // 10, 2) :]
        return len(last), float(last[-1] - last[0])

    def snapshot(self) -> Callable[[], dict[str, Any]]:
        """A function that gives what a checkpoint keeps of this moment; it is called only when it is time to write."""
        state, best, objective, trace = self.state, self.best, self.objective, self.trace
        rows, counts, numbers = len(trace), [self.steps, self.evaluations, self.rejected], dict(self.numbers)

        def stored() -> dict[str, Any]:
            return {
                "state": jax.tree.leaves(state),
                "best": jax.tree.leaves(best),
                "objective": objective,
                "trace": {name: column[:rows] for name, column in trace.arrays().items()},
                "counts": counts,
                "numbers": numbers,
            }

        return stored

    def restore(self, stored: dict[str, Any]) -> None:
        """Go on from a checkpoint; ``state`` and ``best`` already have the structure of the checkpoint's."""
        self.state, self.best = _like(self.state, stored.get("state")), _like(self.best, stored.get("best"))
        self.objective, self.trace = stored["objective"], Trace(stored["trace"])
        self.steps, self.evaluations, self.rejected = map(int, stored["counts"])
        self.numbers = dict(stored["numbers"])


def _like(tree, stored: list[Any] | None) -> Any:
    """A tree with the structure of ``tree`` and the stored arrays."""
    own, structure = jax.tree.flatten(tree)
    if stored is None or [np.ndim(a) for a in own] != [np.ndim(b) for b in stored]:
        raise ValueError("the checkpoint is of another version of tightgp; remove it to start anew")
    return jax.tree.unflatten(structure, [jnp.asarray(b) for b in stored])


class Job(abc.ABC):
    """A way to train: full-batch first-order steps, L-BFGS, or minibatches."""

    #: What the progress bar counts, and how many of them there are at most.
    unit: str = "fit"
    length: int

    @abc.abstractmethod
    def begin(self, objective: Objective, progress: Progress) -> None:
        """Set ``progress.state`` for the start."""

    @abc.abstractmethod
    def outcome(self, progress: Progress) -> Outcome | None:
        """Why the run is over, and the same as a sentence; None while it goes on."""

    @abc.abstractmethod
    def advance(self, objective: Objective, progress: Progress) -> dict[str, float] | None:
        """Go on for a bit: the scalars of the step that this completed, or None where it completed none."""

    def point(self, objective: Objective, best: Any) -> Any:
        """``progress.best`` as a point that `Objective.model` takes."""
        return best

    def describe(self, progress: Progress, row: dict[str, float]) -> str:
        """What the progress bar says after a step."""
        return f"objective {row['objective']:.6g}"

    def share(self, progress: Progress) -> float:
        """Steps done, with the fraction of the one under way."""
        return progress.steps

    def interrupted(self, progress: Progress) -> None:  # noqa: B027
        """Keep what an interrupted step has reached."""

    def close(self) -> None:  # noqa: B027
        """Release what the job holds open."""


def run(
    job: Job,
    objective: Objective,
    progress: Progress,
    bar: ProgressBar,
    callback: Callable,
    checkpoint: Checkpoint,
    section: str,
    deadline: float = np.inf,
) -> None:
    """Run a job until it ends, ``callback(step, row)`` returns True, or `time.perf_counter` passes ``deadline``.

    It starts from its section of the checkpoint if stored, and goes on at least until its first evaluation.
    """
    job.begin(objective, progress)
    if section in checkpoint.sections:
        progress.restore(checkpoint.sections[section])
        progress.state = objective.placed(progress.state)
    try:
        while (outcome := job.outcome(progress)) is None:
            row = job.advance(objective, progress)
            checkpoint.offer(section, progress.snapshot())
            late = time.perf_counter() > deadline
            if row is None:
                bar.update(job.share(progress))
            else:
                bar.update(progress.steps, job.describe(progress, row))
                if callback(progress.steps, row):
                    outcome = StopReason.CALLBACK, "stopped by the callback"
                    break
            if late:
                outcome = StopReason.TIME_LIMIT, f"stopped at the time limit, after {progress.steps} steps"
                break
    except KeyboardInterrupt:
        job.interrupted(progress)
        outcome = StopReason.INTERRUPTED, "interrupted"
    finally:
        job.close()
        checkpoint.flush()
    progress.reason, progress.message = outcome
