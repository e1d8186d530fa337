"""Sums and products of kernels. A number stands for a `Constant` kernel with that (trained) variance."""

import functools
import numbers
import operator
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp

from tightgp.kernels.base import Kernel
from tightgp.kernels.nonstationary import Constant


class Combination(Kernel):
    """Kernels joined entry by entry."""

    parts: tuple[Kernel, ...]
    active_dims: tuple[int, ...] | None = eqx.field(static=True, default=None)
    join: eqx.AbstractClassVar[Callable]

    @classmethod
    def of(cls, left, right):
        """Two kernels, or a kernel and a number, joined; combinations of the same kind are flattened."""
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

    def _matrix(self, X, X2):
        return functools.reduce(self.join, (part(X, X2) for part in self.parts))

    def _diagonal(self, X):
        return functools.reduce(self.join, (part.diagonal(X) for part in self.parts))

    @property
    def stationary(self):
        return all(part.stationary for part in self.parts)

    def length_scales(self, num_inputs):
        return functools.reduce(jnp.minimum, (part.length_scales(num_inputs) for part in self.parts))


class Sum(Combination):
    """``k_1 + k_2 + …``."""

    join: ClassVar[Callable] = operator.add


class Product(Combination):
    """``k_1 · k_2 · …``."""

    join: ClassVar[Callable] = operator.mul
