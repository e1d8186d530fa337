import numpy as np
import pytest

from tests.app.report import fakes, problems
from tightgp.app.report import gather


@pytest.fixture(scope="session")
def contents():
    """A report's content for each kind of target."""
    many = ["setosa", "versicolor", problems.IMAGE, "rose", "tulip"]
    kinds = {
        "regression": (fakes.FakeRegressor(), problems.prices),
        "student": (fakes.FakeStudent(), problems.prices),
        "counts": (fakes.FakeCountRegressor(), problems.visits),
        "binary": (fakes.FakeClassifier(), lambda n, s: problems.labels(n, s, ["no", problems.IMAGE])),
        "classes": (fakes.FakeClassifier(), lambda n, s: problems.labels(n, s, many)),
    }
    made = {}
    for kind, (estimator, data) in kinds.items():
        (X, y), held = data(300, 0), data(200, 1)
        rows = 3 * np.arange(200) + 2
        fitted = estimator.fit(X, y)
        made[kind] = gather(fitted, X, y, heldout=held, source=problems.SOURCE, heldout_rows=rows, notes=["A note."])
    X, y = problems.prices(60, 0)
    made["no held-out rows"] = gather(fakes.FakeRegressor().fit(X, y), X, y)
    return made


KINDS = ("regression", "student", "counts", "binary", "classes", "no held-out rows")


@pytest.fixture(params=KINDS)
def content(request, contents):
    return contents[request.param]


@pytest.fixture(scope="session")
def priced():
    """A fitted regressor, its training rows and held-out rows: those of the content "regression"."""
    X, y = problems.prices(300, 0)
    return fakes.FakeRegressor().fit(X, y), X, y, problems.prices(200, 1)
