"""A kernel that a user writes, as docs/kernels.md shows it."""

import jax.numpy as jnp
import numpy as np
import pytest

import tightgp as tgp
from tests.kernels.cases import X3
from tightgp.io.modelfile import ModelFileError


class Cauchy(tgp.kernels.Stationary, init=False):
    """``k(x, x') = σ_f² / (1 + r²)``."""

    def correlation(self, r2):
        return 1 / (1 + r2)


class Brownian(tgp.kernels.Kernel):
    """``k(x, x') = σ² min(x, x')``, without a formula for the diagonal."""

    _variance: tgp.parameters.Parameter
    variance = tgp.parameters.reader("_variance", "Variance of a step of length one.")

    def __init__(self, variance=1.0, active_dims=None):
        self._variance = tgp.parameters.positive(variance, name="variance", squared=True, scalar=True)
        self.active_dims = active_dims

    def matrix(self, X, X2):
        return self.variance * jnp.minimum(X, (X if X2 is None else X2).T)


def test_the_diagonal_and_active_columns_come_by_themselves():
    X = np.abs(X3)
    kernel = Brownian(2.0, active_dims=[1])
    np.testing.assert_allclose(kernel.diagonal(X), 2 * X[:, 1], rtol=1e-12)
    np.testing.assert_allclose(kernel.diagonal(X), np.diag(kernel(X)), rtol=1e-12)
    assert np.all(np.isinf(kernel.length_scales(3)))
    with pytest.raises(ValueError, match="active_dims must be distinct"):
        Brownian(active_dims=[1, 1])


def test_estimators_train_it_and_files_hold_it(tmp_path):
    y = np.sin(X3[:, 0])
    model = tgp.SparseGPRegressor(kernel=Cauchy(lengthscale=2.0) + 0.1, max_iter=3, target_transform="none").fit(X3, y)
    assert float(model.model_.kernel.parts[0].lengthscale) != 2.0
    tgp.save(model, tmp_path / "model.safetensors")
    with pytest.raises(ModelFileError, match=r"user.Cauchy.*pass classes="):
        tgp.load(tmp_path / "model.safetensors")
    loaded = tgp.load(tmp_path / "model.safetensors", classes=[Cauchy])
    np.testing.assert_array_equal(loaded.predict(X3), model.predict(X3))


def test_neighbours_are_found_without_lengthscales():
    X = np.abs(np.random.default_rng(0).normal(size=(40, 1)))
    post = tgp.SGPR(Brownian(), X[:6], 0.1, bound="vecchia").posterior(tgp.Dataset(X, np.sqrt(X[:, 0])))
    mean, _ = post.predict_f(X[:5], neighbours=8)
    np.testing.assert_allclose(mean, np.sqrt(X[:5, 0]), atol=0.2)


class ForgetsX2(tgp.kernels.Kernel):
    """A mistake that multiplies matrices of another shape in silence."""

    def matrix(self, X, X2):
        return X @ X.T

    def variances(self, X):
        return X**2


def test_a_matrix_or_diagonal_of_another_shape_is_refused():
    kernel = ForgetsX2()
    with pytest.raises(ValueError, match=r"ForgetsX2\.matrix\(X, X2\) must have shape \(5, 3\), got \(5, 5\)"):
        kernel(np.ones((5, 2)), np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"ForgetsX2\.variances\(X\) must have shape \(5,\), got \(5, 2\)"):
        kernel.diagonal(np.ones((5, 2)))
