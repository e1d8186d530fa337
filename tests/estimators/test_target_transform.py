"""Transforms of targets: inverses, slopes, which one is chosen, and predictions in the targets' own units."""

import numpy as np
import pytest
from scipy import integrate, stats

import tightgp as tgp
from tests.estimators.conftest import SMALL
from tightgp.estimators.distributions import WarpedPrediction
from tightgp.estimators.target_transform import TargetTransform, Warp, choose

WARPS = {
    "log": Warp("log", lowest=0.0),
    "sqrt": Warp("sqrt", lowest=0.0),
    "yeo-johnson": Warp("yeo-johnson", 0.0, 2.0, power=0.3, lowest=0.0),
    "yeo-johnson, any sign": Warp("yeo-johnson", 1.0, 2.0, power=1.6),
    "yeo-johnson, power 0": Warp("yeo-johnson", 1.0, 2.0, power=0.0),
    "sinh-arcsinh": Warp("sinh-arcsinh", 1.0, 2.0, tail=0.6, skew=0.4),
    "sinh-arcsinh of log": Warp("sinh-arcsinh", 0.1, 2.0, tail=1.2, skew=-0.4, of_log=True, lowest=0.0),
    "sinh-arcsinh, not negative": Warp("sinh-arcsinh", 1.0, 2.0, tail=0.6, skew=0.4, lowest=0.0),
}


def prediction(warp, mean=0.3, sd=0.5, rows=1):
    return WarpedPrediction(TargetTransform((warp,)), np.full(rows, mean), np.full(rows, sd), None)


@pytest.mark.parametrize("name", WARPS)
def test_inverse_and_slope(name):
    warp, y = WARPS[name], np.array([0.1, 0.5, 3.0, 40.0])
    np.testing.assert_allclose(warp.inverse(warp.forward(y)), y)
    step = 1e-6 * y
    slope = (warp.forward(y + step) - warp.forward(y - step)) / (2 * step)
    np.testing.assert_allclose(warp.log_slope(y), np.log(slope), rtol=1e-5, atol=1e-6)
    if warp.lowest == 0:
        assert np.all(warp.inverse(np.array([-30.0, -3.0])) >= 0)


@pytest.mark.parametrize("name", WARPS)
def test_the_density_integrates_to_the_probabilities_and_has_the_moments(name):
    """Against quadrature of the density itself, which knows nothing of quantiles."""
    one = prediction(WARPS[name])
    low, high = (float(one.quantile(q)[0]) for q in (0.05, 0.9))
    density = lambda y: float(np.exp(one.log_density(y))[0])  # noqa: E731
    assert integrate.quad(density, low, high)[0] == pytest.approx(0.85, abs=1e-6)
    np.testing.assert_allclose(one.cdf(high) - one.cdf(low), 0.85)
    levels = (np.arange(20_000) + 0.5) / 20_000
    draws = one.quantile(levels)[0]
    assert one.mean[0] == pytest.approx(draws.mean(), rel=1e-3)
    assert one.sd[0] == pytest.approx(draws.std(), rel=1e-2)
    np.testing.assert_allclose(one.covariance(np.ones((1, 1)))[0, 0], one.sd[0] ** 2, rtol=1e-3)


def test_a_logarithm_gives_the_log_normal_distribution():
    one, known = prediction(WARPS["log"], rows=2), stats.lognorm(s=0.5, scale=np.exp(0.3))
    np.testing.assert_allclose(one.mean, known.mean())
    np.testing.assert_allclose(one.sd, known.std())
    np.testing.assert_allclose(one.log_density([0.5, 2.0]), known.logpdf([0.5, 2.0]))
    np.testing.assert_allclose(one.cdf([0.5, -1.0]), [known.cdf(0.5), 0.0])
    np.testing.assert_allclose(one.interval(0.9)[1], known.interval(0.9)[1])
    assert np.all(one.log_density(-1.0) == -np.inf)
    correlation = np.array([[1.0, 0.6], [0.6, 1.0]])
    expected = np.exp(2 * 0.3 + 0.25) * np.expm1(0.25 * correlation)
    np.testing.assert_allclose(one.covariance(correlation), expected)


