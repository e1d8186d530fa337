"""One run of training: a job that advances bit by bit, where it stands, and what stops it."""

import abc
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tightgp.training.checkpoint import Section
from tightgp.training.objective import Objective
from tightgp.training.result import StopReason, Trace


class Stop(Exception):
    """Raised where a callback asks to end training."""


class Progress:
    """Where a run stands. It is filled as the run goes, so that an interruption loses nothing.

    Attributes:
        state: what the optimiser needs to go on: a tree of arrays.
        best: the best point so far; `Job.point` makes a point of the model of it.
        objective: the objective there; for minibatches, the mean over the epoch.
        steps: steps (or epochs) taken, as a callback counts them.
        numbers: what else the job remembers, as plain numbers.
        reason: why the run ended; None while it goes on.
    """

    def __init__(self, start: Any):
        self.best: Any = start
        self.objective = -np.inf
        self.state: Any = None
        self.trace = Trace()
        self.steps = self.evaluations = self.rejected = 0
        self.numbers: dict[str, Any] = {}
        self.reason: StopReason | None = None
        self.message = ""

    def end(self, reason: StopReason, message: str) -> None:
        """The run ends here."""
        self.reason, self.message = reason, message

    @property
    def ended_by_user(self) -> bool:
        """Whether no further start or round is to be tried."""
        return self.reason is not None and self.reason.by_user

    def snapshot(self) -> Callable[[], dict[str, Any]]:
        """What a checkpoint keeps of this moment, as a function: it is asked for only when it is time to write."""
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
        """Stand where a checkpoint left off; ``state`` and ``best`` have the structure of the checkpoint's."""
        if "state" not in stored:
            raise ValueError("the checkpoint is of another version of tightgp; remove it to start anew")
        self.state, self.best = _like(self.state, stored["state"]), _like(self.best, stored["best"])
        self.objective, self.trace = stored["objective"], Trace(stored["trace"])
        self.steps, self.evaluations, self.rejected = map(int, stored["counts"])
        self.numbers = dict(stored["numbers"])


def _like(tree, stored: list[Any]) -> Any:
    """A tree with the structure of ``tree`` and the stored arrays."""
    own, structure = jax.tree.flatten(tree)
    if [np.ndim(a) for a in own] != [np.ndim(b) for b in stored]:
        raise ValueError("the checkpoint is of another version of tightgp; remove it to start anew")
    return jax.tree.unflatten(structure, [jnp.asarray(b) for b in stored])


class Job(abc.ABC):
    """A way to train: full-batch first-order steps, L-BFGS, or minibatches."""

    unit: str = "fit"

    @property
    @abc.abstractmethod
    def length(self) -> int:
        """Most steps, for the progress bar."""

    @abc.abstractmethod
    def begin(self, objective: Objective, progress: Progress) -> None:
        """Set ``progress.state`` to the start."""

    @abc.abstractmethod
    def ended(self, progress: Progress) -> bool:
        """Whether the run is over; it then says why, by `Progress.end`."""

    @abc.abstractmethod
    def advance(self, objective: Objective, progress: Progress) -> dict[str, float] | None:
        """Go on until something is worth reporting: the scalars of a step that was completed, or None."""

    def point(self, objective: Objective, best: Any) -> Any:
        """The point, as `Objective.model` takes it, of what the job keeps as ``progress.best``."""
        return best

    def describe(self, progress: Progress, row: dict[str, float]) -> str:
        """What the progress bar says after a step."""
        return f"objective {row['objective']:.6g}"

    def share(self, progress: Progress) -> float:
        """Steps done, with the part of the one under way."""
        return progress.steps

    def interrupted(self, progress: Progress) -> None:  # noqa: B027
        """Keep what an interrupted step has brought."""

    def close(self) -> None:  # noqa: B027
        """Let go of what the job holds open."""


def run(job: Job, objective: Objective, progress: Progress, report, section: Section) -> None:
    """Run a job from its start, or from where its checkpoint stands, until it ends."""
    job.begin(objective, progress)
    if section.stored is not None:
        progress.restore(section.stored)
        progress.state = objective.placed(progress.state)
    try:
        while not job.ended(progress):
            row = job.advance(objective, progress)
            section.offer(progress.snapshot())
            if row is None:
                report.within(job.share(progress))
            else:
                report(progress.steps, row, job.describe(progress, row))
    except KeyboardInterrupt:
        job.interrupted(progress)
        progress.end(StopReason.INTERRUPTED, "interrupted")
    except Stop:
        progress.end(StopReason.CALLBACK, "stopped by the callback")
    finally:
        job.close()
        section.flush()
