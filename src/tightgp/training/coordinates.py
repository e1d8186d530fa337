"""The vector that L-BFGS works on: logarithms of positive numbers, and units in which one step length suits all.

The first steps of L-BFGS have the same length in every direction, since it does not know the curvature yet. In
logarithms it reaches very small noise variances and very large lengthscales as soon as values near one.
"""

from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float

from tightgp.parameters import Parameter, Positive

#: One unit of the vector: in logarithms, and in anything else, such as inducing inputs.
_LOG_UNIT, _UNIT = 1.0, 2.0
#: The unit of a column is its standard deviation if that is at least this (data in large units).
_LARGE = 100


def units(point) -> Float[np.ndarray, " k"]:
    """The unit of each entry of the vector of ``point``."""
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


def to_point(vector: Float[Array | np.ndarray, " k"], units: Float[Array | np.ndarray, " k"], like) -> Any:
    """The inverse of `to_vector`: a point with leaves like those of ``like``. Pure."""
    leaves, structure = jax.tree.flatten(like)
    starts = np.cumsum([0, *(leaf.size for leaf in leaves)])
    numbers = vector * units
    found = []
    for leaf, transform, a in zip(leaves, _transforms(like), starts, strict=False):
        part = numbers[a : a + leaf.size].reshape(leaf.shape).astype(leaf.dtype)
        found.append(part if transform is None else transform.from_logarithm(part))
    return jax.tree.unflatten(structure, found)


def _seen(point) -> list[Array]:
    """The leaves as the vector has them, before division by the units."""
    pairs = zip(jax.tree.leaves(point), _transforms(point), strict=True)
    return [leaf if transform is None else transform.logarithm(leaf) for leaf, transform in pairs]


def _transforms(point) -> list[Positive | None]:
    """For each leaf, its transform if the vector has its logarithm, else None.

    Positive matrices stay as they are stored: they have a row for each row of data, as the variances of q(X) do, and
    train better that way.
    """
    nodes = jax.tree.leaves(point, is_leaf=lambda node: isinstance(node, Parameter))
    return [_logarithmic(node) for node in nodes if jax.tree.leaves(node)]


def _logarithmic(node) -> Positive | None:
    positive = isinstance(node, Parameter) and isinstance(node.transform, Positive) and node.raw.ndim < 2
    return node.transform if positive else None
