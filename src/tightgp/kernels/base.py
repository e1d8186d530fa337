"""The kernel interface, sums and products of kernels, and the two kernels without a lengthscale: constant and white."""

import abc
import functools
import numbers
import operator
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp import parameters
from tightgp.numerics.linalg import full_precision
from tightgp.parameters import Parameter, positive, reader

AnyArray = Array | np.ndarray


def check_active_dims(active_dims) -> tuple[int, ...] | None:
    """``active_dims`` as a tuple of distinct column numbers."""
    if active_dims is None:
        return None
    try:
        if any(isinstance(i, bool | np.bool_) for i in active_dims):
            raise TypeError
        columns = tuple(operator.index(i) for i in active_dims)
    except TypeError:
        raise ValueError(f"active_dims must be column numbers such as [0, 2], got {active_dims!r}") from None
    if not columns or min(columns) < 0 or len(set(columns)) != len(columns):
        raise ValueError(f"active_dims must be distinct column numbers, counted from 0, got {active_dims!r}")
    return columns


class Kernel(eqx.Module):
    """A covariance function ``k(x, x')``.

    ``kernel(X)`` is the covariance matrix of one set of inputs, ``kernel(X, X2)`` the matrix between two sets.
    ``+`` and ``*`` combine kernels; a number stands for a `Constant` kernel with that (trained) variance.

    A subclass implements `matrix`, and `variances` where the diagonal has a quicker formula. Both receive the columns
    of X in ``active_dims`` only. A kernel of scaled distance derives from `Stationary` instead, and implements
    `Stationary.correlation`. To load a model file with a class of your own, name the class:
    ``tgp.load(path, classes=[Mine])``.

    >>> kernel = tgp.kernels.Matern32(active_dims=[0]) + 0.5 * tgp.kernels.Linear()
    >>> kernel(X).shape, kernel(X[:5], X).shape, kernel.diagonal(X).shape
    ((60, 60), (5, 60), (60,))
    """

    active_dims: tuple[int, ...] | None = eqx.field(
        static=True, default=None, kw_only=True, converter=check_active_dims
    )

    def __init_subclass__(cls, init: bool = True):
        """``init=False`` tells type checkers that a subclass inherits the constructor."""

    @full_precision
    def __call__(self, X: Float[AnyArray, "n d"], X2: Float[AnyArray, "k d"] | None = None) -> Float[Array, "n k"]:
        if X2 is not None and X2.ndim == X.ndim == 2 and X2.shape[1] != X.shape[1]:
            raise ValueError(f"X has {X.shape[1]} column(s) but X2 has {X2.shape[1]}; they must have the same columns")
        matrix = self.matrix(self._active(X), None if X2 is None else self._active(X2))
        return self._of_shape("matrix(X, X2)", matrix, np.shape(X)[:1] + np.shape(X if X2 is None else X2)[:1])

    def diagonal(self, X: Float[AnyArray, "n d"]) -> Float[Array, " n"]:
        """``k(x, x)`` for each row of X, without computing the matrix."""
        return self._of_shape("variances(X)", self.variances(self._active(X)), np.shape(X)[:1])

    @abc.abstractmethod
    def matrix(self, X: Float[Array, "n a"], X2: Float[Array, "k a"] | None) -> Float[Array, "n k"]:
        """The covariance matrix over the active columns; X2 is None for the matrix of X with itself."""

    def variances(self, X: Float[Array, "n a"]) -> Float[Array, " n"]:
        """The diagonal of ``matrix(X, None)``; by default from a 1×1 matrix for each row."""
        return jax.vmap(lambda x: self.matrix(x[None], None)[0, 0])(X)

    @property
    def stationary(self) -> bool:
        """Whether ``k(x + c, x' + c) = k(x, x')`` for every shift c."""
        return False

    def length_scales(self, num_inputs: int) -> Float[Array, " d"]:
        """The lengthscale of each of ``num_inputs`` inputs; infinite for an input without one."""
        return jnp.full(num_inputs, jnp.inf)

    def over_all_inputs(self, values: Float[Array, "..."], num_inputs: int, fill: float) -> Float[Array, " d"]:
        """``values`` of the active inputs as an array over all ``num_inputs`` inputs, with ``fill`` for the others."""
        if self.active_dims is None:
            return jnp.broadcast_to(values, (num_inputs,))
        return jnp.full(num_inputs, fill, values.dtype).at[jnp.asarray(self.active_dims)].set(values)

    def _of_shape(self, method: str, values, shape: tuple):
        """What a method returned, if its shape is right; a kernel of the user's own may have forgotten ``X2``."""
        if jnp.shape(values) != shape:
            raise ValueError(f"{type(self).__name__}.{method} must have shape {shape}, got {jnp.shape(values)}")
        return values

    def _active(self, X):
        X = jnp.asarray(X)
        if X.ndim != 2:
            raise ValueError(f"X must have shape (rows, columns), got {X.shape}")
        if self.active_dims is None:
            return X
        if max(self.active_dims) >= X.shape[1]:
            raise ValueError(f"active_dims {self.active_dims} reach beyond the {X.shape[1]} columns of X")
        return X[:, jnp.asarray(self.active_dims)]

    def __add__(self, other):
        return Sum.of(self, other)

    def __radd__(self, other):
        # sum() starts from the integer 0.
        return self if isinstance(other, int) and other == 0 else Sum.of(other, self)

    def __mul__(self, other):
        return Product.of(self, other)

    def __rmul__(self, other):
        return Product.of(other, self)

    def __repr__(self) -> str:
        return parameters.table(self, type(self).__name__)


