"""The inverse Hessian of L-BFGS against BFGS's own formula."""

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tightgp.training import curvature
from tightgp.training.curvature import Look, Memory, held


def _pairs(seed: int, count: int, variables: int) -> tuple[np.ndarray, np.ndarray]:
    """Steps, and what they change in the gradient of a quadratic that curves upwards."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(variables, variables)) / np.sqrt(variables)
    steps = rng.normal(size=(count, variables)) * np.exp(rng.normal(size=(count, 1)))
    return steps, steps @ (root @ root.T + 0.1 * np.eye(variables))


def _on(memory: Memory, step, change, gradient):
    """Where a step leads that changed the gradient to this."""
    came, told = memory.came(held(-gradient), held(gradient - change), held(step / 2), 2.0)
    return memory.onward(came, Look.of(np.asarray(told)))


def _remembered(steps, changes, size: int) -> Memory:
    memory = Memory(steps.shape[1], size)
    for step, change in zip(steps, changes, strict=True):
        _on(memory, step, change, change)
    return memory


def _dense(steps, changes) -> np.ndarray:
    """BFGS from the scaled identity, one update after the other."""
    inverse = np.eye(steps.shape[1]) * (steps[-1] @ changes[-1]) / (changes[-1] @ changes[-1])
    for s, y in zip(steps, changes, strict=True):
        rho = 1 / (s @ y)
        off = np.eye(len(s)) - rho * np.outer(s, y)
        inverse = off @ inverse @ off.T + rho * np.outer(s, s)
    return inverse


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 9), st.integers(2, 12))
def test_the_direction_is_that_of_bfgs_over_the_steps_remembered(seed, count, variables):
    steps, changes = _pairs(seed, count, variables)
    memory = _remembered(steps, changes, size=5)
    gradient = np.random.default_rng(seed + 1).normal(size=variables)
    expected = -_dense(steps[-5:], changes[-5:]) @ gradient
    found, slope = memory.descent(gradient)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8 * abs(expected).max())
    np.testing.assert_allclose(slope, gradient @ expected, rtol=1e-6)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**31), st.integers(1, 9), st.integers(2, 12))
def test_to_go_on_is_to_remember_and_then_to_look_where_it_is_down(seed, count, variables):
    steps, changes = _pairs(seed, count, variables)
    gradient = np.random.default_rng(seed + 1).normal(size=variables)
    expected, steep = _remembered(steps, changes, size=5).descent(gradient)
    memory = _remembered(steps[:-1], changes[:-1], size=5)
    found, slope = _on(memory, steps[-1], changes[-1], gradient)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-11 * abs(expected).max())
    np.testing.assert_allclose(slope, steep, rtol=1e-9)


def test_accelerators_go_the_same_way(monkeypatch):
    steps, changes = _pairs(0, 9, 7)
    gradient = np.random.default_rng(1).normal(size=7)
    backwards = -changes[3]  # along which nothing curves upwards
    expected = [
        _on(_remembered(steps, changes, size=5), steps[3], change, gradient) for change in (changes[3], backwards)
    ]
    monkeypatch.setattr(curvature, "on_cpu", lambda: False)
    for change, (direction, slope) in zip((changes[3], backwards), expected, strict=True):
        found, steep = _on(_remembered(steps, changes, size=5), steps[3], change, gradient)
        assert isinstance(found, jax.Array)
        np.testing.assert_allclose(found, direction, rtol=1e-10)
        np.testing.assert_allclose(steep, slope, rtol=1e-10)


def test_a_memory_that_knows_nothing_goes_one_unit_down():
    gradient = np.array([3.0, -4.0])
    memory = Memory(2)
    np.testing.assert_allclose(memory.descent(gradient)[0], [-0.6, 0.8], rtol=1e-15)
    _on(memory, gradient, 2 * gradient, gradient)
    np.testing.assert_allclose(memory.descent(gradient)[0], -gradient / 2, rtol=1e-14)
    memory.forget()
    np.testing.assert_allclose(memory.descent(gradient)[0], [-0.6, 0.8], rtol=1e-15)
    np.testing.assert_array_equal(memory.descent(np.zeros(2))[0], [0.0, 0.0])


@pytest.mark.parametrize("taken", [0, 3, 5])
def test_a_step_along_which_nothing_curves_upwards_is_not_remembered(taken):
    steps, changes = _pairs(0, 5, 4)
    memory, gradient = _remembered(steps[:taken], changes[:taken], size=3), np.ones(4)
    before = memory.descent(gradient)[0]
    _on(memory, steps[0], -changes[0], gradient)
    _on(memory, steps[0], np.full(4, np.nan), gradient)
    np.testing.assert_array_equal(memory.descent(gradient)[0], before)


def test_what_is_restored_goes_on_alike():
    steps, changes = _pairs(0, 6, 4)
    memory = _remembered(steps[:4], changes[:4], size=3)
    again = Memory.restored(memory.state())
    for one in (memory, again):
        for step, change in zip(steps[4:], changes[4:], strict=True):
            _on(one, step, change, np.ones(4))
    np.testing.assert_array_equal(memory.descent(np.ones(4))[0], again.descent(np.ones(4))[0])


def test_how_many_steps_are_remembered():
    for variables, size in {3: 20, 50: 50, 1000: 100, 8200: 63, 100_000: 20}.items():  # the last two on a CPU
        assert len(Memory(variables).state()["steps"]) == size
