import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate, special, stats

from tightgp.optimise import acquisition


def test_expected_improvement_by_quadrature():
    for mean, sd, best in ((0.3, 0.5, 0.1), (2.0, 0.4, -1.0), (-1.0, 1.5, 0.0)):
        density = stats.norm(mean, sd).pdf
        gain = integrate.quad(lambda f, d=density, b=best: (b - f) * d(f), mean - 12 * sd, best, epsabs=0)[0]
        ours = acquisition.log_expected_improvement(mean, sd**2, best)
        np.testing.assert_allclose(ours, np.log(gain), rtol=1e-7)


def test_log_improvement_far_in_the_tail():
    """Where the improvement itself is zero in floating point, its logarithm and slope are not."""
    z = jnp.array([-0.999999, -1.000001, -30.0, -199.99, -200.01, -1e4, -1e8])
    values, slopes = jax.vmap(jax.value_and_grad(acquisition.log_h))(z)
    series = -0.5 * z**2 - 0.5 * np.log(2 * np.pi) - 2 * jnp.log(-z) + jnp.log1p(-3 / z**2 + 15 / z**4)
    np.testing.assert_allclose(values[2:], series[2:], rtol=1e-7)
    np.testing.assert_allclose(values[0], values[1], rtol=1e-5)
    assert np.all(np.isfinite(slopes))
    assert np.all(slopes > 0)
    np.testing.assert_allclose(slopes[2:], -z[2:] - 2 / z[2:], rtol=1e-3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_log_improvement_in_either_precision(dtype):
    z = np.concatenate([-np.geomspace(1.1, 300, 400), -np.geomspace(1e3, 1e8, 6)]).astype(dtype)
    values, slopes = jax.vmap(jax.value_and_grad(acquisition.log_h))(jnp.asarray(z))
    assert values.dtype == dtype
    z = z.astype(float)
    # h = φ(z)(1 + zΦ/φ), with the Mills ratio by scaled complementary error functions; a series where that cancels
    near, far = np.maximum(z, -50), np.minimum(z, -50)
    ratio = np.log1p(near * np.sqrt(np.pi / 2) * special.erfcx(-near / np.sqrt(2)))
    series = -2 * np.log(-far) + np.log1p(-3 / far**2 + 15 / far**4 - 105 / far**6)
    expected = np.where(z > -50, ratio, series)
    tolerance = 2e-3 if dtype == np.float32 else 3e-6
    np.testing.assert_allclose(
        values, expected - 0.5 * z**2 - 0.5 * np.log(2 * np.pi), atol=tolerance, rtol=4 * np.finfo(dtype).eps
    )
    assert np.all(np.isfinite(slopes))
    np.testing.assert_allclose(slopes[-50:], -z[-50:] - 2 / z[-50:], rtol=1e-3)


def test_maximise_finds_an_inner_optimum_and_one_on_the_edge():
    def value(at, U):
        return -jnp.sum((U - at) ** 2, axis=1)

    for at in (np.array([0.31, 0.77]), np.array([1.4, 0.2])):
        U, values = acquisition.maximise(value, jnp.asarray(at), 2, np.array([0.5, 0.5]), 0)
        np.testing.assert_allclose(U[0], at.clip(0, 1), atol=1e-5)
        assert np.all(np.diff(values) <= 0)
