import numpy as np

import tightgp as tgp
from tightgp.app.report.certified import distance_sentence


def test_a_sentence_after_a_long_training_and_none_after_a_short_one(rng):
    X = rng.normal(size=(60, 2))
    estimator = tgp.SparseGPRegressor(n_inducing=8, max_iter=3).fit(X, np.sin(X[:, 0]))
    assert distance_sentence(estimator) == ""
    estimator.seconds_ = 1e4
    assert "nats a row of the exact Gaussian process." in distance_sentence(estimator)
    estimator.posterior_ = estimator.posterior_.without_rows()
    assert distance_sentence(estimator) == ""
