"""What training returns."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True, repr=False)
class FitResult:
    """A trained model and how it came about.

    ``trace`` maps names to one number a step: ``objective`` (total nats, to be maximised), ``gradient_norm``,
    and what the model reports of itself, such as ``noise_variance`` and ``jitter``; where ``refresh`` made the
    partition anew, ``partition`` numbers them, and only objectives of the same one compare. ``restarts`` holds the
    best objective of every start, in order. ``steps`` counts those of the best start, on all partitions.
    """

    model: Any
    trace: dict[str, np.ndarray]
    converged: bool
    message: str
    objective: float
    seconds: float
    evaluations: int
    rejected: int = 0
    steps: int = 0
    restarts: list[float] = field(default_factory=list)

    def __repr__(self) -> str:
        status = "converged" if self.converged else "not converged"
        lines = [
            f"FitResult: objective {self.objective:.6g} nats, {status} ({self.message})",
            f"  {self.evaluations} evaluations in {self.seconds:.3g} s, {self.rejected} non-finite step(s) rejected",
        ]
        if len(self.restarts) > 1:
            lines.append("  starts reached " + ", ".join(f"{v:.6g}" for v in self.restarts))
        return "\n".join([*lines, repr(self.model)])


class TraceBuilder:
    """Collects one row of scalars a step."""

    def __init__(self):
        self._columns: dict[str, list] = {}

    def add(self, row: dict[str, Any]) -> None:
        """One step's scalars."""
        for name, value in row.items():
            self._columns.setdefault(name, []).append(float(value))

    def extend(self, columns: dict[str, Any]) -> None:
        """Several steps' scalars."""
        for name, values in columns.items():
            self._columns.setdefault(name, []).extend(np.asarray(values, float).tolist())

    def restore(self, columns: dict[str, Any]) -> None:
        """Begin with what a checkpoint holds."""
        self._columns = {name: np.asarray(values, float).tolist() for name, values in columns.items()}

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), []))

    def arrays(self) -> dict[str, np.ndarray]:
        """The columns as arrays."""
        return {name: np.array(values) for name, values in self._columns.items()}
