"""First-order optimisers as pairs of pure functions: any optax transformation, after natural-gradient steps for q(u).

Full-batch and minibatch training share them.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from tightgp.data.placement import PlacedRows
from tightgp.training.objective import choose, evaluate

ADAM = optax.scale_by_adam()


class State(NamedTuple):
    """The point and the transformation's memory, and both at the last point with a finite objective.

    ``shrink`` multiplies all learning rates, ``caution`` that of natural gradients alone.
    """

    point: Any
    memory: Any
    good_point: Any
    good_memory: Any
    shrink: jax.Array
    caution: jax.Array
    taken: jax.Array
    rejected: jax.Array


class Step(NamedTuple):
    """Where a step evaluated the objective: point, value, scalars for the trace, and whether all are finite.

    ``before`` is the value before the natural-gradient step on these rows, which a minibatch's trace reports.
    """

    point: Any
    value: jax.Array
    before: jax.Array
    followed: dict[str, jax.Array]
    finite: jax.Array


class FirstOrder(eqx.Module):
    """An optax transformation, and natural gradients where ``natural_rate`` is given.

    ``rate`` multiplies the updates of Adam; None takes the updates of a user's transformation as they are. Numbers are
    arrays, so that other numbers need no other program.
    """

    transformation: optax.GradientTransformation = eqx.field(static=True)
    rate: jax.Array | Callable | None
    natural_rate: jax.Array | None = None

    @classmethod
    def adam(cls, learning_rate: float | Callable, natural_rate: float | None = None) -> "FirstOrder":
        """Adam, with a learning rate or a function of the step that gives it."""
        rate = learning_rate if callable(learning_rate) else jnp.asarray(float(learning_rate))
        return cls(ADAM, rate, None if natural_rate is None else jnp.asarray(float(natural_rate)))

    def init(self, point) -> State:
        """The state before the first step."""
        memory = self.transformation.init(self._split(point)[1])
        one, zero = jnp.ones((), jax.tree.leaves(point)[0].dtype), jnp.asarray(0)
        return State(point, memory, point, memory, one, one, zero, zero)

    def step(self, s: State, fixed: Any, rows: PlacedRows, key: jax.Array | None = None) -> tuple[State, Step]:
        """One step on ``rows``, from the model of ``s.point`` and ``fixed``; ``key`` is for draws.

        Where the objective is not finite, half of the last step is taken back, and the learning rates are halved; they
        grow again step by step. A natural-gradient step that lowers the objective of its own rows is not taken, and
        the next ones are half as long; each that succeeds makes the next longer again, up to the wanted length.
        """
        moved, before, finite = self._natural(s, fixed, rows, key)
        natural, rest = self._split(moved)
        found = evaluate(rest, eqx.combine(natural, fixed), rows, key)
        if before is None:
            before, finite, gained = found.value, found.finite, found.finite
        else:
            slack = jnp.sqrt(jnp.finfo(found.value.dtype).eps) * (1 + jnp.abs(before))  # rounding is no loss
            gained = finite & found.finite & (found.value >= before - slack)
        down = jax.tree.map(lambda g: jnp.where(gained, -g, 0.0), found.gradient)
        updates, next_memory = self.transformation.update(down, s.memory, rest)
        shrink = jnp.where(finite, jnp.minimum(1.2 * s.shrink, 1.0), 0.5 * s.shrink)
        rate = self.rate(s.taken) if callable(self.rate) else self.rate
        scale = shrink if rate is None else -shrink * rate
        onwards = eqx.combine(natural, jax.tree.map(lambda x, u: x + jnp.asarray(scale, x.dtype) * u, rest, updates))
        halfway = jax.tree.map(_halfway, s.good_point, s.point)
        new = State(
            point=choose(gained, onwards, choose(finite, s.point, halfway)),
            memory=choose(gained, next_memory, choose(finite, s.memory, s.good_memory)),
            good_point=choose(finite, s.point, s.good_point),
            good_memory=choose(finite, s.memory, s.good_memory),
            shrink=shrink,
            caution=jnp.where(gained, jnp.minimum(1.5 * s.caution, 1.0), jnp.maximum(0.5 * s.caution, 1e-9)),
            taken=s.taken + 1,
            rejected=s.rejected + ~finite,
        )
        point, reached = choose(gained, moved, s.point), jnp.where(gained, found.value, before)
        followed = {**found.followed, "learning_rate": shrink if rate is None else shrink * rate}
        if self.natural_rate is not None:
            followed["natural_scale"] = s.shrink * s.caution
        return new, Step(point, reached, before, followed, finite)

    def _split(self, point) -> tuple[Any, Any]:
        """``point`` in two: what natural gradients train, and the rest."""
        if self.natural_rate is None:
            return eqx.partition(point, False)
        return eqx.partition(point, jax.tree.map(has_natural_step, point, is_leaf=has_natural_step))

    def _natural(self, s: State, fixed: Any, rows: PlacedRows, key: jax.Array | None):
        """``s.point`` after natural-gradient steps, the objective before them, and whether that was finite."""
        if self.natural_rate is None:
            return s.point, None, None
        natural, rest = self._split(s.point)
        found = evaluate(natural, eqx.combine(rest, fixed), rows, key)
        rate = s.shrink * s.caution * self.natural_rate.astype(s.shrink.dtype)

        def move(node, gradient):
            return node.natural_step(gradient, rate) if has_natural_step(node) else node

        moved = jax.tree.map(move, eqx.combine(s.point, fixed), found.gradient, is_leaf=has_natural_step)
        trained = jax.tree.map(lambda leaf: leaf is not None, s.point, is_leaf=lambda leaf: leaf is None)
        return eqx.partition(moved, trained)[0], found.value, found.finite


def has_natural_step(node) -> bool:
    """Whether a part of a model can take a natural-gradient step of its own."""
    return hasattr(node, "natural_step")


def _halfway(good, x):
    return jnp.where(jnp.isfinite(x), good + 0.5 * (x - good), good)
