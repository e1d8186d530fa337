"""L-BFGS against BFGS's own formula, and its line search on functions that are hard for one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tightgp.training.lbfgs import LBFGS
from tightgp.training.objective import Evaluation

BFGS = LBFGS()


def minimise(function, start, evaluations, memory=None):
    """The states after each evaluation of a function that falls, and what each reported."""

    def evaluate(x):
        value, gradient = jax.value_and_grad(function)(x)
        return Evaluation(-value, -gradient, {}, jnp.isfinite(value))

    step = jax.jit(lambda state: BFGS.step(state, evaluate)[:2])
    states, reports = [BFGS.init(jnp.asarray(start, float), memory)], []
    for _ in range(evaluations):
        state, report = step(states[-1])
        states.append(state)
        reports.append(jax.tree.map(np.asarray, report))
    return states, reports


def quadratic(seed, variables):
    """A convex quadratic with its minimum away from zero, and its Hessian."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(variables, variables)) / np.sqrt(variables)
    H, centre = root @ root.T + 0.1 * np.eye(variables), rng.normal(size=variables)
    return (lambda x: 0.5 * (x - centre) @ H @ (x - centre)), centre


def dense(steps, changes):
    """BFGS from the scaled identity, one update after the other."""
    inverse = np.eye(steps.shape[1]) * (steps[-1] @ changes[-1]) / (changes[-1] @ changes[-1])
    for s, y in zip(steps, changes, strict=True):
        rho = 1 / (s @ y)
        off = np.eye(len(s)) - rho * np.outer(s, y)
        inverse = off @ inverse @ off.T + rho * np.outer(s, s)
    return inverse


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**31), st.integers(2, 12), st.sampled_from([3, 5, 20]))
def test_directions_are_those_of_bfgs_over_the_steps_remembered(seed, variables, memory):
    function, _ = quadratic(seed, variables)
    states, reports = minimise(function, np.zeros(variables), 9, memory)
    accepted = [states[i + 1] for i, report in enumerate(reports) if report.accepted]
    x, g = (np.array([getattr(state, name) for state in accepted]) for name in ("x", "gradient"))
    for i in range(1, len(accepted)):
        if np.linalg.norm(g[i]) < 1e-6:
            return  # what is left is rounding
        steps, changes = np.diff(x[: i + 1], axis=0)[-memory:], np.diff(g[: i + 1], axis=0)[-memory:]
        expected = -dense(steps, changes) @ g[i]
        np.testing.assert_allclose(accepted[i].direction, expected, rtol=1e-4, atol=1e-6 * abs(expected).max())
        np.testing.assert_allclose(accepted[i].slope, g[i] @ expected, rtol=1e-4)


def test_it_begins_with_one_unit_downhill():
    states, _ = minimise(lambda x: 3 * x[0] - 4 * x[1] + 1e-9 * x @ x, [0.0, 0.0], 1)
    np.testing.assert_allclose(states[1].direction, [-0.6, 0.8], rtol=1e-6)


def test_accepted_steps_satisfy_the_wolfe_conditions():
    def rosenbrock(x):
        return 100 * (x[1] - x[0] ** 2) ** 2 + (1 - x[0]) ** 2

    states, reports = minimise(rosenbrock, [-1.2, 1.0], 60)
    before = states[1]
    for state, report in zip(states[2:], reports[1:], strict=True):
        if report.accepted and before.value > 1e-12:
            length = np.linalg.norm(state.x - before.x) / np.linalg.norm(before.direction)
            assert state.value <= before.value + 1e-3 * length * before.slope
            assert abs(state.gradient @ before.direction) <= 0.9 * abs(before.slope) * (1 + 1e-9)
        before = state if report.accepted else before
    np.testing.assert_allclose(states[-1].best_x, [1.0, 1.0], atol=1e-5)


@pytest.mark.parametrize("start", [0.0, 2.4])
def test_a_cliff_is_not_stepped_over(start):
    """Beyond 2.5 nothing is a number; the minimum lies there."""
    states, reports = minimise(lambda x: jnp.where(x[0] < 2.5, (x[0] - 3.0) ** 2, jnp.nan), [start], 40)
    assert any(not report.finite for report in reports)
    assert 2.2 < states[-1].best_x[0] < 2.5
    assert all(np.isfinite(state.value) for state in states[1:])


def test_where_nothing_better_is_left_the_search_ends():
    """A function that falls by its gradient and rises in fact."""

    def evaluate(x):
        return Evaluation(-jnp.abs(x[0]), jnp.ones(1), {}, jnp.asarray(True))

    state, failed = BFGS.init(jnp.zeros(1)), []
    while not any(failed) and len(failed) < 120:
        state, report, _ = BFGS.step(state, evaluate)
        failed.append(bool(report.failed))
    assert any(failed)
    assert float(state.best_value) == 0.0


def test_a_lower_point_is_taken_where_no_wolfe_point_is_found():
    """Each step of a staircase is lower, and flat: its gradient never tells. So nothing is to be remembered."""
    states, reports = minimise(lambda x: -jnp.floor(10 * x[0]) - 1e-3 * x[0], [0.05], 60)
    assert float(states[-1].best_value) < -2.0
    assert sum(report.accepted for report in reports) > 1
    assert states[-1].memory.known == 0


@pytest.mark.parametrize(("variables", "size"), [(3, 20), (50, 50), (1000, 100), (8200, 63), (100_000, 20)])
def test_how_many_steps_are_remembered(variables, size):
    """On a CPU; the last two by their bytes."""
    assert jax.eval_shape(BFGS.init, jnp.zeros(variables)).memory.steps.shape[0] == size
