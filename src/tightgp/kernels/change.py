"""A kernel that goes over into another one along an input (maths 15.4)."""

import equinox as eqx
import jax
import jax.numpy as jnp

from tightgp import checks
from tightgp.kernels.base import Kernel
from tightgp.parameters import FLOOR, Parameter, positive, reader, real


class ChangePoint(Kernel):
    """``k(x, x') = (1 − s)(1 − s') k_1(x, x') + s s' k_2(x, x')`` with ``s = sigmoid((x_c − a)/w)`` (maths 15.4).

    Functions are of the kernel ``before`` where the column is well below the location a, and of the kernel ``after``
    above it. For several change points, ``after`` is again a `ChangePoint`.

    Args:
        before: the kernel below the change.
        after: the kernel above it.
        location: where the change is, a.
        width: over which distance it happens, w.
        column: the column x_c of X along which it happens; both kernels see all columns.

    >>> kernel = tgp.kernels.ChangePoint(tgp.kernels.Constant(1.0), tgp.kernels.Constant(9.0), location=0.0, width=0.1)
    >>> kernel.diagonal(np.array([[-5.0], [0.0], [5.0]]))
    Array([1. , 2.5, 9. ], dtype=float64)
    """

    before: Kernel
    after: Kernel
    _location: Parameter
    _width: Parameter
    column: int = eqx.field(static=True)
    location = reader("_location", "Where the change is.")
    width = reader("_width", "Over which distance the change happens.")

    def __init__(self, before, after, location=0.0, width=1.0, column=0):
        for name, kernel in (("before", before), ("after", after)):
            checks.instance(name, kernel, Kernel, "tightgp.kernels")
        self.before, self.after = before, after
        self._location = real(location, name="location")
        if self._location.raw.ndim:
            raise ValueError(f"location must be one number, got shape {self._location.raw.shape}")
        self._width = positive(width, name="width", floor=FLOOR, scalar=True)
        self.column = checks.count("column", column, least=0)

    def matrix(self, X, X2):
        low, high = self._weights(X)
        low2, high2 = (low, high) if X2 is None else self._weights(X2)
        return jnp.outer(low, low2) * self.before(X, X2) + jnp.outer(high, high2) * self.after(X, X2)

    def variances(self, X):
        low, high = self._weights(X)
        return low**2 * self.before.diagonal(X) + high**2 * self.after.diagonal(X)

    def _weights(self, X):
        """Weights (n,) of both kernels, which add up to one."""
        if self.column >= X.shape[1]:
            raise ValueError(f"column {self.column} reaches beyond the {X.shape[1]} columns of X")
        z = (X[:, self.column] - self.location) / self.width
        return jax.nn.sigmoid(-z), jax.nn.sigmoid(z)

    def length_scales(self, num_inputs):
        return jnp.minimum(self.before.length_scales(num_inputs), self.after.length_scales(num_inputs))
