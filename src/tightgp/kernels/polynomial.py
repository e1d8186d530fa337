"""Kernels of an inner product between inputs: linear and polynomial."""

import equinox as eqx
import jax.numpy as jnp

from tightgp import checks
from tightgp.kernels.base import Kernel, check_per_column
from tightgp.parameters import Parameter, positive, reader


class _InnerProduct(Kernel):
    """Kernels of ``Σ_d σ_d² x_d x'_d``."""

    _variance: Parameter
    variance = reader("_variance", "Prior variance of the slopes.")

    def __init__(self, variance=1.0, active_dims=None):
        self._variance = positive(variance, name="variance", squared=True)
        self.active_dims = active_dims

    def matrix(self, X, X2):
        return (X * check_per_column("variance", self.variance, X)) @ (X if X2 is None else X2).T

    def variances(self, X):
        return jnp.sum(X * X * check_per_column("variance", self.variance, X), axis=1)


class Linear(_InnerProduct, init=False):
    """``k(x, x') = Σ_d σ_d² x_d x'_d``: linear functions through the origin.

    Args:
        variance: the prior variance σ² of the slopes, one number or one for each active input.
        active_dims: the columns of X that the kernel uses; None for all of them.

    >>> kernel = tgp.kernels.Linear([1.0, 4.0])
    >>> kernel(np.array([[1.0, 2.0]]), np.array([[3.0, 0.5], [1.0, 1.0]]))
    Array([[7., 9.]], dtype=float64)
    """


class Polynomial(_InnerProduct):
    """``k(x, x') = (Σ_d σ_d² x_d x'_d + c)^degree``: polynomials up to ``degree``.

    Args:
        degree: the highest degree, at least 1.
        variance: the prior variance σ² of the slopes, one number or one for each active input.
        offset: the number c, which gives the lower degrees their weight.
        active_dims: the columns of X that the kernel uses; None for all of them.

    >>> kernel = tgp.kernels.Polynomial(degree=2, variance=1.0, offset=1.0)
    >>> kernel.diagonal(np.array([[1.0, 2.0]]))
    Array([36.], dtype=float64)
    """

    _offset: Parameter
    degree: int = eqx.field(static=True)
    offset = reader("_offset", "Offset c, which gives the lower degrees their weight.")

    def __init__(self, degree=2, variance=1.0, offset=1.0, active_dims=None):
        super().__init__(variance, active_dims)
        self._offset = positive(offset, name="offset", scalar=True)
        self.degree = checks.count("degree", degree)

    def matrix(self, X, X2):
        return (super().matrix(X, X2) + self.offset) ** self.degree

    def variances(self, X):
        return (super().variances(X) + self.offset) ** self.degree
