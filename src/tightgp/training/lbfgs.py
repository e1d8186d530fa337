"""L-BFGS: a quasi-Newton method that approximates the inverse Hessian by the last steps and gradient changes.

The direction is that of Nocedal's two-loop recursion, computed by a few matrix products (Byrd, Nocedal & Schnabel 1994,
theorem 2.2). Step lengths satisfy the strong Wolfe conditions (Nocedal & Wright 2006, algorithms 3.5 and 3.6). The
optimiser is a pair of pure functions: `init`, and `step`, which evaluates the objective exactly once.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp.numerics.device import per_backend
from tightgp.training.objective import Evaluation, choose

#: Wolfe conditions: a step must gain this share of what the slope promises, and leave at most this share of the slope.
_SUFFICIENT, _CURVATURE = 1e-3, 0.9
#: Most evaluations of one line search, and most retries of a failed one: first downhill, then ever closer.
_MAX_TRIALS, _MAX_RETRIES = 20, 4
_CLOSER = 1e-3
#: Remember as many steps as fit into these bytes, but 20 to 100. A longer memory gains more per step; but a function
#: of few variables should forget, since its curvature changes on the way.
_LEAST, _MOST = 20, 100
_MEMORY_BYTES = {"cpu": 8 << 20, "gpu": 512 << 20}


class LineSearchPoint(NamedTuple):
    """One trial point of the line search: step length, and value and slope of the function that is minimised."""

    length: Float[Array, ""]
    value: Float[Array, ""]
    slope: Float[Array, ""]


class Memory(NamedTuple):
    """The last steps and the changes of the gradient, the newest last; ``known`` of them are filled.

    ``crossed`` has the inner products of steps (rows) with changes, ``squared`` those of changes with each other.
    """

    steps: Float[Array, "m n"]
    changes: Float[Array, "m n"]
    crossed: Float[Array, "m m"]
    squared: Float[Array, "m m"]
    known: Array


class Search(NamedTuple):
    """A line search: the next length to try, and the interval from low to high once it brackets a minimum.

    ``low`` is its lower end. ``best`` is the lowest point seen; ``take`` says to accept the next trial as it is.
    """

    length: Float[Array, ""]
    low: LineSearchPoint
    high: LineSearchPoint
    best: LineSearchPoint
    bracketed: Array
    take: Array
    trials: Array
    retries: Array


class State(NamedTuple):
    """The state of L-BFGS. Values, gradients and slopes are those of the negative objective, which is minimised."""

    x: Float[Array, " n"]
    value: Float[Array, ""]
    gradient: Float[Array, " n"]
    direction: Float[Array, " n"]
    slope: Float[Array, ""]
    memory: Memory
    search: Search
    best_x: Float[Array, " n"]
    best_value: Float[Array, ""]
    started: Array


class Report(NamedTuple):
    """The outcome of one evaluation.

    ``accepted`` says that it ended a step (or was the start), ``gain`` is that step's relative gain, ``steepest`` the
    largest absolute entry of the gradient there, ``best`` the highest objective so far. ``failed`` says that the search
    and its retries found no better point.
    """

    value: Float[Array, ""]
    finite: Array
    accepted: Array
    failed: Array
    gain: Float[Array, ""]
    steepest: Float[Array, ""]
    best: Float[Array, ""]


class LBFGS(eqx.Module):
    """L-BFGS over vectors, as a pair of pure functions."""

    def init(self, x: Float[Array, " n"], memory_size: int | None = None) -> State:
        """The state at the start ``x``, before anything is evaluated."""
        n, zero = len(x), jnp.zeros((), x.dtype)
        m = memory_size or max(_LEAST, min(_MOST, n, per_backend(_MEMORY_BYTES) // (16 * n)))
        nothing, square = jnp.zeros((m, n), x.dtype), jnp.zeros((m, m), x.dtype)
        flat, infinite = jnp.zeros_like(x), jnp.asarray(jnp.inf, x.dtype)
        return State(
            x=x,
            value=infinite,
            gradient=flat,
            direction=flat,
            slope=zero,
            memory=Memory(nothing, nothing, square, square, jnp.asarray(0)),
            search=_new_search(infinite, zero, jnp.asarray(0)),
            best_x=x,
            best_value=infinite,
            started=jnp.asarray(False),
        )

    def trial_point(self, state: State) -> Float[Array, " n"]:
        """Where the next step evaluates the objective."""
        return state.x + state.search.length * state.direction  # the start: its direction is zero

    def step(self, state: State, evaluate: Callable[[Array], Evaluation], trial=None) -> tuple[State, Report, dict]:
        """Evaluate the objective once.

        Args:
            state: the current state.
            evaluate: gives the objective, which is to be maximised, at a vector.
            trial: where to evaluate it, if not at `trial_point`.

        Returns:
            The next state, a report, and the objective's scalars for the trace.
        """
        x = self.trial_point(state) if trial is None else trial
        found = evaluate(x)
        value = jnp.where(found.finite, -found.value, jnp.inf).astype(x.dtype)
        gradient = jnp.where(found.finite, -found.gradient, 0.0).astype(x.dtype)
        here = LineSearchPoint(state.search.length, value, gradient @ state.direction)
        search, accepted, exhausted = _searched(state, here)
        exhausted = exhausted & state.started
        accepted = jnp.where(state.started, accepted, found.finite)
        memory = _remember(state, here.length, gradient, accepted & state.started)
        new_value = jnp.where(accepted, value, state.value)
        new_gradient = jnp.where(accepted, gradient, state.gradient)
        retry = jnp.where(exhausted, _closer(state), state.direction)
        direction = jnp.where(accepted, _direction(memory, gradient), retry)
        slope = new_gradient @ direction
        retries = jnp.where(accepted, 0, state.search.retries + 1)
        larger = jnp.maximum(jnp.abs(state.value), jnp.abs(new_value))
        new = State(
            x=jnp.where(accepted, x, state.x),
            value=new_value,
            gradient=new_gradient,
            direction=direction,
            slope=slope,
            memory=memory._replace(known=jnp.where(exhausted, 0, memory.known)),
            search=choose(accepted | exhausted, _new_search(new_value, slope, retries), search),
            best_x=jnp.where(value < state.best_value, x, state.best_x),
            best_value=jnp.minimum(value, state.best_value),
            started=state.started | accepted,
        )
        report = Report(
            value=-value,
            finite=found.finite,
            accepted=accepted,
            failed=exhausted & (state.search.retries >= _MAX_RETRIES),
            gain=(state.value - new_value) / jnp.maximum(larger, 1.0),
            steepest=jnp.max(jnp.abs(new_gradient)),
            best=-new.best_value,
        )
        return new, report, found.followed


def _new_search(value, slope, retries) -> Search:
    """A search that begins with a step of length one, at a point with this value and slope."""
    zero, no = jnp.zeros_like(value), jnp.asarray(False)
    start, nothing = LineSearchPoint(zero, value, slope), LineSearchPoint(zero, jnp.full_like(value, jnp.inf), zero)
    return Search(jnp.ones_like(value), start, start, nothing, no, no, jnp.asarray(0), retries)


def _searched(state: State, here: LineSearchPoint) -> tuple[Search, Array, Array]:
    """The search after a trial; whether the trial is accepted; whether the search has failed."""
    search, value, slope = state.search, state.value, state.slope
    low, high = search.low, search.high
    too_high = (here.value > value + _SUFFICIENT * here.length * slope) | (here.value >= low.value)
    accepted = (~too_high & (jnp.abs(here.slope) <= -_CURVATURE * slope)) | search.take
    # Too high: the minimum is between low and here. Rising: between here and low. Else it is further on.
    rising = here.slope * jnp.where(search.bracketed, high.length - low.length, 1.0) >= 0
    bracketed = search.bracketed | too_high | rising
    high = choose(too_high, here, choose(rising, low, high))
    low = choose(too_high, low, here)
    best = choose(here.value < jnp.minimum(value, search.best.value), here, search.best)
    spent = (search.trials + 1 >= _MAX_TRIALS) & ~accepted
    take = spent & jnp.isfinite(best.value)  # no Wolfe point, but a lower one: evaluate it again, and go on there
    length = jnp.where(bracketed, _between(low, high), 2.0 * here.length)
    length = jnp.where(take, best.length, length)
    uphill = ~(slope < 0)
    search = Search(length, low, high, best, bracketed, take, search.trials + 1, search.retries)
    return search, accepted & ~uphill, (spent & ~take) | uphill


def _between(low: LineSearchPoint, high: LineSearchPoint) -> Float[Array, ""]:
    """The minimum of the cubic through both ends, or of the parabola through ``low``; away from the ends."""
    width, rise = high.length - low.length, high.value - low.value
    theta = low.slope + high.slope - 3 * rise / width
    square = theta * theta - low.slope * high.slope
    root = jnp.sign(width) * jnp.sqrt(jnp.maximum(square, 0.0))
    cubic = 1 - (high.slope + root - theta) / (high.slope - low.slope + 2 * root)
    parabola = -0.5 * low.slope * width / (rise - low.slope * width)
    share = jnp.where((square >= 0) & jnp.isfinite(cubic), cubic, parabola)
    share = jnp.where(jnp.isfinite(high.value) & jnp.isfinite(share), jnp.clip(share, 0.1, 0.9), 0.25)
    return low.length + share * width


def _remember(state: State, length, gradient, accepted) -> Memory:
    """The memory with the accepted step, unless the function does not curve upwards along it."""
    memory, step, change = state.memory, length * state.direction, gradient - state.gradient
    kept = accepted & (step @ change > jnp.finfo(change.dtype).eps * (change @ change))
    steps = jnp.concatenate([memory.steps[1:], step[None]])
    changes = jnp.concatenate([memory.changes[1:], change[None]])
    crossed = _extended(memory.crossed, _times(steps, change), _times(changes, step))
    of_change = _times(changes, change)
    squared = _extended(memory.squared, of_change, of_change)
    known = jnp.minimum(memory.known + 1, len(steps))
    return choose(kept, Memory(steps, changes, crossed, squared, known), memory)


def _extended(square: Float[Array, "m m"], column: Float[Array, " m"], row: Float[Array, " m"]) -> Float[Array, "m m"]:
    """A matrix moved up and left by one, with a new last column and row."""
    return jnp.concatenate([jnp.concatenate([square[1:, 1:], column[:-1, None]], axis=1), row[None]])


def _direction(memory: Memory, gradient) -> Float[Array, " n"]:
    """Minus the approximate inverse Hessian times the gradient; without memory, one unit downhill."""
    m = len(memory.steps)
    known = jnp.arange(m) >= m - memory.known
    some = memory.known > 0
    both = known[:, None] & known
    crossed, squared = jnp.where(both, memory.crossed, 0.0), jnp.where(both, memory.squared, 0.0)
    triangle = jnp.triu(crossed) + jnp.diag(jnp.where(known, 0.0, 1.0).astype(crossed.dtype))
    scale = jnp.where(some, crossed[-1, -1] / jnp.where(some, squared[-1, -1], 1.0), _unit(gradient))
    of_steps = jnp.where(known, _times(memory.steps, gradient), 0.0)
    of_changes = jnp.where(known, _times(memory.changes, gradient), 0.0)
    along = jax.scipy.linalg.solve_triangular(triangle, of_steps)
    curved = jnp.diagonal(crossed) * along + scale * (squared @ along - of_changes)
    weights = jax.scipy.linalg.solve_triangular(triangle, curved, trans=1)
    return scale * _sum(along, memory.changes) - scale * gradient - _sum(weights, memory.steps)


def _closer(state: State) -> Float[Array, " n"]:
    """The direction after a failed search: one unit downhill; after that, the same direction, less far."""
    downhill = -_unit(state.gradient) * state.gradient
    return jnp.where(state.memory.known > 0, downhill, _CLOSER * state.direction)


def _unit(gradient) -> Float[Array, ""]:
    """One over the length of the gradient."""
    length = jnp.sqrt(gradient @ gradient)
    return 1 / jnp.where(length > 0, length, 1.0)


def _times(rows: Float[Array, "m n"], vector: Float[Array, " n"]) -> Float[Array, " m"]:
    """``rows @ vector`` as a sum, which an accelerator shares among all of its cores."""
    return jnp.sum(rows * vector, axis=1)


def _sum(weights: Float[Array, " m"], rows: Float[Array, "m n"]) -> Float[Array, " n"]:
    """``weights @ rows``, in the same way."""
    return jnp.sum(weights[:, None] * rows, axis=0)
