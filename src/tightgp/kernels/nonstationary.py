"""Kernels that are no function of a distance: linear, polynomial, constant, white."""

import equinox as eqx
import jax.numpy as jnp

from tightgp import checks
from tightgp.kernels.base import Kernel, dims, per_column
from tightgp.parameters import Parameter, positive, reader


class Linear(Kernel):
    """``Σ_d σ_d² x_d x'_d``: linear functions through the origin, with one variance or one for each input."""

    _variance: Parameter
    active_dims: tuple[int, ...] | None = eqx.field(static=True)
    variance = reader("_variance", "Prior variance of the slopes.")

    def __init__(self, variance=1.0, active_dims=None):
        self._variance = positive(variance, name="variance", squared=True)
        self.active_dims = dims(active_dims)

    def _matrix(self, X, X2):
        return (X * per_column("variance", self.variance, X)) @ (X if X2 is None else X2).T

    def _diagonal(self, X):
        return jnp.sum(X * X * per_column("variance", self.variance, X), axis=1)


class Polynomial(Kernel):
    """``(Σ_d σ_d² x_d x'_d + c)^degree``: polynomials up to ``degree``."""

    _variance: Parameter
    _offset: Parameter
    degree: int = eqx.field(static=True)
    active_dims: tuple[int, ...] | None = eqx.field(static=True)
    variance = reader("_variance", "Prior variance of the slopes.")
    offset = reader("_offset", "Offset c, which weighs the lower degrees.")

    def __init__(self, degree=2, variance=1.0, offset=1.0, active_dims=None):
        self._variance = positive(variance, name="variance", squared=True)
        self._offset = positive(offset, name="offset", scalar=True)
        self.degree = checks.count("degree", degree)
        self.active_dims = dims(active_dims)

    def _matrix(self, X, X2):
        inner = (X * per_column("variance", self.variance, X)) @ (X if X2 is None else X2).T
        return (inner + self.offset) ** self.degree

    def _diagonal(self, X):
        inner = jnp.sum(X * X * per_column("variance", self.variance, X), axis=1)
        return (inner + self.offset) ** self.degree


class Constant(Kernel):
    """``σ²`` everywhere: an unknown level."""

    _variance: Parameter
    active_dims: tuple[int, ...] | None = eqx.field(static=True)
    variance = reader("_variance", "Prior variance of the level.")

    def __init__(self, variance=1.0, active_dims=None):
        self._variance = positive(variance, name="variance", squared=True, scalar=True)
        self.active_dims = dims(active_dims)

    def _matrix(self, X, X2):
        return jnp.broadcast_to(self.variance, (X.shape[0], (X if X2 is None else X2).shape[0]))

    def _diagonal(self, X):
        return jnp.broadcast_to(self.variance, (X.shape[0],))

    @property
    def stationary(self):
        return True


class White(Kernel):
    """``σ²`` between a row and itself, zero otherwise: a part of the function that no other row tells of.

    Two sets of inputs are always different rows, even where they hold equal numbers.
    """

    _variance: Parameter
    active_dims: tuple[int, ...] | None = eqx.field(static=True)
    variance = reader("_variance", "Variance of the white part.")

    def __init__(self, variance=1.0, active_dims=None):
        self._variance = positive(variance, name="variance", squared=True, scalar=True)
        self.active_dims = dims(active_dims)

    def _matrix(self, X, X2):
        if X2 is None:
            return self.variance * jnp.eye(X.shape[0], dtype=X.dtype)
        return jnp.zeros((X.shape[0], X2.shape[0]), X.dtype)

    def _diagonal(self, X):
        return jnp.broadcast_to(self.variance, (X.shape[0],))

    @property
    def stationary(self):
        return True
