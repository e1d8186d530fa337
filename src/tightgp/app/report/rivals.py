"""What simpler models of the same rows predict: a linear model, and boosted trees."""

import warnings
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from threadpoolctl import threadpool_limits

from tightgp.app.report.slices import first_output
from tightgp.app.report.table import Table
from tightgp.estimators.encoding import Encoding
from tightgp.estimators.levels import numeric_targets

#: Fitted to no more rows than these, drawn at random, so that they take seconds.
_MOST_ROWS = 50_000
#: Boosting fits trees for each class.
_MOST_CLASSES = 20
#: A little ridge, since 0/1 features of one column may add up to one.
_RIDGE = 1e-6


def rival_predictions(estimator: Any, fitted: Table, targets: np.ndarray, heldout: Table) -> dict[str, np.ndarray]:
    """Predictions for held-out rows by "linear" and "boosting": numbers (n,), or probabilities (n, C) of classes.

    Both are fitted to the features of the training rows, encoded anew so that a row's own target is not among them.
    """
    rows = np.sort(np.random.default_rng(0).permutation(len(targets))[:_MOST_ROWS])
    y, task = targets[rows], estimator.task
    X = fitted.as_inputs(fitted.frame.iloc[rows].reset_index(drop=True))
    encoding, features = Encoding.fit_transform(X, numeric_targets(y, task))
    with warnings.catch_warnings():
        # Of missing cells and new levels the model's predictions warn, and a rival's training is no news of the model.
        warnings.simplefilter("ignore")
        new = encoding.transform(heldout.as_inputs(heldout.frame))
        # More threads than free cores make boosting many times slower.
        with threadpool_limits(1):
            return _fit_and_predict(task, features, y, new, len(getattr(estimator, "classes_", ())))


def _fit_and_predict(task: str, features: np.ndarray, y: np.ndarray, new: np.ndarray, num_classes: int) -> dict:
    if task == "classification":
        return _classes(features, y, new, num_classes)
    y = first_output(y)
    loss = "poisson" if task == "counts" and y.sum() > 0 else "squared_error"  # which needs a count
    boosting = HistGradientBoostingRegressor(loss=loss, random_state=0)
    models = {"linear": Ridge(alpha=_RIDGE * len(y)), "boosting": boosting}
    return {name: model.fit(features, y).predict(new) for name, model in models.items()}


def _classes(features: np.ndarray, y: np.ndarray, new: np.ndarray, count: int) -> dict[str, np.ndarray]:
    if count > _MOST_CLASSES or len(np.unique(y)) < 2:
        return {}
    models = {
        "linear": LogisticRegression(max_iter=1000),
        "boosting": HistGradientBoostingClassifier(early_stopping=False, random_state=0),
    }
    found = {}
    for name, model in models.items():
        probability = np.zeros((len(new), count))
        model.fit(features, y)
        probability[:, model.classes_] = model.predict_proba(new)
        found[name] = probability
    return found
