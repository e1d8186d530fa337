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
from tightgp.training.objective import Evaluation

#: Wolfe conditions: a step must gain this share of what the slope promises, and leave at most this share of the slope.
_SUFFICIENT, _CURVATURE = 1e-3, 0.9
#: Evaluations of one line search, and how often a failed search is tried again: first downhill, then ever closer.
_MAX_TRIALS, _MAX_RETRIES = 20, 4
_CLOSER = 1e-3
#: Steps that are remembered: as many as fit into so many bytes, but between 20 and 100. More take training further in
#: as many steps; a function of few variables, whose curvature changes on the way, had better forget.
_LEAST, _MOST = 20, 100
_MEMORY_BYTES = {"cpu": 8 << 20, "gpu": 512 << 20}
#: A point of the line search is an array: step length, value and slope of the function that is minimised.
_LENGTH, _VALUE, _SLOPE = 0, 1, 2
Point = Float[Array, " 3"]


class Memory(NamedTuple):
    """The last steps and what each changed in the gradient, the newest last; ``known`` of them are filled.

    ``crossed`` has the products of steps (rows) with changes, ``squared`` those of changes with each other.
    """

    steps: Float[Array, "m n"]
    changes: Float[Array, "m n"]
    crossed: Float[Array, "m m"]
    squared: Float[Array, "m m"]
    known: Array


class Search(NamedTuple):
    """A line search: the next length to try, and the interval [low, high] once a minimum is bracketed.

    ``low`` is its best end. ``best`` is the lowest point seen, ``take`` says to accept the next trial as it is.
    """

    length: Float[Array, ""]
    low: Point
    high: Point
    best: Point
    bracketed: Array
    take: Array
    trials: Array
    retries: Array


