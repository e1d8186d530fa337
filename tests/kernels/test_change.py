"""Change points."""

import numpy as np

from tests.kernels.cases import X3
from tightgp import kernels as K


def test_far_from_the_change_there_is_one_kernel():
    before, after = K.Matern32(2.0), K.Linear()
    kernel = K.ChangePoint(before, after, location=0.0, width=0.1, column=1)
    low, high = X3 * [1, 0, 1] - [0, 9, 0], X3 * [1, 0, 1] + [0, 9, 0]
    np.testing.assert_allclose(kernel(low), before(low), rtol=1e-9)
    np.testing.assert_allclose(kernel(high), after(high), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(kernel(low, high), 0, atol=1e-12)


def test_change_points_can_be_nested():
    second = K.ChangePoint(K.Constant(2.0), K.Constant(3.0), location=5.0, width=0.1)
    kernel = K.ChangePoint(K.Constant(1.0), second, location=0.0, width=0.1)
    np.testing.assert_allclose(kernel.diagonal(np.array([[-4.0], [2.5], [9.0]])), [1, 2, 3], rtol=1e-6)


def test_length_scales_are_the_shorter_ones():
    kernel = K.ChangePoint(K.Matern32(1.0, [0.5, 3.0]), K.Matern32(1.0, [2.0, 1.0]))
    np.testing.assert_allclose(kernel.length_scales(2), [0.5, 1.0])