def test_several_outputs_each_have_their_own():
    transform = TargetTransform((WARPS["log"], Warp()))
    y = np.array([[1.0, -2.0], [3.0, 4.0]])
    np.testing.assert_allclose(transform.forward(y), np.stack([np.log(y[:, 0]), y[:, 1]], axis=1))
    np.testing.assert_allclose(transform.inverse(transform.forward(y)), y)
    one = WarpedPrediction(transform, transform.forward(y), np.ones((2, 2)), None)
    assert one.quantile([0.1, 0.5]).shape == (2, 2, 2)
    np.testing.assert_allclose(one.quantile(0.5), y)
    np.testing.assert_allclose(one.mean[:, 1], y[:, 1])
    assert one.covariance(np.ones((2, 2, 2))).shape == (2, 2, 2)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 2))
    return X, np.sin(X[:, 0]) + 0.5 * X[:, 1], 0.3 * rng.normal(size=600), rng


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda f, noise, rng: 10 + f + noise, "none"),
        (lambda f, noise, rng: np.exp(f + noise), "log"),
        (lambda f, noise, rng: (4 + 2 * f + noise) ** 2, "sqrt"),
        (lambda f, noise, rng: np.exp(f + noise) - 0.2, "yeo-johnson"),
        (lambda f, noise, rng: f + 0.2 * rng.standard_t(2, size=len(f)), "sinh-arcsinh"),
    ],
)
def test_the_transform_of_most_evidence_is_chosen(rows, make, name):
    X, f, noise, rng = rows
    y = make(f, noise, rng)
    assert choose("auto", X, y, 0).warps[0].name == name
    assert choose("auto", X, 8 * y, 0).warps[0].name == name  # in other units


def test_targets_of_which_many_are_equal_stay_as_they_are(rows):
    X, f, noise, rng = rows
    y = np.where(rng.random(600) < 0.6, 0.0, np.exp(f + noise))
    assert choose("auto", X, y, 0).is_identity
    assert choose("yeo-johnson", X, y, 0).warps[0].name == "yeo-johnson"


def test_targets_that_do_not_fit_are_refused(table):
    for name, y, message in [
        ("log", np.arange(5.0), "'log' needs positive targets, and the least is 0"),
        ("sqrt", np.arange(5.0) - 1, "'sqrt' needs targets of at least 0, and the least is -1"),
        ("cube", np.arange(5.0), "target_transform must be"),
    ]:
        with pytest.raises(ValueError, match=message):
            choose(name, np.zeros((5, 1)), y, 0)
    with pytest.raises(ValueError, match="target_transform must be"):
        tgp.SparseGPRegressor(target_transform="exp").fit(table.X, table.y)


@pytest.fixture(scope="module")
def skewed(table):
    y = np.exp((table.y - 5000) / 150)
    return y, tgp.SparseGPRegressor(**SMALL).fit(table.X, y)


def test_skewed_targets_keep_positive_intervals(skewed, table, tmp_path):
    y, model = skewed
    assert model.target_transform_.warps[0].name == "log"
    assert model.training_.endswith("The model is of the logarithm of the target.")
    prediction = model.predict_distribution(table.new)
    low, high = prediction.interval(0.99)
    assert np.all(low > 0)
    draws = prediction.sample(2000, random_state=0)
    assert np.all(draws > 0)
    assert np.mean((low[:, None] <= draws) & (draws <= high[:, None])) == pytest.approx(0.99, abs=0.01)
    _, sd, cov = model.predict(table.new, return_std=True, return_cov=True)
    np.testing.assert_allclose(np.diag(cov), sd**2, rtol=1e-4)
    with_log = tgp.SparseGPRegressor(**SMALL, target_transform="none").fit(table.X, np.log(y))
    expected = with_log.log_density(table.X, np.log(y)) - np.log(y)
    np.testing.assert_allclose(model.log_density(table.X, y), expected, rtol=1e-6)
    tgp.save(model, tmp_path / "m.safetensors")
    np.testing.assert_array_equal(tgp.load(tmp_path / "m.safetensors").predict(table.new), prediction.mean)
