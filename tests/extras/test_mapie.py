"""MAPIE takes tightgp's estimators, and its intervals hold as often as they say."""

import numpy as np
import pytest

import tightgp as tgp

mapie_regression = pytest.importorskip("mapie.regression")
mapie_classification = pytest.importorskip("mapie.classification")

RNG = np.random.default_rng(0)
X = RNG.uniform(0, 6, size=(1500, 1))
Y = np.sin(X[:, 0]) + 0.3 * RNG.standard_t(3, size=1500)
FIT, CALIBRATE, TEST = slice(0, 150), slice(150, 550), slice(550, None)


@pytest.fixture(scope="module")
def regressor():
    return tgp.SparseGPRegressor(max_iter=10, target_transform="none").fit(X[FIT], Y[FIT])


def test_split_conformal_intervals_cover(regressor):
    conformal = mapie_regression.SplitConformalRegressor(regressor, confidence_level=0.9, prefit=True)
    conformal.conformalize(X[CALIBRATE], Y[CALIBRATE])
    mean, intervals = conformal.predict_interval(X[TEST])
    np.testing.assert_allclose(mean, regressor.predict(X[TEST]))
    inside = (intervals[:, 0, 0] <= Y[TEST]) & (Y[TEST] <= intervals[:, 1, 0])
    assert 0.86 < inside.mean() < 0.94
    low, high = regressor.calibrate(X[CALIBRATE], Y[CALIBRATE]).predict_interval(X[TEST], level=0.9)
    own = (low <= Y[TEST]) & (Y[TEST] <= high)
    assert 0.86 < own.mean() < 0.94


def test_cross_conformal_fits_copies_of_the_estimator():
    estimator = tgp.SparseGPRegressor(max_iter=3, target_transform="none")
    conformal = mapie_regression.CrossConformalRegressor(estimator, confidence_level=0.9, cv=3)
    conformal.fit_conformalize(X[FIT], Y[FIT])
    _, intervals = conformal.predict_interval(X[TEST])
    inside = (intervals[:, 0, 0] <= Y[TEST]) & (Y[TEST] <= intervals[:, 1, 0])
    assert inside.mean() > 0.84


def test_conformal_sets_of_classes_cover():
    labels = np.where(Y > 0.5, "high", np.where(Y > -0.5, "middle", "low"))
    classifier = tgp.SparseGPClassifier(n_inducing=12, max_iter=20).fit(X[FIT], labels[FIT])
    conformal = mapie_classification.SplitConformalClassifier(classifier, confidence_level=0.8, prefit=True)
    conformal.conformalize(X[CALIBRATE], labels[CALIBRATE])
    _, sets = conformal.predict_set(X[TEST])
    chosen = sets[np.arange(len(sets)), np.searchsorted(classifier.classes_, labels[TEST]), 0]
    assert chosen.mean() > 0.76
