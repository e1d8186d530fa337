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

    def model(self, point) -> Any:
        """The model at ``point``."""
        return eqx.combine(point, self.fixed)

    def evaluate(self, point):
        """Value, gradient, scalars to follow, and whether all is finite."""
        return _evaluate(point, self.fixed, self.rows)

    def to_vector(self, point) -> np.ndarray:
        """``point`` as one float64 vector."""
        return np.concatenate([np.asarray(leaf, np.float64).ravel() for leaf in jax.tree.leaves(point)])

    def from_vector(self, vector: np.ndarray) -> Any:
        """The point of a vector."""
        leaves, structure = jax.tree.flatten(self.start)
        ends = np.cumsum([leaf.size for leaf in leaves])
        parts = np.split(vector, ends[:-1])
        new = [np.asarray(p, leaf.dtype).reshape(leaf.shape) for p, leaf in zip(parts, leaves, strict=True)]
        return jax.tree.unflatten(structure, map(jnp.asarray, new))


def evaluate(point, fixed, rows):
    """The objective of the model that ``point`` and ``fixed`` make, on ``rows``. Pure."""

    def objective(point):
        return eqx.combine(point, fixed).objective(rows)

    (value, followed), gradient = jax.value_and_grad(objective, has_aux=True)(point)
    leaves = jax.tree.leaves(gradient)
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in leaves))
    return value, gradient, {"gradient_norm": norm, **followed}, jnp.isfinite(value) & jnp.isfinite(norm)


#: Compiled once for each structure of model and shape of data, whatever the number of fits.
_evaluate = eqx.filter_jit(evaluate)
