"""scikit-learn's own checks of an estimator: all of the exact GP and of classes, some of the others."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

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


#: What inducing points could do wrong that the exact GP does not; scikit-learn counts these checks as old ones.
OF_PREDICTIONS = {
    "check_dict_unchanged",
    "check_estimators_nan_inf",
    "check_estimators_pickle",
    "check_fit2d_1feature",
    "check_fit2d_1sample",
    "check_fit_idempotent",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_regressor_multioutput",
    "check_regressors_train",
    "check_sample_weights_not_overwritten",
    "check_sample_weight_equivalence_on_dense_data",
}


def some_checks(estimator):
    """scikit-learn's checks that are not old, and those `OF_PREDICTIONS`."""
    current = {name_of(check) for _, check in estimator_checks_generator(estimator, legacy=False)}
    every = estimator_checks_generator(estimator, expected_failed_checks=not_repeated_rows(estimator), mark="xfail")
    for one in every:
        check = one.values[1] if hasattr(one, "values") else one[1]
        if name_of(check) in current | OF_PREDICTIONS:
            yield one


def name_of(check) -> str:
    return getattr(check, "func", check).__name__


@pytest.mark.filterwarnings("ignore:The inputs seem to say nothing")  # the suite's often do
@parametrize_with_checks(
    [tgp.SparseGPRegressor(), tgp.SparseGPClassifier(n_inducing=8, max_iter=50)],
    expected_failed_checks=not_repeated_rows,
)
def test_sklearn(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:The inputs seem to say nothing")
@pytest.mark.parametrize(
    ("estimator", "check"),
    [
        *some_checks(tgp.SparseGPRegressor(n_inducing=8, max_iter=30)),
        *some_checks(Counting(n_inducing=8, max_iter=50)),
    ],
    ids=lambda one: name_of(one) if callable(one) else type(one).__name__,
)
def test_inducing_points(estimator, check):
    check(estimator)
