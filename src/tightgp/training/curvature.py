"""What the last steps say of a function's curvature: the inverse Hessian of L-BFGS, as products of tall matrices.

Byrd, Nocedal & Schnabel (1994), theorem 2.2: the same matrix as by the recursion over the steps, in a few products,
which an accelerator does at once. Vectors stay where they are computed: with an accelerator on it, where what belongs
together is one program, and otherwise with NumPy, which has nothing to compile.
"""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.linalg import solve_triangular

from tightgp import distributed
from tightgp.backend import of_backend, on_cpu

#: Steps that are remembered, at most and at least: more take a training further in as many steps, but a function of
#: few variables, whose curvature changes on the way, had better forget. As many as fit into so many bytes: a CPU takes
#: its time to read them.
_MOST, _LEAST = 100, 20
_BYTES = {"cpu": 8 << 20, "gpu": 512 << 20}

Vector = np.ndarray | jax.Array


def held(vector) -> Vector:
    """A vector where the memory has its own."""
    return np.asarray(vector) if on_cpu() else distributed.at_home(jnp.asarray(vector))


def at_once(function: Callable) -> Callable:
    """A function of vectors, for an accelerator as one program."""
    program = jax.jit(function)

    @functools.wraps(function)
    def wrapped(*vectors):
        return function(*vectors) if on_cpu() else program(*vectors)

    return wrapped


def times(rows: Vector, vector: Vector) -> Any:
    """The product of each row, or of one vector, with a vector. As a sum an accelerator shares it among all of its
    cores; as a product of matrices one core may have it."""
    return rows @ vector if isinstance(rows, np.ndarray) else (rows * vector).sum(-1)


class Came(NamedTuple):
    """The step to a point, what it changed in the gradient, and the gradient there."""

    step: Vector
    change: Vector
    gradient: Vector


class Look(NamedTuple):
    """What L-BFGS asks of such a point: products of all steps that are remembered, and of their changes, with this
    step's change and with the gradient; and single numbers."""

    of_change: np.ndarray
    of_gradient: np.ndarray
    numbers: np.ndarray  # step·change, change², step·gradient, change·gradient, gradient², largest of gradient

    @classmethod
    def of(cls, told: np.ndarray) -> "Look":
        """From the row of numbers that they come as, which takes one transfer."""
        products = told[:-6].reshape(4, -1)
        return cls(products[:2], products[2:], told[-6:])


