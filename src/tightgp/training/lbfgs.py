"""L-BFGS: directions by what earlier steps tell (`curvature`), their lengths by SciPy's search for the strong Wolfe
conditions."""

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import line_search

from tightgp.training.checkpoint import Section
from tightgp.training.curvature import Came, Look, Memory, Vector, at_once, held
from tightgp.training.outcome import Outcome
from tightgp.training.problem import Problem

#: Training has come to its end where no number of the gradient is larger than this.
_FLAT = 1e-6
#: What a step must gain of what the slope at its beginning promises, and how much of that slope may be left.
_GAINED, _LEFT = 1e-3, 0.9
#: How many times a search that found nothing is tried again: it begins with a unit, and a start may be much closer to
#: its end than that.
_SHORTER = 4


class _Trial(NamedTuple):
    """A point on the line that was tried. Here the objective is turned upside down: it is to fall."""

    x: Vector
    came: Came
    seen: Look
    value: float
    slope: float
    followed: dict[str, float]
    finite: bool = True


def maximise(problem: Problem, outcome: Outcome, steps: int, tolerance: float, report, section: Section) -> None:
    """Run L-BFGS for at most ``steps`` iterations, or until the relative gain falls under ``tolerance``."""
    walk = _Walk(problem, outcome)
    try:
        if section.stored is not None:
            walk.restore(section.stored)
        elif not walk.begin():
            outcome.message = "the objective is not finite at the start"
            return
        while not walk.ended(steps, tolerance):
            if not walk.step():
                outcome.message = f"line search failed after {outcome.steps} steps: nothing better on its way"
                return
            section.offer_later(walk.state)
            report(outcome.steps, walk.row, f"objective {walk.row['objective']:.6g}")
    finally:
        outcome.best = problem.from_vector(walk.best)


@at_once
def _ahead(x, far, direction):
    """A point along the direction."""
    return x + far * direction


class _Walk:
    """The way from the start: where it stands, the direction that it goes on in, and the best point it has seen."""

    def __init__(self, problem: Problem, outcome: Outcome):
        self._problem, self._outcome = problem, outcome
        self.best: Vector = problem.to_vector(problem.start)
        self.row: dict[str, float] = {}
        self._x = held(self.best)
        self._gradient = self._direction = held(np.zeros(len(self.best)))
        self._memory = Memory(len(self.best))
        self._value = self._gain = self._largest = np.inf
        self._slope = 0.0

    def begin(self) -> bool:
        """Look about at the start; False where the objective is not finite there."""
        start = self._try(0.0)
        if start.finite:
            self._gradient, self._value, self._largest = start.came.gradient, start.value, float(start.seen.numbers[-1])
            self._direction, self._slope = self._memory.descent(self._gradient)
            self._outcome.trace.add({"objective": -start.value, **start.followed, "rejected": 0})
        return start.finite

    def ended(self, steps: int, tolerance: float) -> bool:
        """Whether there is no further to go, and then why."""
        outcome = self._outcome
        if self._largest <= _FLAT:
            outcome.converged, outcome.message = True, f"gradient is zero after {outcome.steps} steps"
        elif self._gain <= tolerance:
            outcome.converged, outcome.message = True, f"gain fell under the tolerance after {outcome.steps} steps"
        elif outcome.steps >= steps:
            outcome.message = f"stopped at the limit of {steps} steps"
        else:
            return False
        return True

    def step(self) -> bool:
        """Go on along the direction; where that leads nowhere straight down, in shorter and shorter steps; False if
        none of them leads anywhere either."""
        found = self._search()
        for _ in range(_SHORTER):
            if found is not None:
                break
            if len(self._memory):
                self._memory.forget()
                self._direction, self._slope = self._memory.descent(self._gradient)
            else:
                self._direction, self._slope = 1e-3 * self._direction, 1e-3 * self._slope
            found = self._search()
        if found is None:
            return False
        outcome, before = self._outcome, self._value
        self._direction, self._slope = self._memory.onward(found.came, found.seen)
        self._x, self._gradient, self._value = found.x, found.came.gradient, found.value
        self._largest = float(found.seen.numbers[-1])
        self._gain = (before - found.value) / max(abs(before), abs(found.value), 1.0)
        self.row = {"objective": -found.value, **found.followed, "rejected": outcome.rejected}
        outcome.trace.add(self.row)
        outcome.steps += 1
        return True

    def _search(self) -> _Trial | None:
        """A point along the direction that satisfies the strong Wolfe conditions; or else the best that was tried."""
        tried: dict[float, _Trial] = {}
        if not self._slope < 0:
            return None

        def at(length) -> _Trial:
            far = float(length[0])
            if far not in tried:
                tried[far] = self._try(far)
            return tried[far]

        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "The line search algorithm")  # the answer tells that none was found
            length = line_search(
                lambda length: at(length).value,
                lambda length: np.array([at(length).slope]),
                np.zeros(1),
                np.ones(1),
                gfk=np.array([self._slope]),
                old_fval=self._value,
                c1=_GAINED,
                c2=_LEFT,
            )[0]
        if length is not None and at([length]).finite:
            return at([length])
        least = min(tried.values(), key=lambda trial: trial.value, default=None)
        return least if least is not None and least.value < self._value else None

    def _try(self, far: float) -> _Trial:
        """Evaluate so far along the direction. Where the objective is not finite, the search is told that it rises
        steeply, and turns back."""
        outcome, kept = self._outcome, []

        def look(uphill) -> Vector:
            came, told = self._memory.came(held(uphill), self._gradient, self._direction, far)
            kept.append(came)
            return told

        x = _ahead(self._x, far, self._direction)
        value, _, followed, finite, told = self._problem.at(x, look)
        outcome.evaluations += 1
        came, seen = kept[0], Look.of(told)
        if not finite:
            outcome.rejected += far > 0
            rise = 1e3 * (1 + abs(outcome.objective))
            steep = rise / max(far, 1e-300)
            return _Trial(x, came, seen, -outcome.objective + 0.5 * rise, steep, followed, False)
        if value > outcome.objective:
            self.best, outcome.objective = x, value
        slope = float(seen.numbers[2]) / far if far else 0.0  # along the direction, of which the step is so much
        return _Trial(x, came, seen, -value, slope, followed)

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        outcome = self._outcome
        vectors = {"x": self._x, "gradient": self._gradient, "direction": self._direction, "best": self.best}
        return {
            "vectors": {name: np.asarray(vector) for name, vector in vectors.items()},
            "memory": self._memory.state(),
            "numbers": np.array([self._value, self._gain, self._slope, self._largest, outcome.objective]),
            "counts": [outcome.steps, outcome.evaluations, outcome.rejected],
            "trace": outcome.trace.arrays(),
        }

    def restore(self, stored: dict[str, Any]) -> None:
        """Stand where a checkpoint left off."""
        if "vectors" not in stored or len(stored["numbers"]) != 5:
            raise ValueError("the checkpoint is of another version of tightgp; remove it to start anew")
        outcome, vectors = self._outcome, {name: held(np.array(v)) for name, v in stored["vectors"].items()}
        self._x, self._gradient, self._direction = vectors["x"], vectors["gradient"], vectors["direction"]
        self.best, self._memory = vectors["best"], Memory.restored(stored["memory"])
        numbers = np.asarray(stored["numbers"]).tolist()
        self._value, self._gain, self._slope, self._largest, outcome.objective = numbers
        outcome.steps, outcome.evaluations, outcome.rejected = map(int, stored["counts"])
        outcome.trace.restore(stored["trace"])
