"""Constant and white kernels, sums and products."""

import equinox as eqx
import numpy as np
import pytest

from tests.kernels.cases import ARD, X3, Y3
from tightgp import kernels as K


def test_constant_matrix():
    np.testing.assert_allclose(K.Constant(0.7)(X3), np.full((6, 6), 0.7), rtol=1e-12)
    np.testing.assert_allclose(K.Constant(0.7)(X3, Y3), np.full((6, 4), 0.7), rtol=1e-12)


def test_white_noise_is_zero_between_two_sets():
    np.testing.assert_allclose(K.White(0.7)(X3), 0.7 * np.eye(6), rtol=1e-12)
    np.testing.assert_array_equal(K.White(0.7)(X3, X3), np.zeros((6, 6)))
    np.testing.assert_array_equal(K.White(0.7)(X3, Y3), np.zeros((6, 4)))


def test_product_of_kernels_on_different_columns():
    kernel = K.Matern12(lengthscale=0.5, active_dims=[0]) * K.Matern12(lengthscale=2.0, active_dims=[2])
    distance = np.abs(X3[:, None] - Y3[None])
    np.testing.assert_allclose(kernel(X3, Y3), np.exp(-distance[..., 0] / 0.5 - distance[..., 2] / 2), rtol=1e-7)


def test_sums_and_products_match_their_parts():
    a, b = K.SquaredExponential(1.7, ARD), K.Polynomial(2)
    np.testing.assert_allclose((a + b)(X3, Y3), a(X3, Y3) + b(X3, Y3), rtol=1e-13)
    np.testing.assert_allclose((a * b)(X3, Y3), a(X3, Y3) * b(X3, Y3), rtol=1e-13)


@pytest.mark.parametrize("number", [2.0, 2, np.float64(2.0)], ids=["float", "int", "numpy"])
def test_numbers_become_constant_kernels(number):
    kernel = K.SquaredExponential(1.7, ARD)
    plain = np.asarray(kernel(X3))
    for shifted in (kernel + number, number + kernel):
        np.testing.assert_allclose(shifted(X3), plain + 2, rtol=1e-13)
    for scaled in (kernel * number, number * kernel):
        np.testing.assert_allclose(scaled(X3), plain * 2, rtol=1e-13)
    assert isinstance((number + kernel).parts[0], K.Constant)
    assert isinstance((kernel + number).parts[1], K.Constant)


def test_nested_sums_and_products_flatten():
    a, b, c, d = K.SquaredExponential(), K.Linear(), K.White(), K.Matern12()
    assert [type(p) for p in ((a + b) + (c + d)).parts] == [type(k) for k in (a, b, c, d)]
    assert [type(p) for p in (a * (b * c) * d).parts] == [type(k) for k in (a, b, c, d)]
    assert [type(p) for p in (1 + a + 2.0).parts] == [K.Constant, K.SquaredExponential, K.Constant]
    mixed = (a + b) * c
    assert isinstance(mixed, K.Product)
    assert [type(p) for p in mixed.parts] == [K.Sum, K.White]


@pytest.mark.parametrize("other", ["a", None, True, [1.0]], ids=repr)
def test_arithmetic_with_other_types_is_a_type_error(other):
    kernel = K.SquaredExponential()
    for operation in (lambda: kernel + other, lambda: kernel * other, lambda: other + kernel):
        with pytest.raises(TypeError):
            operation()


@pytest.mark.parametrize(
    "kernel", [K.Constant(), K.White(), K.Linear(), K.Polynomial()], ids=lambda k: type(k).__name__
)
def test_length_scales_of_kernels_without_lengthscales_are_infinite(kernel):
    np.testing.assert_array_equal(kernel.length_scales(2), [np.inf, np.inf])


def test_length_scales_of_sums_and_products_are_the_shortest_of_their_parts():
    a, b = K.SquaredExponential(1.0, 0.5, active_dims=[0]), K.Matern12(1.0, [2.0, 3.0])
    for kernel in (a + b + 1.0, a * b, b * a * K.Linear()):
        np.testing.assert_allclose(kernel.length_scales(2), [0.5, 3.0], rtol=1e-12)


def test_repr_lists_the_parameters():
    text = repr(K.SquaredExponential(1.3, [0.5, 2.0]) + 1.0)
    assert text.splitlines()[0] == "Sum"
    for part in ("parts[0].variance", "1.3", "parts[0].lengthscale", "[0.5, 2. ]", "parts[1].variance"):
        assert part in text


def test_repr_of_a_part_of_a_kernel():
    """As tree transformations make them, without values."""
    for part in eqx.partition(K.Matern32() * 2.0, lambda leaf: False):
        assert "parts[0].lengthscale" in repr(part)
