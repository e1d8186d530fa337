"""Where an optimiser stands. It is filled as the optimiser goes, so that an interruption loses nothing."""

from typing import Any

import numpy as np

from tightgp.training.result import TraceBuilder


class Stop(Exception):
    """Raised where a callback wishes to end training."""


class Outcome:
    """The best point so far (the trained leaves of the model), the trace, and how it ended."""

    def __init__(self, start):
        self.best: Any = start
        self.objective = -np.inf
        self.trace = TraceBuilder()
        self.converged, self.message = False, ""
        self.evaluations = self.rejected = 0
        self.steps = 0  # as a callback counts them
        self.ended = False  # by the user: no further start is tried

    def offer(self, point, objective: float) -> None:
        """Keep ``point`` if it is the best yet."""
        if objective > self.objective:
            self.best, self.objective = point, objective

    def replace(self, point, objective: float) -> None:
        """Keep ``point``, whatever was before: objectives of different minibatches do not compare."""
        self.best, self.objective = point, objective

    def end(self, message: str) -> None:
        """Training ends here by the user's wish."""
        self.converged, self.message, self.ended = False, message, True