class State(NamedTuple):
    """Where L-BFGS stands. Values, gradients and slopes are those of the negative objective, which is minimised."""

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
    """What one evaluation brought.

    ``accepted`` says that it ended a step (or was the start), ``gain`` is that step's relative gain, ``steepest`` the
    largest entry of the gradient there, ``best`` the highest objective so far; ``failed`` says that no better point can
    be found.
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
        """Evaluate the objective once, and go on from there.

        ``evaluate`` gives the objective that is to be maximised. ``trial`` is where, if not at `trial_point`. Returns
        the next state, a report, and the objective's scalars to follow.
        """
        x = self.trial_point(state) if trial is None else trial
        found = evaluate(x)
        value = jnp.where(found.finite, -found.value, jnp.inf).astype(x.dtype)
        gradient = jnp.where(found.finite, -found.gradient, 0.0).astype(x.dtype)
        here = jnp.stack([state.search.length, value, gradient @ state.direction])
        search, accepted, exhausted = _searched(state, here)
        exhausted = exhausted & state.started
        accepted = jnp.where(state.started, accepted, found.finite)
        memory = _remember(state, here[_LENGTH], gradient, accepted & state.started)
        onward, down = _direction(memory, gradient)
        again, down_again = _closer(state)
        value, slope = _pick(
            accepted, (value, down), _pick(exhausted, (state.value, down_again), (state.value, state.slope))
        )
        retries = jnp.where(accepted, 0, state.search.retries + 1)
        gain = (state.value - value) / jnp.maximum(jnp.maximum(jnp.abs(state.value), jnp.abs(value)), 1.0)
        better = here[_VALUE] < state.best_value
        new = State(
            x=jnp.where(accepted, x, state.x),
            value=value,
            gradient=jnp.where(accepted, gradient, state.gradient),
            direction=jnp.where(accepted, onward, jnp.where(exhausted, again, state.direction)),
            slope=slope,
            memory=memory._replace(known=jnp.where(exhausted, 0, memory.known)),
            search=_pick(accepted | exhausted, _new_search(value, slope, retries), search),
            best_x=jnp.where(better, x, state.best_x),
            best_value=jnp.minimum(here[_VALUE], state.best_value),
            started=state.started | accepted,
        )
        report = Report(
            value=-here[_VALUE],
            finite=found.finite,
            accepted=accepted,
            failed=exhausted & (state.search.retries >= _MAX_RETRIES),
            gain=gain,
            steepest=jnp.max(jnp.abs(new.gradient)),
            best=-new.best_value,
        )
        return new, report, found.followed


def _new_search(value, slope, retries) -> Search:
    """A search that begins with a step of length one, at a point with this value and slope."""
    zero, no = jnp.zeros_like(value), jnp.asarray(False)
    start = jnp.stack([zero, value, slope])
    nothing = jnp.stack([zero, jnp.full_like(value, jnp.inf), zero])
    return Search(jnp.ones_like(value), start, start, nothing, no, no, jnp.asarray(0), retries)


def _searched(state: State, here: Point) -> tuple[Search, Array, Array]:
    """The search after a trial; whether the trial is accepted, and whether the search has come to nothing."""
    search, value, slope = state.search, state.value, state.slope
    low, high = search.low, search.high
    too_high = (here[_VALUE] > value + _SUFFICIENT * here[_LENGTH] * slope) | (here[_VALUE] >= low[_VALUE])
    accepted = (~too_high & (jnp.abs(here[_SLOPE]) <= -_CURVATURE * slope)) | search.take
    # Too high: the minimum is between low and here. Rising: between here and low. Else it is further on.
    rising = here[_SLOPE] * jnp.where(search.bracketed, high[_LENGTH] - low[_LENGTH], 1.0) >= 0
    bracketed = search.bracketed | too_high | rising
    high = jnp.where(too_high, here, jnp.where(rising, low, high))
    low = jnp.where(too_high, low, here)
    best = jnp.where(here[_VALUE] < jnp.minimum(value, search.best[_VALUE]), here, search.best)
    spent = (search.trials + 1 >= _MAX_TRIALS) & ~accepted
    take = spent & jnp.isfinite(best[_VALUE])  # no Wolfe point, but a lower one: evaluate it again, and go on there
    length = jnp.where(bracketed, _between(low, high), 2.0 * here[_LENGTH])
    length = jnp.where(take, best[_LENGTH], length)
    uphill = ~(slope < 0)
    search = Search(length, low, high, best, bracketed, take, search.trials + 1, search.retries)
    return search, accepted & ~uphill, (spent & ~take) | uphill


def _between(low: Point, high: Point) -> Float[Array, ""]:
    """The minimum of the cubic through both ends, or of the parabola through ``low``; away from the ends."""
    width, rise = high[_LENGTH] - low[_LENGTH], high[_VALUE] - low[_VALUE]
    theta = low[_SLOPE] + high[_SLOPE] - 3 * rise / width
    square = theta * theta - low[_SLOPE] * high[_SLOPE]
    root = jnp.sign(width) * jnp.sqrt(jnp.maximum(square, 0.0))
    cubic = 1 - (high[_SLOPE] + root - theta) / (high[_SLOPE] - low[_SLOPE] + 2 * root)
    parabola = -0.5 * low[_SLOPE] * width / (rise - low[_SLOPE] * width)
    share = jnp.where((square >= 0) & jnp.isfinite(cubic), cubic, parabola)
    share = jnp.where(jnp.isfinite(high[_VALUE]) & jnp.isfinite(share), jnp.clip(share, 0.1, 0.9), 0.25)
    return low[_LENGTH] + share * width


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
    return _pick(kept, Memory(steps, changes, crossed, squared, known), memory)


def _extended(square: Float[Array, "m m"], column: Float[Array, " m"], row: Float[Array, " m"]) -> Float[Array, "m m"]:
    """A matrix moved up and left by one, with a new last column and row."""
    return jnp.concatenate([jnp.concatenate([square[1:, 1:], column[:-1, None]], axis=1), row[None]])


def _direction(memory: Memory, gradient) -> tuple[Float[Array, " n"], Float[Array, ""]]:
    """Minus the approximate inverse Hessian times the gradient, and the slope along it.

    Where nothing is remembered, one unit downhill.
    """
    m = len(memory.steps)
    known = jnp.arange(m) >= m - memory.known
    some = memory.known > 0
    crossed = jnp.where(known[:, None] & known, memory.crossed, 0.0)
    squared = jnp.where(known[:, None] & known, memory.squared, 0.0)
    triangle = jnp.triu(crossed) + jnp.diag(jnp.where(known, 0.0, 1.0).astype(crossed.dtype))
    scale = jnp.where(some, crossed[-1, -1] / jnp.where(some, squared[-1, -1], 1.0), _unit(gradient))
    of_steps = jnp.where(known, _times(memory.steps, gradient), 0.0)
    of_changes = jnp.where(known, _times(memory.changes, gradient), 0.0)
    along = jax.scipy.linalg.solve_triangular(triangle, of_steps)
    curved = jnp.diagonal(crossed) * along + scale * (squared @ along - of_changes)
    weights = jax.scipy.linalg.solve_triangular(triangle, curved, trans=1)
    ahead = scale * gradient + _sum(weights, memory.steps) - scale * _sum(along, memory.changes)
    return -ahead, -(gradient @ ahead)


def _closer(state: State) -> tuple[Array, Array]:
    """Where to go after a search that came to nothing: straight down; or if that was tried, the same way, less far."""
    known = state.memory.known > 0
    unit = _unit(state.gradient)
    direction = jnp.where(known, -unit * state.gradient, _CLOSER * state.direction)
    return direction, jnp.where(known, -1 / unit, _CLOSER * state.slope)


def _unit(gradient) -> Float[Array, ""]:
    """One over the length of the gradient."""
    length = jnp.sqrt(gradient @ gradient)
    return 1 / jnp.where(length > 0, length, 1.0)


def _times(rows: Float[Array, "m n"], vector: Float[Array, " n"]) -> Float[Array, " m"]:
    """Products of each row with a vector, as sums, which an accelerator shares among all of its cores."""
    return jnp.sum(rows * vector, axis=1)


def _sum(weights: Float[Array, " m"], rows: Float[Array, "m n"]) -> Float[Array, " n"]:
    """A weighted sum of rows."""
    return jnp.sum(weights[:, None] * rows, axis=0)


def _pick(condition, yes, no):
    """One of two trees of the same shapes."""
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)
