import jax.numpy as jnp
import numpy as np
import pytest

from tightgp import means

X = np.random.default_rng(1).normal(size=(5, 3))


def test_zero():
    value = means.Zero()(X.astype(np.float32))
    assert value.dtype == jnp.float32
    np.testing.assert_array_equal(value, np.zeros((5, 1)))


def test_constant():
    mean = means.Constant(1.5)
    assert float(mean.level) == 1.5
    np.testing.assert_array_equal(mean(X), np.full((5, 1), 1.5))


def test_constant_per_output():
    np.testing.assert_array_equal(means.Constant([1.5, -2.0])(X), np.tile([1.5, -2.0], (5, 1)))


def test_linear():
    mean = means.Linear([1.0, -2.0, 0.5], 0.3)
    np.testing.assert_array_equal(mean.slope, [1.0, -2.0, 0.5])
    assert float(mean.intercept) == 0.3
    expected = [[row[0] - 2 * row[1] + 0.5 * row[2] + 0.3] for row in X]
    np.testing.assert_allclose(mean(X), expected, rtol=1e-12)


def test_linear_intercept_defaults_to_zero():
    np.testing.assert_array_equal(means.Linear([1.0, 2.0, 3.0])(np.zeros((5, 3))), np.zeros((5, 1)))


@pytest.mark.parametrize("intercept", [0.3, [0.3, -0.7]], ids=["one", "each"])
def test_linear_with_several_outputs(intercept):
    slope = np.random.default_rng(2).normal(size=(3, 2))
    np.testing.assert_allclose(means.Linear(slope, intercept)(X), X @ slope + intercept, rtol=1e-12)


def test_negative_and_zero_values_are_accepted():
    np.testing.assert_array_equal(means.Linear([-1.0, 0.0, 0.0], -1.0)(np.ones((5, 3))), np.full((5, 1), -2.0))


@pytest.mark.parametrize("slope", [2.0, np.ones((3, 2, 1))], ids=["scalar", "3-D"])
def test_slope_of_the_wrong_shape_is_refused(slope):
    with pytest.raises(ValueError, match=r"slope must have shape \(D,\) or \(D, P\), got"):
        means.Linear(slope)


@pytest.mark.parametrize("slope", [np.ones(2), np.ones((2, 3))], ids=["1-D", "2-D"])
def test_slope_of_another_size_than_the_inputs_is_refused(slope):
    with pytest.raises(ValueError, match="slope has 2 rows but X has 3 column"):
        means.Linear(slope)(X)


def test_intercept_of_another_size_than_the_outputs_is_refused():
    with pytest.raises(ValueError, match="intercept"):
        means.Linear(np.ones((3, 2)), [1.0, 2.0, 3.0])(X)


def test_level_of_the_wrong_shape_is_refused():
    with pytest.raises(ValueError, match="level"):
        means.Constant(np.ones((2, 2)))(X)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: means.Constant(np.nan), "level"),
        (lambda: means.Linear([1.0, np.inf]), "slope"),
        (lambda: means.Linear([1.0], np.nan), "intercept"),
        (lambda: means.Linear("steep"), "slope"),
    ],
    ids=["level", "slope", "intercept", "text"],
)
def test_values_that_are_not_finite_numbers_are_refused(make, name):
    with pytest.raises(ValueError, match=f"^{name} "):
        make()
