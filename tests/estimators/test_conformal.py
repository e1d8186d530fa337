"""Calibrated intervals hold as often as they say, even where the model is wrong."""

import numpy as np
import pytest
from sklearn.base import clone

import tightgp as tgp
from tests.estimators.conftest import SMALL
from tightgp.estimators.conformal import calibrated_level, interval_scores
from tightgp.estimators.distributions import GaussianPrediction


def test_the_level_is_a_quantile_of_the_scores():
    scores = np.linspace(0.01, 0.99, 99)
    assert calibrated_level(scores, 0.9) == pytest.approx(0.9)
    assert calibrated_level(scores**2, 0.5) == pytest.approx(0.25)
    with pytest.raises(ValueError, match=r"9 calibration rows guarantee no interval of level 0\.95; calibrate with 19"):
        calibrated_level(scores[:9], 0.95)
    with pytest.raises(ValueError, match="level must lie between 0 and 1"):
        calibrated_level(scores, 95)


def test_wrong_noise_is_put_right():
    """The guarantee, on average over many sets of calibration rows: a model whose noise is a third of the true one."""
    rng = np.random.default_rng(0)
    held = []
    for _ in range(300):
        y = rng.standard_t(3, size=60)
        prediction = GaussianPrediction(np.zeros(60), np.full(60, 0.3), None)
        level = calibrated_level(interval_scores(prediction.take(slice(0, 40)), y[:40]), 0.8)
        low, high = prediction.take(slice(40, 60)).interval(level)
        held.append(np.mean((low <= y[40:]) & (y[40:] <= high)))
    assert 0.8 - 0.015 < np.mean(held) < 0.8 + 1 / 41 + 0.015


def test_an_estimator_keeps_it_until_it_is_fitted_again(table, tmp_path):
    model = clone(tgp.SparseGPRegressor(**SMALL)).fit(table.X, table.y)
    plain = model.predict_interval(table.new, 0.8)
    assert model.calibrate(table.X, table.y + 300.0) is model
    low, high = model.predict_interval(table.new, 0.8)
    assert np.all(high - low > plain[1] - plain[0])
    tgp.save(model, tmp_path / "m.safetensors")
    np.testing.assert_array_equal(tgp.load(tmp_path / "m.safetensors").predict_interval(table.new, 0.8)[0], low)
    np.testing.assert_array_equal(model.fit(table.X, table.y).predict_interval(table.new, 0.8)[0], plain[0])
