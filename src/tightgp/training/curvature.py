"""What the last steps say of a function's curvature: the inverse Hessian of L-BFGS, as products of tall matrices.

Byrd, Nocedal & Schnabel (1994), theorem 2.2: the same matrix as by the recursion over the steps, in a few products,
which an accelerator does at once. Vectors stay where they are computed: with an accelerator on it, and otherwise with
NumPy, which has nothing to compile.
"""

from typing import Any

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

    def remember(self, step: Vector, change: Vector) -> None:
        """Take in one more step; but not one along which the function does not curve upwards."""
        size, curved = float(change @ change), float(step @ change)
        if not curved > np.finfo(np.float64).eps * size:
            return
        slot = self._taken % len(self._steps)
        self._crossed[:, slot] = self._steps @ change
        self._squared[slot] = self._squared[:, slot] = self._changes @ change
        self._crossed[slot, slot], self._squared[slot, slot] = curved, size
        self._steps, self._changes = _set(self._steps, slot, step), _set(self._changes, slot, change)
        self._taken += 1

    def descent(self, gradient: Vector) -> Vector:
        """Where to go from a point with this gradient: to the minimum that these steps let expect; where none is
        known, as far as one unit."""
        if not self._taken:
            return -gradient / (float(gradient @ gradient) ** 0.5 or 1.0)  # none leads down from a flat place
        order = np.arange(self._taken - len(self), self._taken) % len(self._steps)  # from the oldest to the newest
        crossed, squared = self._crossed[np.ix_(order, order)], self._squared[np.ix_(order, order)]
        scale = crossed[-1, -1] / squared[-1, -1]
        of_steps, of_changes = (np.asarray(rows @ gradient)[order] for rows in (self._steps, self._changes))
        along = solve_triangular(crossed, of_steps, check_finite=False)  # of which it reads the upper triangle
        curved = np.diag(crossed) * along + scale * (squared @ along - of_changes)
        weights = np.zeros((2, len(self._steps)))
        weights[:, order] = solve_triangular(crossed, curved, trans=1, check_finite=False), -scale * along
        return -(scale * gradient + held(weights[0]) @ self._steps + held(weights[1]) @ self._changes)

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


def _set(rows: Any, slot: int, row: Vector) -> Any:
    if isinstance(rows, jax.Array):
        return jax.lax.dynamic_update_index_in_dim(rows, row, slot, 0)  # one program for every slot
    rows[slot] = row
    return rows
