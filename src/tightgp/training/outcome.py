"""Where an optimiser stands. It is filled as the optimiser goes, so that an interruption loses nothing."""

from typing import Any

import numpy as np

from tightgp.training.result import TraceBuilder


class Outcome:
    """The best point so far, the trace, and how it ended."""

    def __init__(self):
        self.best: Any = None
        self.objective = -np.inf
        self.trace = TraceBuilder()
        self.converged, self.message = False, ""
        self.evaluations = self.rejected = 0

    def offer(self, point, objective: float) -> None:
        """Keep ``point`` if it is the best yet."""
        if objective > self.objective:
            self.best, self.objective = point, objective
