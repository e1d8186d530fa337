"""What training returns."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np


class StopReason(Enum):
    """Why training ended."""

    TOLERANCE = "tolerance"  #: the objective gained less than the tolerance
    FLAT = "flat"  #: the gradient is zero
    PATIENCE = "patience"  #: the validation score has not improved for some epochs
    STEP_LIMIT = "step limit"  #: all steps or epochs were taken
    LINE_SEARCH = "line search"  #: the line search found no better point
    CALLBACK = "callback"  #: the callback asked for it
    TIME_LIMIT = "time limit"  #: the time that it may take is over
    INTERRUPTED = "interrupted"  #: Ctrl-C
    NOT_FINITE = "not finite"  #: the objective is not finite

    @property
    def converged(self) -> bool:
        """Whether training converged."""
        return self in (StopReason.TOLERANCE, StopReason.FLAT, StopReason.PATIENCE)

    @property
    def by_user(self) -> bool:
        """Whether the user ended it: no further start or round is tried."""
        return self in (StopReason.CALLBACK, StopReason.TIME_LIMIT, StopReason.INTERRUPTED)


@dataclass(frozen=True, repr=False)
class FitResult:
    """A trained model, and how its training went.

    Attributes:
        model: the trained model.
        trace: one number a step (or epoch) for each name: ``objective`` (total nats, maximised), ``gradient_norm``,
            and what the model reports of itself, such as ``noise_variance`` and ``jitter``. With ``refresh``,
            ``partition`` numbers the partitions; only objectives of the same one compare.
        reason: why training ended.
        message: the same as a sentence.
        objective: the best objective, in total nats.
        seconds: wall-clock time.
        evaluations: how often the objective was evaluated.
        rejected: evaluations that were not finite.
        steps: steps of the best start, on all partitions.
        restarts: the best objective of every start, in order.
    """

    model: Any
    trace: dict[str, np.ndarray]
    reason: StopReason
    message: str
    objective: float
    seconds: float
    evaluations: int
    rejected: int = 0
    steps: int = 0
    restarts: list[float] = field(default_factory=list)

    @property
    def converged(self) -> bool:
        """Whether training converged."""
        return self.reason.converged

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended training."""
        return self.reason is StopReason.INTERRUPTED

    def __repr__(self) -> str:
        status = "converged" if self.converged else "not converged"
        lines = [
            f"FitResult: objective {self.objective:.6g} nats, {status} ({self.message})",
            f"  {self.evaluations} evaluations in {self.seconds:.3g} s, {self.rejected} non-finite step(s) rejected",
        ]
        if len(self.restarts) > 1:
            lines.append("  starts reached " + ", ".join(f"{v:.6g}" for v in self.restarts))
        return "\n".join([*lines, repr(self.model)])


class Trace:
    """Collects one row of scalars a step."""

    def __init__(self, columns: dict[str, Any] | None = None):
        self._columns = {name: np.asarray(values, float).tolist() for name, values in (columns or {}).items()}

    def add(self, row: dict[str, Any]) -> None:
        """One step's scalars."""
        self.extend({name: [value] for name, value in row.items()})

    def extend(self, columns: dict[str, Any]) -> None:
        """The scalars of several steps."""
        for name, values in columns.items():
            self._columns.setdefault(name, []).extend(np.asarray(values, float).tolist())

    def last(self, name: str, count: int) -> list[float]:
        """The newest ``count`` numbers of a column, or fewer where there are no more."""
        return self._columns.get(name, [])[-count:]

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), []))

    def arrays(self) -> dict[str, np.ndarray]:
        """The columns as arrays."""
        return {name: np.array(values) for name, values in self._columns.items()}
