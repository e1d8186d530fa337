"""The objective as optimisers see it: a function of the trained leaves, with its gradient."""

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh

from tightgp import distributed, parameters
from tightgp.data.placement import PlacedRows, replicated
from tightgp.numerics import compiling
from tightgp.training import coordinates

#: On no more rows than these, compiling quickly gains more than it costs.
_FEW_ROWS = 10_000


class Evaluation(NamedTuple):
    """The objective at one point: value, gradient, scalars for the trace, and whether all are finite."""

    value: jax.Array
    gradient: Any
    followed: dict[str, jax.Array]
    finite: jax.Array


def evaluate(point, fixed, rows: PlacedRows, key: jax.Array | None = None) -> Evaluation:
    """The objective of the model of ``point`` and ``fixed``, and its gradient in ``point``. Pure."""

    def objective(point):
        return eqx.combine(point, fixed).objective(rows, key)

    (value, followed), gradient = jax.value_and_grad(objective, has_aux=True)(point)
    squares = (jnp.sum(g * g) for g in jax.tree.leaves(gradient))
    norm = jnp.sqrt(sum(squares, jnp.zeros((), value.dtype)))
    finite = jnp.isfinite(value) & jnp.isfinite(norm)
    return Evaluation(value, gradient, {"gradient_norm": norm, **followed}, finite)


def choose(condition, yes, no):
    """One of two trees of the same shapes, by a flag that may be traced."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


class Parts(NamedTuple):
    """The parts of an `Objective` that its compiled programs take."""

    start: Any
    fixed: Any
    rows: PlacedRows
    units: jax.Array

    def at_vector(self, x: jax.Array) -> Evaluation:
        """The objective, and its gradient as a vector, at the vector ``x`` (see `coordinates`)."""
        point, pull = jax.vjp(lambda x: coordinates.to_point(x, self.units, self.start), x)
        found = evaluate(point, self.fixed, self.rows)
        return found._replace(gradient=pull(found.gradient)[0])


class Scalars(eqx.Module):
    """Named numbers in one array, so that reading them takes one transfer from the device."""

    values: jax.Array
    names: tuple[str, ...] = eqx.field(static=True)

    @classmethod
    def of(cls, named: dict[str, Any]) -> "Scalars":
        """From scalars and flags."""
        dtype = jnp.result_type(float)
        return cls(jnp.stack([jnp.asarray(value, dtype) for value in named.values()]), tuple(named))

    def read(self) -> dict[str, float]:
        """The numbers on the host."""
        return dict(zip(self.names, np.asarray(self.values, np.float64).tolist(), strict=True))


class Objective:
    """``model.objective(rows)`` over the trained leaves of ``model``, to be maximised.

    ``mesh`` are the devices that programs run on, if not those of ``rows``.
    """

    def __init__(self, model, rows: PlacedRows, mesh: Mesh | None = None):
        self.rows, self._mesh = rows, mesh or rows.spread_over
        self.start, self.fixed = eqx.partition(model, parameters.trainable(model))
        if not jax.tree.leaves(self.start):
            raise ValueError("model has no trained parameter: every one is frozen; unfreeze one, or do without fit")
        self._units = coordinates.units(self.start)
        self._parts = Parts(self.start, self.fixed, rows, jnp.asarray(self._units))

    def model(self, point) -> Any:
        """The model at ``point``."""
        return eqx.combine(self.fixed, point)  # static parts come from ``fixed``: a program's may be another fit's

    def program(self, function: Callable, *more: Any) -> Callable:
        """``function(parts, *more, *arguments)`` as a compiled function of ``arguments``.

        Trees of modules are flattened once here and not in each call, which takes longer than a small problem's
        arithmetic. Objectives that differ in their numbers alone share one compiled program.
        """
        leaves, structure = jax.tree.flatten((self._parts, more))
        quick = self.rows.num_rows <= _FEW_ROWS
        arrays, others = eqx.partition(leaves, lambda leaf: isinstance(leaf, jax.Array | np.ndarray))
        return functools.partial(_compiled(function, structure, tuple(others), quick), arrays)

    def advance(self, program: Callable, state: Any) -> tuple[Any, dict[str, float]]:
        """Run a program on a state: the next state, and the numbers it reports."""
        state, scalars = program(state)
        return state, scalars.read()

    def placed(self, tree: Any) -> Any:
        """Arrays where the programs leave their results."""
        return replicated(tree, self._mesh)

    def to_vector(self, point) -> np.ndarray:
        """``point`` as one float64 vector, in which one step length suits all (see `coordinates`)."""
        return coordinates.to_vector(point, self._units)

    def from_vector(self, vector: np.ndarray | jax.Array) -> Any:
        """The point of a vector."""
        point = coordinates.to_point(np.asarray(vector), self._units, self.start)
        return jax.tree.map(jnp.asarray, point)

    @functools.cached_property
    def at_vector(self) -> Callable[[np.ndarray | jax.Array], Evaluation]:
        """A compiled function of a vector: the objective there, and its gradient as a vector."""
        return self.program(Parts.at_vector)

    def score(self, point, rows) -> float:
        """How well the model at ``point`` predicts held-out ``rows``."""
        return float(_score(distributed.to_one_device(point), self.fixed, rows))


@functools.lru_cache(maxsize=128)
def _compiled(function: Callable, structure: jax.tree_util.PyTreeDef, others: tuple, quick: bool) -> Callable:
    """``function``, compiled for a tree of this structure with ``others`` as the leaves that are no arrays.

    ``quick`` is for rows so few that compiling would take longer than running.
    """

    def program(arrays, *arguments):
        parts, more = jax.tree.unflatten(structure, eqx.combine(arrays, list(others)))
        return function(parts, *more, *arguments)

    return jax.jit(program, compiler_options=compiling.options("often") if quick else None)


@eqx.filter_jit
def _score(point, fixed, rows):
    return eqx.combine(point, fixed).score(rows)