class ConstantVariance(Kernel):
    """Stationary kernels: the prior variance ``k(x, x) = σ²`` is the same everywhere."""

    _variance: Parameter
    variance = reader("_variance", "Prior variance σ² of the function.")

    def __init__(self, variance=1.0, active_dims=None):
        self._variance = positive(variance, name="variance", squared=True, scalar=True)
        self.active_dims = active_dims

    def variances(self, X):
        return jnp.broadcast_to(self.variance, (X.shape[0],))

    @property
    def stationary(self):
        return True


class Constant(ConstantVariance, init=False):
    """``k(x, x') = σ²``: a constant function of unknown value.

    Args:
        variance: the prior variance σ² of the value.
        active_dims: has no effect here; every kernel accepts it.

    >>> tgp.kernels.Constant(0.5)(X[:2])
    Array([[0.5, 0.5],
           [0.5, 0.5]], dtype=float64)
    """

    def matrix(self, X, X2):
        return jnp.broadcast_to(self.variance, (X.shape[0], (X if X2 is None else X2).shape[0]))


class White(ConstantVariance, init=False):
    """``k(x_i, x_j) = σ² δ_ij``: white noise, independent in every row.

    ``kernel(X, X2)`` is zero even for rows of X2 that equal rows of X: they are other rows.

    Args:
        variance: the variance σ² of the noise.
        active_dims: has no effect here; every kernel accepts it.

    >>> tgp.kernels.White(0.5)(X[:2])
    Array([[0.5, 0. ],
           [0. , 0.5]], dtype=float64)
    """

    def matrix(self, X, X2):
        if X2 is None:
            return self.variance * jnp.eye(X.shape[0], dtype=X.dtype)
        return jnp.zeros((X.shape[0], X2.shape[0]), X.dtype)


class _Combination(Kernel):
    """Kernels whose matrices are combined entry by entry."""

    parts: tuple[Kernel, ...]
    join: eqx.AbstractClassVar[Callable]

    @classmethod
    def of(cls, left, right):
        """Combine two kernels, or a kernel and a number; nested combinations of the same class are flattened."""
        parts: list[Kernel] = []
        for part in (left, right):
            if isinstance(part, cls):
                parts.extend(part.parts)
            elif isinstance(part, Kernel):
                parts.append(part)
            elif isinstance(part, numbers.Real) and not isinstance(part, bool):
                parts.append(Constant(part))
            else:
                return NotImplemented
        return cls(parts=tuple(parts))

    def matrix(self, X, X2):
        return functools.reduce(self.join, (part(X, X2) for part in self.parts))

    def variances(self, X):
        return functools.reduce(self.join, (part.diagonal(X) for part in self.parts))

    @property
    def stationary(self):
        return all(part.stationary for part in self.parts)

    def length_scales(self, num_inputs):
        return functools.reduce(jnp.minimum, (part.length_scales(num_inputs) for part in self.parts))


class Sum(_Combination):
    """``k_1(x, x') + k_2(x, x') + …``, which is what ``k_1 + k_2`` returns.

    >>> len((tgp.kernels.Linear() + tgp.kernels.White() + 1.0).parts)
    3
    """

    join: ClassVar[Callable] = operator.add


class Product(_Combination):
    """``k_1(x, x') · k_2(x, x') · …``, which is what ``k_1 * k_2`` returns.

    >>> len((2.0 * tgp.kernels.Linear()).parts)
    2
    """

    join: ClassVar[Callable] = operator.mul


def check_per_column(name: str, values: Float[Array, "..."], X: Float[Array, "n a"]) -> Float[Array, "..."]:
    """Check that ``values`` is one number, or holds one for each column of X."""
    if values.ndim > 1 or (values.ndim == 1 and values.shape[0] != X.shape[1]):
        raise ValueError(
            f"{name} has shape {values.shape} but the kernel sees {X.shape[1]} input column(s); "
            f"pass one number, or {X.shape[1]}"
        )
    return values
