"""Checks of arguments: what passes unchanged, and what is said of what does not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tightgp import checks


def test_floating_point_arrays_pass_as_they_are():
    for array in (np.ones(3), np.ones(3, "float32"), jnp.ones(3)):
        assert checks.floats("a", array) is array
    assert checks.floats("a", [1, 2]).dtype == np.float64
    assert checks.floats("a", [1, 2], np.float32).dtype == np.float32
    assert checks.floats("a", np.array([True])).dtype == np.float64


def test_rows_are_found_in_every_part_of_a_large_array(monkeypatch):
    monkeypatch.setattr(checks, "_PART_BYTES", 64)
    array = np.zeros((100, 2))
    array[[3, 50, 99], 1] = np.nan
    with pytest.raises(ValueError, match=r"a has NaN or infinite values in 3 row\(s\): 3, 50, 99; remove or impute"):
        checks.finite("a", array)
    checks.not_infinite("a", array)


def test_values_are_not_looked_at_inside_a_trace():
    @jax.jit
    def inside(a):
        checks.finite("a", a)
        checks.triangular("a", a)
        return checks.positive("a", checks.not_negative("a", a))

    np.testing.assert_array_equal(inside(-jnp.ones((2, 2))), -np.ones((2, 2)))


def test_numbers_come_back_plain():
    assert checks.count("n", np.int64(3)) == 3
    assert type(checks.count("n", np.int64(3))) is int
    assert checks.seed("seed", 0) == 0
    assert type(checks.number("x", np.float32(2))) is float
    assert checks.listed(range(3)) == "0, 1, 2"
    assert checks.listed(range(9)) == "0, 1, 2, 3, 4, ..."


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: checks.floats("a", "text"), "a must be an array of numbers, got str"),
        (lambda: checks.floats("a", [[1.0], [1.0, 2.0]]), "a must be an array of numbers, got list"),
        (lambda: checks.floats("a", np.ones(2, "float16")), "a has dtype float16; use float64 or float32"),
        (
            lambda: checks.matrix("a", np.ones(3)),
            r"a must have shape \(rows, columns\), got \(3,\); for one .* a\[:, None\]",
        ),
        (lambda: checks.matrix("a", np.ones((0, 3))), "a is empty"),
        (lambda: checks.matrix("a", np.ones((2, 3)), 2), r"a has 3 column\(s\) where 2 are expected"),
        (lambda: checks.not_infinite("a", [1.0, np.inf]), r"a has infinite values in 1 row\(s\): 1; remove"),
        (lambda: checks.triangular("a", np.ones(2)), r"a must hold square matrices"),
        (lambda: checks.triangular("a", np.ones((2, 2))), "a must be lower triangular"),
        (lambda: checks.triangular("a", np.tril(np.ones((2, 2)), -1)), "a has a zero on its diagonal"),
        (
            lambda: checks.same_dtype("a", np.ones(1, "float32"), "b", np.ones(1)),
            "a has dtype float32 but b has float64",
        ),
        (lambda: checks.positive("a", [1.0, 0.0]), r"a must be positive and finite, got \[1. 0.\]"),
        (lambda: checks.positive("a", 0.5, floor=1.0), "a must be above its floor 1 and finite, got 0.5"),
        (lambda: checks.not_negative("a", [1.0, -2.0]), "a must not be negative, got -2.0"),
        (lambda: checks.count("n", True), "n must be a whole number of at least 1, got True"),
        (lambda: checks.count("n", 0, hint="try 1"), "n must be a whole number of at least 1, got 0; try 1"),
        (lambda: checks.count("n", 5, 4, "the number of rows"), r"n=5 is more than the number of rows \(4\)"),
        (lambda: checks.seed("seed", -1), "seed must be a whole number of at least 0"),
        (lambda: checks.number("x", [1.0]), r"x must be one finite number, got \[1.0\]"),
        (lambda: checks.number("x", np.nan), "x must be one finite number"),
        (lambda: checks.share("part", 1.0), "part must be at least 0 and below 1, got 1.0"),
        (lambda: checks.choice("way", "up", ("left", "right")), "way must be one of 'left', 'right'; got 'up'"),
        (lambda: checks.instance("n", 1, str, "the strings"), "n must be one of the strings, got int"),
    ],
)
def test_what_is_refused_is_named(check, message):
    with pytest.raises(ValueError, match=message):
        check()
