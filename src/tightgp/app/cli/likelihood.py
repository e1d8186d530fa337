"""The likelihood of a target: the user's, or the one that its values and a test on left-out rows suggest."""

from typing import Any

import numpy as np

from tightgp.app.cli.options import Request
from tightgp.app.tables import TableError
from tightgp.app.tables.errors import quoted
from tightgp.estimators import SparseGPClassifier, SparseGPCountRegressor, SparseGPRegressor
from tightgp.estimators.count_choice import compare_counts

#: The estimator of each likelihood.
ESTIMATORS: dict[str, type[Any]] = {
    "gaussian": SparseGPRegressor,
    "poisson": SparseGPCountRegressor,
    "negative_binomial": SparseGPCountRegressor,
    "zero_inflated_poisson": SparseGPCountRegressor,
    "zero_inflated_negative_binomial": SparseGPCountRegressor,
    "classes": SparseGPClassifier,
    "ordinal": SparseGPClassifier,
}
#: The mean up to which whole numbers may be counts; for larger ones Gaussian noise is as good.
_LARGEST_MEAN = 100
#: More classes than these are refused unless they are asked for, as are nearly as many as rows.
_MOST_CLASSES, _MOST_CLASSES_A_ROW = 50, 0.5


def choose_likelihood(request: Request, y, name: str, inputs) -> tuple[str, str]:
    """The requested likelihood, or a guess and the reason for it; refused if the targets do not fit it.

    ``inputs`` is the frame of the inputs, or None where it is not at hand.
    """
    likelihood, reason = (request.likelihood, "") if request.likelihood != "auto" else _guess(request, y, name, inputs)
    task = ESTIMATORS[likelihood].task
    if task == "classification" and y.dtype.kind in "mM":
        problem = "is a date or duration; give a number, or texts for classes"
    elif task != "classification" and y.dtype.kind not in "biuf":
        problem = f"holds {y.dtype}, not numbers; for classes pass --likelihood classes"
    elif task == "counts" and not _are_counts(y):
        problem = f"must hold whole numbers of at least 0 for --likelihood {likelihood}"
    else:
        return likelihood, reason
    raise TableError(request.table, f"target {name!r} {problem}")


def _guess(request: Request, y, name: str, inputs) -> tuple[str, str]:
    if y.dtype.kind not in "iuf":
        classes = y.nunique()
        if y.dtype.kind not in "mM" and (
            classes > _MOST_CLASSES or (len(y) > 20 and classes > _MOST_CLASSES_A_ROW * len(y))
        ):
            most = y.value_counts()
            problem = f"target {name!r} is text with {classes:,} different values in {len(y):,} rows, such as "
            problem += (
                f"{quoted(str(most.index[0]))}: too many for classes. If they are numbers, correct the cells that "
            )
            problem += "are not; group them into fewer; name another --target; or insist with --likelihood classes"
            raise TableError(request.table, problem)
        return "classes", f"Target {name!r} is not a number: fitting its {classes} classes"
    if set(y.unique()) == {0, 1}:
        return "classes", f"Target {name!r} holds only 0 and 1: fitting two classes"
    if _are_counts(y) and y.mean() <= _LARGEST_MEAN and inputs is not None:
        test = compare_counts(inputs, y.to_numpy(np.float64), request.seed)
        reason = f"Target {name!r} holds whole numbers up to {y.max():g}, {test.reason}"
        return test.best, f"{reason}: fitting {_NAMES[test.best]}"
    return "gaussian", f"Target {name!r} holds numbers: fitting Gaussian noise"


_NAMES = {
    "gaussian": "Gaussian noise",
    "poisson": "Poisson counts",
    "negative_binomial": "negative binomial counts",
    "zero_inflated_poisson": "zero-inflated Poisson counts",
    "zero_inflated_negative_binomial": "zero-inflated negative binomial counts",
}


def _are_counts(y) -> bool:
    values = y.to_numpy(np.float64)
    return bool(np.all(values == np.floor(values)) and values.min() >= 0)
