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


def not_repeated_rows(estimator):
    """Weights are precisions: equal rows also say that there is little noise, one row of their weight does not."""
    reason = "a weight is a precision, not a number of repeated rows"
    kinds = ("dense", "sparse") if isinstance(estimator, tgp.SparseGPRegressor) else ()
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in kinds}


@pytest.mark.filterwarnings("ignore:The inputs seem to say nothing")  # the suite's often do
@parametrize_with_checks(
    [
        tgp.SparseGPRegressor(n_inducing=8, max_iter=30),
        tgp.SparseGPClassifier(n_inducing=8, max_iter=50),
        Counting(n_inducing=8, max_iter=50),
    ],
    expected_failed_checks=not_repeated_rows,
)
def test_sklearn(estimator, check):
    check(estimator)
