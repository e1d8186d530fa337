"""scikit-learn's own checks of an estimator, all of them."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

import tightgp as tgp


class Counting(tgp.SparseGPCountRegressor):
    """The suite's targets are real numbers, which the estimator refuses; here they are made counts first."""

    def fit(self, X, y):
        if y is not None and np.asarray(y).dtype.kind == "f" and np.all(np.isfinite(y)):
            y = np.round(np.asarray(y))
        return tgp.SparseGPCountRegressor.fit(self, X, y)


@pytest.mark.filterwarnings("ignore:The inputs seem to say nothing")  # the suite's often do
@parametrize_with_checks(
    [
        tgp.SparseGPRegressor(n_inducing=8, max_iter=30),
        tgp.SparseGPClassifier(n_inducing=8, max_iter=50),
        Counting(n_inducing=8, max_iter=50),
    ]
)
def test_sklearn(estimator, check):
    check(estimator)
