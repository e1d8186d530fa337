"""Sums and products of kernels. A number stands for a `Constant` kernel with that (trained) variance."""

import functools
import numbers
import operator

import equinox as eqx
import jax.numpy as jnp

from tightgp.kernels.base import Kernel
from tightgp.kernels.nonstationary import Constant


def _parts(cls, left, right):
    parts = []
    for part in (left, right):
        if isinstance(part, cls):
            parts.extend(part.parts)
        elif isinstance(part, Kernel):
            parts.append(part)
        elif isinstance(part, numbers.Real) and not isinstance(part, bool):
            parts.append(Constant(part))
        else:
            return NotImplemented
    return cls(tuple(parts))


class Sum(Kernel):
    """``k_1 + k_2 + …``."""

    parts: tuple[Kernel, ...]
    active_dims: tuple[int, ...] | None = eqx.field(static=True, default=None)

    @classmethod
    def of(cls, left, right):
        """The sum of two kernels or a kernel and a number, flattened."""
        return _parts(cls, left, right)

    def _matrix(self, X, X2):
        return functools.reduce(operator.add, (part(X, X2) for part in self.parts))

    def _diagonal(self, X):
        return functools.reduce(operator.add, (part.diagonal(X) for part in self.parts))

    def length_scales(self, num_inputs):
        return functools.reduce(jnp.minimum, (part.length_scales(num_inputs) for part in self.parts))


class Product(Kernel):
    """``k_1 · k_2 · …``."""

    parts: tuple[Kernel, ...]
    active_dims: tuple[int, ...] | None = eqx.field(static=True, default=None)

    @classmethod
    def of(cls, left, right):
        """The product of two kernels or a kernel and a number, flattened."""
        return _parts(cls, left, right)

    def _matrix(self, X, X2):
        return functools.reduce(operator.mul, (part(X, X2) for part in self.parts))

    def _diagonal(self, X):
        return functools.reduce(operator.mul, (part.diagonal(X) for part in self.parts))

    def length_scales(self, num_inputs):
        return functools.reduce(jnp.minimum, (part.length_scales(num_inputs) for part in self.parts))
