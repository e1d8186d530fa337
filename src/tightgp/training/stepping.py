"""One step of Adam, after a natural-gradient step where wanted: what full-batch and minibatch training share."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax

from tightgp.training.problem import evaluate


class Settings(NamedTuple):
    """How to step: Adam's learning rate, a number or a function of the step, and that of natural gradients."""

    learning_rate: jax.Array | Callable
    natural_rate: jax.Array | None = None

    @classmethod
    def of(cls, learning_rate: float | Callable, natural_rate: float | None = None) -> "Settings":
        """Numbers as arrays, so that another number needs no other program."""
        rate = learning_rate if callable(learning_rate) else jnp.asarray(float(learning_rate))
        return cls(rate, None if natural_rate is None else jnp.asarray(float(natural_rate)))

    def rate(self, step):
        """Adam's learning rate at ``step``."""
        return self.learning_rate(step) if callable(self.learning_rate) else self.learning_rate


class State(NamedTuple):
    """Where training stands, and where it last stood on firm ground.

    ``shrink`` multiplies the learning rates, ``caution`` that of natural gradients alone.
    """

    point: Any
    adam: Any
    good_point: Any
    good_adam: Any
    shrink: jax.Array
    caution: jax.Array
    taken: jax.Array
    rejected: jax.Array


def is_natural(node) -> bool:
    """Whether a part of a model knows how to take a natural-gradient step of its own."""
    return hasattr(node, "natural_step")


def _natural_leaves(model):
    """A tree of booleans like ``model``: True inside what takes natural steps."""
    return jax.tree.map(lambda node: jax.tree.map(lambda _: is_natural(node), node), model, is_leaf=is_natural)


def split(point, settings: Settings):
    """``point`` in two: what natural gradients train, and what Adam does."""
    if settings.natural_rate is None:
        return jax.tree.map(lambda _: None, point), point
    return eqx.partition(point, _natural_leaves(point))


def begin(point, settings: Settings) -> State:
    """The state before the first step."""
    adam = optax.scale_by_adam().init(split(point, settings)[1])
    dtype = jax.tree.leaves(point)[0].dtype
    one, zero = jnp.ones((), dtype), jnp.asarray(0)
    return State(point, adam, point, adam, one, one, zero, zero)


class Step(NamedTuple):
    """The next state; where the objective was evaluated on the way there, its value and companions.

    ``before`` is the objective before the natural-gradient step, which has not seen these rows yet: what to
    report of a minibatch.
    """

    state: State
    point: Any
    value: jax.Array
    before: jax.Array
    followed: dict[str, jax.Array]
    finite: jax.Array


def step(s: State, fixed, rows, settings: Settings) -> Step:
    """One step on ``rows``.

    Where the objective is not finite, the last step is taken back half of its way, and the learning rates are
    halved; they grow back step by step. A natural-gradient step that lowers the objective of its own rows is not taken,
    and the next ones are half as long; each that succeeds makes the next half longer again, up to the wanted length.
    """
    if settings.natural_rate is None:
        moved, before, firm = s.point, None, None
    else:
        moved, before, firm = _natural(s, fixed, rows, settings, settings.natural_rate)
    natural, rest = split(moved, settings)
    value, gradient, followed, finite = evaluate(rest, eqx.combine(natural, fixed), rows)
    if before is None or firm is None:
        before, firm, gained = value, finite, finite
    else:
        slack = jnp.sqrt(jnp.finfo(value.dtype).eps) * (1 + jnp.abs(before))  # rounding is no loss
        gained = firm & finite & (value >= before - slack)
    down = jax.tree.map(lambda g: jnp.where(gained, -g, 0.0), gradient)
    direction, next_adam = optax.scale_by_adam().update(down, s.adam)
    shrink = jnp.where(firm, jnp.minimum(1.2 * s.shrink, 1.0), 0.5 * s.shrink)
    rate = shrink * settings.rate(s.taken)
    onwards = eqx.combine(natural, jax.tree.map(lambda x, d: x - jnp.asarray(rate, x.dtype) * d, rest, direction))
    halfway = jax.tree.map(_halfway, s.good_point, s.point)
    new = State(
        point=_choose(gained, onwards, _choose(firm, s.point, halfway)),
        adam=_choose(gained, next_adam, _choose(firm, s.adam, s.good_adam)),
        good_point=_choose(firm, s.point, s.good_point),
        good_adam=_choose(firm, s.adam, s.good_adam),
        shrink=shrink,
        caution=jnp.where(gained, jnp.minimum(1.5 * s.caution, 1.0), jnp.maximum(0.5 * s.caution, 1e-9)),
        taken=s.taken + 1,
        rejected=s.rejected + ~firm,
    )
    point, reached = _choose(gained, moved, s.point), jnp.where(gained, value, before)
    followed = {**followed, "learning_rate": rate}
    if settings.natural_rate is not None:
        followed["natural_scale"] = s.shrink * s.caution
    return Step(new, point, reached, before, followed, firm)


def _halfway(good, x):
    return jnp.where(jnp.isfinite(x), good + 0.5 * (x - good), good)


def _choose(condition, yes, no):
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


def _natural(s: State, fixed, rows, settings: Settings, natural_rate: jax.Array):
    """``s.point`` after every part that can has taken its natural-gradient step, and the objective before it and
    whether that was finite."""
    natural, rest = split(s.point, settings)
    value, gradient, _, finite = evaluate(natural, eqx.combine(rest, fixed), rows)
    rate = s.shrink * s.caution * natural_rate.astype(s.shrink.dtype)

    def move(node, bar):
        return node.natural_step(bar, rate) if is_natural(node) else node

    moved = jax.tree.map(move, eqx.combine(s.point, fixed), gradient, is_leaf=is_natural)
    wanted = jax.tree.map(lambda leaf: leaf is not None, s.point, is_leaf=lambda leaf: leaf is None)
    return eqx.partition(moved, wanted)[0], value, finite
