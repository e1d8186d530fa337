"""Mixtures of normals with one mean, and predictions made of them, against SciPy and quadrature."""

import jax
import numpy as np
import pytest
from scipy import integrate, stats

from tightgp.estimators.distributions import GaussianPrediction, WarpedPrediction
from tightgp.estimators.mixture_prediction import MixturePrediction
from tightgp.estimators.mixtures import ScaleMixture, student_t
from tightgp.estimators.noise import StudentTNoise
from tightgp.estimators.target_transform import TargetTransform, Warp

NONE = TargetTransform((Warp(),))
WARPS = [Warp("log", lowest=0.0), Warp("sqrt", lowest=0.0), Warp("sinh-arcsinh", 1.0, 2.0, tail=0.6, skew=0.4)]
LEVELS = np.array([0.001, 0.025, 0.3, 0.5, 0.9, 1 - 1e-7])


@pytest.mark.parametrize("df", [2.2, 4.0, 30.0])
def test_student_t_is_scipys_also_for_outliers_of_a_billion_scales(df):
    known, far = stats.t(df, loc=0.2, scale=0.5), np.append(np.geomspace(1e-3, 5e8, 40), -3.0)
    one = student_t(np.full(41, 0.2), np.full(41, 1e-14), df, 0.5)
    np.testing.assert_allclose(one.log_density(far), known.logpdf(far), atol=1e-5)
    np.testing.assert_allclose(one.cdf(far[:, None])[:, 0], known.cdf(far), atol=1e-7)
    few = one.take(slice(2))
    q = np.tile(LEVELS, (2, 1))
    np.testing.assert_allclose(few.quantile(q, 1 - q)[1], known.ppf(LEVELS), rtol=1e-5)
    np.testing.assert_allclose(few.sd, known.std(), rtol=0.005)


@pytest.mark.parametrize("df", [2.1, 2.3, 5.0])
def test_the_variance_of_student_t_is_all_there(df):
    noise = StudentTNoise(df, 0.5)
    one = noise.mixture(np.zeros((1, 1)), np.zeros(1), np.full(1, 0.3))
    np.testing.assert_allclose(one.sd**2, 0.3 + noise.typical_variance, rtol=1e-4)


def test_student_t_plus_a_normal_against_quadrature():
    one = student_t(np.array([0.3]), np.array([0.4]), 3.0, 0.5)
    for y in (0.3, 1.0, -4.0):

        def joint(f, y=y):
            return stats.norm.pdf(f, 0.3, np.sqrt(0.4)) * stats.t.pdf((y - f) / 0.5, 3) / 0.5

        density = integrate.quad(joint, -8, 8, points=[y])[0]
        np.testing.assert_allclose(np.exp(one.log_density(np.array([y]))), density, rtol=1e-6)


def test_one_component_is_the_normal_prediction():
    mean, sd, y = np.array([0.3, -0.4]), np.array([0.5, 0.2]), np.array([1.2, 0.7])
    mixture = ScaleMixture(mean, sd[:, None] ** 2, np.zeros(1))
    pairs = [(NONE, GaussianPrediction(mean, sd, None))]
    pairs += [(TargetTransform((w,)), WarpedPrediction(TargetTransform((w,)), mean, sd, None)) for w in WARPS]
    for transform, normal in pairs:
        one = MixturePrediction(transform, mixture, None)
        np.testing.assert_allclose(one.quantile(LEVELS), normal.quantile(LEVELS), rtol=1e-9)
        np.testing.assert_allclose(one.log_density(y), normal.log_density(y), rtol=1e-9)
        np.testing.assert_allclose(one.cdf(y), normal.cdf(y), rtol=1e-9)
        np.testing.assert_allclose(one.mean, normal.mean, atol=0.01)  # without the outermost 0.1 %
        np.testing.assert_allclose(one.sd, normal.sd, rtol=0.06)
        assert one.take([1]).mean == one.mean[1]


@pytest.mark.parametrize("warp", WARPS)
def test_a_transformed_mixture_has_the_probabilities_of_its_density(warp):
    draw = lambda key, n: np.asarray(0.3 + 0.3 * jax.random.t(key, 3.0, (n, 1)))  # noqa: E731
    one = MixturePrediction(TargetTransform((warp,)), student_t(np.array([0.3]), np.full(1, 1e-6), 3.0, 0.3), draw)
    low, high = one.quantile([0.05, 0.9])[0]
    density = lambda y: float(np.exp(one.log_density(y))[0])  # noqa: E731
    assert integrate.quad(density, low, high, points=[float(one.quantile(0.5)[0])])[0] == pytest.approx(0.85, abs=1e-6)
    np.testing.assert_allclose(one.cdf(one.quantile(0.3)), 0.3)
    draws = one.sample(20_000)[0]
    shares = np.mean(draws <= one.quantile([0.05, 0.5, 0.9])[0][:, None], axis=1)
    np.testing.assert_allclose(shares, [0.05, 0.5, 0.9], atol=0.01)
    inside = draws[(draws > one.quantile(0.0005)) & (draws < one.quantile(0.9995))]
    assert one.mean[0] == pytest.approx(inside.mean(), rel=0.02)
    assert one.sd[0] == pytest.approx(inside.std(), rel=0.05)
