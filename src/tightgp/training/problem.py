"""A model and its rows as what optimisers take: trained leaves, and the objective's value and gradient there."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tightgp import parameters


class Problem:
    """Maximise ``model.objective(rows)`` over the trained leaves of ``model``."""

    def __init__(self, model, rows):
        self.rows = rows
        self.start, self.fixed = eqx.partition(model, parameters.trainable(model))
        if not jax.tree.leaves(self.start):
            raise ValueError("model has no trained parameter: every one is frozen; unfreeze one, or do without fit")
        self._scales = np.concatenate([_scale(leaf) for leaf in jax.tree.leaves(self.start)])

    def model(self, point) -> Any:
        """The model at ``point``."""
        return eqx.combine(self.fixed, point)  # what is no array comes from the first: a program's may be another fit's

    def evaluate(self, point):
        """Value, gradient, scalars to follow, and whether all is finite."""
        return _evaluate(point, self.fixed, self.rows)

    def score(self, point, rows):
        """How well the model at ``point`` predicts held-out ``rows``."""
        return _score(point, self.fixed, rows)

    def to_vector(self, point) -> np.ndarray:
        """``point`` as one float64 vector of moderate numbers: a leaf that starts far from one is scaled."""
        return _flat(point) / self._scales

    def gradient_vector(self, gradient) -> np.ndarray:
        """A gradient in a point, as one in its vector."""
        return _flat(gradient) * self._scales

    def from_vector(self, vector: np.ndarray) -> Any:
        """The point of a vector."""
        vector = vector * self._scales
        leaves, structure = jax.tree.flatten(self.start)
        ends = np.cumsum([leaf.size for leaf in leaves])
        parts = np.split(vector, ends[:-1])
        new = [np.asarray(p, leaf.dtype).reshape(leaf.shape) for p, leaf in zip(parts, leaves, strict=True)]
        return jax.tree.unflatten(structure, map(jnp.asarray, new))


def _flat(tree) -> np.ndarray:
    return np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(tree)])


def _scale(leaf) -> np.ndarray:
    """The leaf's magnitude where it is a hundred or more (data in large units), else one."""
    largest = float(jnp.max(jnp.abs(leaf)))
    return np.full(leaf.size, largest if np.isfinite(largest) and largest >= 100 else 1.0)


def evaluate(point, fixed, rows):
    """The objective of the model that ``point`` and ``fixed`` make, on ``rows``. Pure."""

    def objective(point):
        return eqx.combine(point, fixed).objective(rows)

    (value, followed), gradient = jax.value_and_grad(objective, has_aux=True)(point)
    leaves = jax.tree.leaves(gradient)
    norm = jnp.sqrt(sum((jnp.sum(g * g) for g in leaves), jnp.zeros((), value.dtype)))
    return value, gradient, {"gradient_norm": norm, **followed}, jnp.isfinite(value) & jnp.isfinite(norm)


#: Compiled once for each structure of model and shape of data, whatever the number of fits.
_evaluate = eqx.filter_jit(evaluate)


@eqx.filter_jit
def _score(point, fixed, rows):
    return eqx.combine(point, fixed).score(rows)
