"""A model and its rows as what optimisers take: trained leaves, and the objective's value and gradient there."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tightgp import parameters
from tightgp.training import coordinates


class Evaluation(NamedTuple):
    """The objective at one point: its value, its gradient as a vector, the scalars to follow, whether all is finite,
    and what else was asked."""

    value: float
    gradient: jax.Array
    followed: dict[str, float]
    finite: bool
    more: Any = None


class Problem:
    """Maximise ``model.objective(rows)`` over the trained leaves of ``model``."""

    def __init__(self, model, rows):
        self.rows = rows
        self.start, self.fixed = eqx.partition(model, parameters.trainable(model))
        if not jax.tree.leaves(self.start):
            raise ValueError("model has no trained parameter: every one is frozen; unfreeze one, or do without fit")
        self._units = coordinates.units(self.start)
        arrays, self._outline = _taken_apart((self.start, self.fixed, rows))
        self._arrays = (jnp.asarray(self._units), arrays)

    def model(self, point) -> Any:
        """The model at ``point``."""
        return eqx.combine(self.fixed, point)  # what is no array comes from the first: a program's may be another fit's

    def at(self, x: np.ndarray | jax.Array, also: Callable | None = None) -> Evaluation:
        """The objective where `to_vector` gives ``x``, at little cost; the gradient stays on the device.

        ``also`` is a function of the gradient whose answer is wanted too: both are waited for at once.
        """
        names = _program(self._outline)[1]
        numbers, gradient = self.launch(x)
        numbers, more = jax.device_get((numbers, None if also is None else also(gradient)))
        value, finite, *followed = np.asarray(numbers, np.float64).tolist()
        return Evaluation(value, gradient, dict(zip(names, followed, strict=True)), finite > 0, more)

    def launch(self, x) -> tuple[jax.Array, jax.Array]:
        """`at` without waiting for the answer, which stays on the device: all scalars, and the gradient."""
        return _program(self._outline)[0](x, *self._arrays)

    def score(self, point, rows):
        """How well the model at ``point`` predicts held-out ``rows``."""
        return _score(point, self.fixed, rows)

    def to_vector(self, point) -> np.ndarray:
        """``point`` as one float64 vector, in which one step length suits all (`coordinates`)."""
        return coordinates.to_vector(point, self._units)

    def from_vector(self, vector: np.ndarray | jax.Array) -> Any:
        """The point of a vector."""
        return coordinates.to_point(jnp.asarray(vector), self._arrays[0], self.start)


class _Outline(NamedTuple):
    """A tree without its arrays: what a program is compiled for."""

    arrays: Any
    rest: Any
    leaves: tuple

    def filled(self, arrays: list) -> Any:
        """The tree with these arrays."""
        return eqx.combine(jax.tree.unflatten(self.arrays, arrays), jax.tree.unflatten(self.rest, self.leaves))


def _taken_apart(tree) -> tuple[list, _Outline]:
    dynamic, static = eqx.partition(tree, lambda leaf: isinstance(leaf, jax.Array | np.ndarray))
    arrays, shape = jax.tree.flatten(dynamic)
    leaves, rest = jax.tree.flatten(static)
    return arrays, _Outline(shape, rest, tuple(leaves))


@functools.lru_cache(maxsize=128)
def _program(outline: _Outline) -> tuple[Callable, list[str]]:
    """The objective as a compiled function of vectors, and the names of the scalars to follow.

    Trees of modules are taken apart once and not at each call: that took longer than a small problem's arithmetic.
    """
    names: list[str] = []

    @jax.jit
    def run(x, units, arrays):
        point, fixed, rows = outline.filled(arrays)
        there, pull = jax.vjp(lambda x: coordinates.to_point(x, units, point), x)
        value, gradient, followed, finite = evaluate(there, fixed, rows)
        names[:] = followed
        numbers = [value, finite, *followed.values()]
        return jnp.stack([jnp.asarray(number, value.dtype) for number in numbers]), pull(gradient)[0]

    return run, names


def evaluate(point, fixed, rows):
    """The objective of the model that ``point`` and ``fixed`` make, on ``rows``. Pure."""

    def objective(point):
        return eqx.combine(point, fixed).objective(rows)

    (value, followed), gradient = jax.value_and_grad(objective, has_aux=True)(point)
    leaves = jax.tree.leaves(gradient)
    norm = jnp.sqrt(sum((jnp.sum(g * g) for g in leaves), jnp.zeros((), value.dtype)))
    return value, gradient, {"gradient_norm": norm, **followed}, jnp.isfinite(value) & jnp.isfinite(norm)


@eqx.filter_jit
def _score(point, fixed, rows):
    return eqx.combine(point, fixed).score(rows)
