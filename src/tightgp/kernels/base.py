"""What every kernel is: a small module with a matrix, a cheap diagonal, and ``+`` and ``*``."""

import abc
import operator

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp import parameters
from tightgp.linalg import full_precision

AnyArray = Array | np.ndarray


class Kernel(eqx.Module):
    """A covariance function ``k(x, x')``.

    ``kernel(X)`` is the symmetric matrix of one set of inputs, ``kernel(X, X2)`` the matrix between two.
    Subclasses give `_matrix` and `_diagonal` over the columns named by ``active_dims``.
    """

    active_dims: eqx.AbstractVar[tuple[int, ...] | None]

    @full_precision
    def __call__(self, X: Float[AnyArray, "n d"], X2: Float[AnyArray, "k d"] | None = None) -> Float[Array, "n k"]:
        if X2 is not None and X2.ndim == X.ndim == 2 and X2.shape[1] != X.shape[1]:
            raise ValueError(
                f"X has {X.shape[1]} column(s) but X2 has {X2.shape[1]}; a kernel compares rows of one kind"
            )
        return self._matrix(self._select(X), None if X2 is None else self._select(X2))

    def diagonal(self, X: Float[AnyArray, "n d"]) -> Float[Array, " n"]:
        """``k(x, x)`` of each row, without the matrix."""
        return self._diagonal(self._select(X))

    @abc.abstractmethod
    def _matrix(self, X: Float[Array, "n a"], X2: Float[Array, "k a"] | None) -> Float[Array, "n k"]:
        """The covariance matrix over the active columns."""

    @abc.abstractmethod
    def _diagonal(self, X: Float[Array, "n a"]) -> Float[Array, " n"]:
        """Its diagonal."""

    @property
    def stationary(self) -> bool:
        """Whether moving both inputs by the same vector changes nothing."""
        return False

    def length_scales(self, num_inputs: int) -> Float[Array, " d"]:
        """How far one must move in each input for the function to change; infinite where nothing is known."""
        return jnp.full(num_inputs, jnp.inf)

    def _select(self, X):
        X = jnp.asarray(X)
        if X.ndim != 2:
            raise ValueError(f"X must have shape (rows, columns), got {X.shape}")
        if self.active_dims is None:
            return X
        if max(self.active_dims) >= X.shape[-1]:
            raise ValueError(f"active_dims {self.active_dims} reach beyond the {X.shape[-1]} columns of X")
        return X[..., jnp.asarray(self.active_dims)]

    def __add__(self, other):
        return _combine("Sum", self, other)

    def __radd__(self, other):
        if isinstance(other, int) and other == 0:  # where Python's sum() starts
            return self
        return _combine("Sum", other, self)

    def __mul__(self, other):
        return _combine("Product", self, other)

    def __rmul__(self, other):
        return _combine("Product", other, self)

    def __repr__(self) -> str:
        return parameters.table(self, type(self).__name__)


def _combine(how, left, right):
    from tightgp.kernels import composition

    return getattr(composition, how).of(left, right)


def dims(active_dims) -> tuple[int, ...] | None:
    """``active_dims`` as a checked tuple of column numbers."""
    if active_dims is None:
        return None
    try:
        if any(isinstance(i, bool | np.bool_) for i in active_dims):
            raise TypeError
        numbers = tuple(operator.index(i) for i in active_dims)
    except TypeError:
        raise ValueError(f"active_dims must be column numbers such as [0, 2], got {active_dims!r}") from None
    if not numbers or min(numbers) < 0 or len(set(numbers)) != len(numbers):
        raise ValueError(f"active_dims must be distinct column numbers from 0 on, got {active_dims!r}")
    return numbers


def per_column(name: str, values: Float[Array, "..."], X: Float[Array, "n a"]) -> Float[Array, "..."]:
    """``values`` checked to be one number, or one for each column of ``X``."""
    if values.ndim > 1 or (values.ndim == 1 and values.shape[0] != X.shape[-1]):
        raise ValueError(
            f"{name} has shape {values.shape} but the kernel sees {X.shape[-1]} input column(s); "
            f"pass one number, or {X.shape[-1]}"
        )
    return values