class Memory:
    """The last steps of a function of so many variables, and what each changed in its gradient.

    Slots are used in turn. ``_crossed`` has the products of steps (rows) with changes, ``_squared`` those of changes.
    """

    def __init__(self, variables: int, size: int | None = None):
        m = size or max(_LEAST, min(_MOST, variables, of_backend(_BYTES) // (16 * variables)))
        self._steps, self._changes = held(np.zeros((m, variables))), held(np.zeros((m, variables)))
        self._crossed, self._squared = np.zeros((m, m)), np.zeros((m, m))
        self._taken = 0

    def __len__(self) -> int:
        """How many steps are known."""
        return min(self._taken, len(self._steps))

    def came(self, uphill: Vector, before: Vector, direction: Vector, far: float) -> tuple[Came, Vector]:
        """A point that is so far along a direction, by the gradients there and where it began, of which the one is of
        what is to rise and the other of what is to fall; and what there is to know of it, for `Look.of`.

        Both are where vectors are: the second has to be waited for."""
        return _came(self._steps, self._changes, uphill, before, direction, far)

    def onward(self, came: Came, seen: Look) -> tuple[Vector, float]:
        """Take in the step that led to a point, unless the function does not curve upwards along it; where to go from
        there, and how steep that is."""
        slot, of_gradient = self._compare(seen), np.array(seen.of_gradient)
        if slot is not None:
            of_gradient[:, slot] = seen.numbers[2:4]
        taken, unused = self._taken + (slot is not None), len(self._steps)
        weights, slope = self._weighed(taken, of_gradient, float(seen.numbers[4]))
        self._steps, self._changes, direction = _onward(
            self._steps, self._changes, unused if slot is None else slot, *came, weights
        )
        self._taken = taken  # now that it is there: an interruption while programs are compiled writes a checkpoint
        return direction, slope

    def descent(self, gradient: Vector) -> tuple[Vector, float]:
        """Where to go from a point with this gradient: to the minimum that these steps let expect; where none is
        known, as far as one unit. And how steep it is."""
        seen = Look.of(np.asarray(_look(self._steps, self._changes, gradient, gradient, gradient)))
        weights, slope = self._weighed(self._taken, seen.of_gradient, float(seen.numbers[4]))
        return _down(self._steps, self._changes, gradient, weights), slope

    def _compare(self, seen: Look) -> int | None:
        """Note what a step has in common with the others, and give the slot that it belongs into."""
        curved, size = seen.numbers[:2]
        if not curved > np.finfo(np.float64).eps * size:
            return None
        slot = self._taken % len(self._steps)
        self._crossed[:, slot] = seen.of_change[0]
        self._squared[slot] = self._squared[:, slot] = seen.of_change[1]
        self._crossed[slot, slot], self._squared[slot, slot] = curved, size
        return slot

    def _weighed(self, taken: int, of_gradient: np.ndarray, square: float) -> tuple[np.ndarray, float]:
        """Which sum of the last of so many steps, of the changes and of the gradient leads down, and how steep it is:
        from the products of the first two with the gradient, and of this with itself."""
        weights = np.zeros((2, len(self._steps)))
        if not taken:
            scale = 1 / (square**0.5 or 1.0)  # none leads down from a flat place
        else:
            most = len(self._steps)
            order = np.arange(max(0, taken - most), taken) % most  # the oldest first
            crossed, squared = self._crossed[np.ix_(order, order)], self._squared[np.ix_(order, order)]
            scale = crossed[-1, -1] / squared[-1, -1]
            of_steps, of_changes = of_gradient[:, order]
            along = solve_triangular(crossed, of_steps, check_finite=False)  # of which it reads the upper triangle
            curved = np.diag(crossed) * along + scale * (squared @ along - of_changes)
            weights[:, order] = solve_triangular(crossed, curved, trans=1, check_finite=False), -scale * along
        slope = -(scale * square + float(np.sum(weights * of_gradient)))
        return np.append(weights, scale), slope

    def forget(self) -> None:
        """Know nothing."""
        self._taken = 0

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {
            "steps": np.asarray(self._steps),
            "changes": np.asarray(self._changes),
            "crossed": self._crossed,
            "squared": self._squared,
            "taken": self._taken,
        }

    @classmethod
    def restored(cls, stored: dict[str, Any]) -> "Memory":
        """The memory that a checkpoint kept, as large as it was."""
        size, variables = np.shape(stored["steps"])
        memory = cls(variables, size)
        memory._steps, memory._changes = held(np.array(stored["steps"])), held(np.array(stored["changes"]))
        memory._crossed, memory._squared = np.array(stored["crossed"]), np.array(stored["squared"])
        memory._taken = int(stored["taken"])
        return memory


@at_once
def _look(steps, changes, step, change, gradient):
    xp = np if isinstance(steps, np.ndarray) else jnp
    pairs = (step, change), (change, change), (step, gradient), (change, gradient), (gradient, gradient)
    products = [times(rows, vector) for vector in (change, gradient) for rows in (steps, changes)]
    numbers = [*(times(a, b) for a, b in pairs), abs(gradient).max()]
    return xp.concatenate([*products, xp.stack(numbers)])


@at_once
def _came(steps, changes, uphill, before, direction, far):
    came = Came(far * direction, -uphill - before, -uphill)
    return came, _look(steps, changes, *came)


@at_once
def _onward(steps, changes, slot, step, change, gradient, weights):
    steps, changes = _set(steps, slot, step), _set(changes, slot, change)
    return steps, changes, _down(steps, changes, gradient, weights)


@at_once
def _down(steps, changes, gradient, weights):
    of_steps, of_changes = weights[:-1].reshape(2, -1)
    return -(weights[-1] * gradient + times(steps.T, of_steps) + times(changes.T, of_changes))


def _set(rows: Any, slot: Any, row: Vector) -> Any:
    """The rows with another one, unless its slot lies behind them."""
    if not isinstance(rows, np.ndarray):
        return rows.at[slot].set(row, mode="drop")
    if slot < len(rows):
        rows[slot] = row
    return rows
