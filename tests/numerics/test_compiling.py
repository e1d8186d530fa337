"""Programs that are compiled quickly give what others give, and are parts of others like any function."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tightgp.numerics import compiling
from tightgp.numerics.compiling import quickly_compiled


@quickly_compiled
def wave(x):
    return jnp.sin(x) @ jnp.exp(-x)


def test_answers_are_the_same_by_itself_and_as_a_part_of_others():
    x = np.linspace(0, 3, 7)
    expected = np.sin(x) @ np.exp(-x)
    assert float(wave(x)) == pytest.approx(expected, rel=1e-14)
    assert float(jax.jit(wave)(x)) == pytest.approx(expected, rel=1e-14)
    assert float(jax.jit(lambda: wave(x))()) == pytest.approx(expected, rel=1e-14)
    np.testing.assert_allclose(jax.vmap(wave)(np.stack([x, x])), [expected] * 2, rtol=1e-14)
    np.testing.assert_allclose(jax.grad(wave)(x), np.exp(-x) * (np.cos(x) - np.sin(x)), atol=1e-14)


def test_unknown_options_are_left_out(monkeypatch):
    """Another version of XLA may not know them."""
    monkeypatch.setitem(compiling._OPTIONS, "never", {"xla_no_such_option": True})
    assert compiling.options("never") is None


def test_accelerators_compile_as_ever(monkeypatch):
    monkeypatch.setattr(compiling, "on_cpu", lambda: False)
    assert compiling.options("once") is None
