"""Values together with partial derivatives."""

import numpy as np
import pytest

import tightgp as tgp
from tightgp import kernels as K

LENGTHS = np.array([0.7, 1.4])
INPUTS = np.random.default_rng(0).normal(size=(7, 2))
OF = np.array([0, 1, 2, 0, 1, 2, 1])
ROWS = np.column_stack([INPUTS, OF])
PAIRS = {
    "se": (K.SquaredExponential(1.7, LENGTHS), lambda r2: 1.7 * np.exp(-0.5 * r2)),
    "rq": (K.RationalQuadratic(1.7, LENGTHS, 0.8), lambda r2: 1.7 * (1 + r2 / 1.6) ** -0.8),
}


def differences(rho, a, b):
    """The covariance of two rows, by central differences of the kernel of values."""

    def value(x, z):
        return rho(np.sum(((x - z) / LENGTHS) ** 2))

    def steps(row):
        if not row[2]:
            return [(row[:2], 1.0)]
        h = 1e-3 * np.eye(2)[int(row[2]) - 1]
        return [(row[:2] + h, 500.0), (row[:2] - h, -500.0)]

    return sum(s * t * value(x, z) for x, s in steps(a) for z, t in steps(b))


@pytest.mark.parametrize("name", PAIRS)
def test_covariances_are_derivatives_of_the_kernel(name):
    base, rho = PAIRS[name]
    kernel = K.WithGradients(base)
    expected = np.array([[differences(rho, a, b) for b in ROWS] for a in ROWS])
    np.testing.assert_allclose(kernel(ROWS), expected, atol=2e-5)
    np.testing.assert_allclose(kernel(ROWS[:3], ROWS), expected[:3], atol=2e-5)
    np.testing.assert_allclose(kernel.diagonal(ROWS), np.diag(kernel(ROWS)), rtol=1e-10)
    assert np.linalg.eigvalsh(kernel(ROWS)).min() > 0


def test_slopes_are_learnt_from_and_predicted():
    """Seven slopes and one value say what the function is."""
    x = np.linspace(0, 3, 7)
    X = np.concatenate([np.column_stack([x, np.ones(7)]), [[0.0, 0.0]]])
    y = np.append(np.cos(x), 0.0)
    kernel = K.WithGradients(K.SquaredExponential(1.0, 1.0))
    new = np.linspace(0.2, 2.8, 5)
    for model in (tgp.ExactGP(kernel, 1e-5), tgp.SGPR(kernel, X, 1e-5)):
        post = model.posterior(tgp.Dataset(X, y))
        np.testing.assert_allclose(post.predict_f(np.column_stack([new, 0 * new]))[0], np.sin(new), atol=0.01)
        np.testing.assert_allclose(post.predict_f(np.column_stack([new, 0 * new + 1]))[0], np.cos(new), atol=0.02)


def test_training_leaves_the_last_column_of_inducing_inputs():
    data = tgp.Dataset(ROWS, np.sin(INPUTS[:, 0]))
    model = tgp.SGPR(K.WithGradients(K.SquaredExponential()), ROWS[:4], 0.1)
    trained = tgp.fit(model, data, steps=5, progress=False).model
    np.testing.assert_array_equal(trained.Z[:, 2], ROWS[:4, 2])
    assert not np.allclose(trained.Z[:, :2], ROWS[:4, :2])


def test_length_scales_leave_the_last_column_out():
    np.testing.assert_allclose(K.WithGradients(K.SquaredExponential(1.0, LENGTHS)).length_scales(3), [*LENGTHS, np.inf])
