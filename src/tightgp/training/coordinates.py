"""A point as the vector that L-BFGS moves: positive numbers as logarithms, and all in units that suit one step length.

From a start where nothing is known of the curvature, L-BFGS takes the same step in every direction. In logarithms it
comes as soon to a noise that should be small, or to a lengthscale that should be large without end, as to what should
be near one.
"""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from tightgp.parameters import Parameter, Positive

#: One unit of the vector: in logarithms, and in anything else, such as inducing inputs.
_LOG_UNIT, _UNIT = 1.0, 2.0
#: A column whose numbers differ by as much as this (data in large units) has their standard deviation for a unit.
_LARGE = 100


def units(point) -> Float[np.ndarray, " k"]:
    """The unit of each number of the vectors that stand for points like ``point``."""
    return np.concatenate([_unit(*one) for one in zip(_seen(point), _transforms(point), strict=True)])


def _unit(leaf, transform) -> np.ndarray:
    usual = _UNIT if transform is None else _LOG_UNIT
    numbers = np.atleast_1d(np.asarray(leaf, np.float64))
    spread = np.std(numbers, axis=0) if len(numbers) > 1 else np.abs(numbers[0])
    suits = np.isfinite(spread) & (spread >= _LARGE)
    return np.broadcast_to(np.where(suits, spread, usual), numbers.shape).ravel()


def to_vector(point, units: Float[np.ndarray, " k"]) -> Float[np.ndarray, " k"]:
    """``point`` as one float64 vector."""
    return np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in _seen(point)]) / units


def to_point(vector: Float[Array, " k"], units: Float[Array, " k"], like) -> Any:
    """The point that a vector stands for, with leaves like those of ``like``. Pure."""
    leaves, structure = jax.tree.flatten(like)
    starts = np.cumsum([0, *(leaf.size for leaf in leaves)])
    numbers = vector * units
    found = []
    for leaf, transform, a in zip(leaves, _transforms(like), starts, strict=False):
        part = numbers[a : a + leaf.size].reshape(leaf.shape).astype(leaf.dtype)
        found.append(part if transform is None else transform.from_logarithm(part))
    return jax.tree.unflatten(structure, found)


def _seen(point) -> list[Array]:
    """The leaves as the vector has them, but for its units."""
    pairs = zip(jax.tree.leaves(point), _transforms(point), strict=True)
    return [leaf if transform is None else transform.logarithm(leaf) for leaf, transform in pairs]


def _transforms(point) -> list[Positive | None]:
    """For each leaf the transform of what is positive and taken as a logarithm, None for any other.

    Matrices of positive numbers have one for each row of data, as the variances of q(X): their roots do better.
    """
    nodes = jax.tree.leaves(point, is_leaf=lambda node: isinstance(node, Parameter))
    return [_logarithmic(node) for node in nodes if jax.tree.leaves(node)]


def _logarithmic(node) -> Positive | None:
    positive = isinstance(node, Parameter) and isinstance(node.transform, Positive) and node.raw.ndim < 2
    return node.transform if positive else None
