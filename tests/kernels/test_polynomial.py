"""Linear and polynomial kernels are inner products of features."""

import numpy as np

from tests.kernels.cases import X3, Y3
from tightgp import kernels as K


def test_a_linear_kernel_is_an_inner_product_of_scaled_inputs():
    scale = np.array([0.3, 1.0, 2.0])
    np.testing.assert_allclose(K.Linear(scale)(X3, Y3), (X3 * scale) @ Y3.T, rtol=1e-12)


def test_a_polynomial_of_degree_two_has_all_monomials():
    """(v x·x' + c)² has the features v·x_i x_j, √(2vc)·x_i and c."""

    def features(X):
        squares = 0.7 * (X[:, :, None] * X[:, None, :]).reshape(len(X), -1)
        return np.concatenate([squares, np.sqrt(2 * 0.7 * 0.4) * X, np.full((len(X), 1), 0.4)], axis=1)

    kernel = K.Polynomial(2, variance=0.7, offset=0.4)
    np.testing.assert_allclose(kernel(X3, Y3), features(X3) @ features(Y3).T, rtol=1e-12)
    np.testing.assert_allclose(kernel.diagonal(X3), np.sum(features(X3) ** 2, axis=1), rtol=1e-12)


def test_degree_one_is_linear_and_constant():
    np.testing.assert_allclose(K.Polynomial(1, 0.7, 0.4)(X3, Y3), (K.Linear(0.7) + 0.4)(X3, Y3), rtol=1e-12)
