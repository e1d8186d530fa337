"""Scores of targets that are classes."""

import numpy as np
import pytest

from tests.app.report import fakes, problems
from tightgp.app.report import gather, render


def test_classes(contents):
    found = contents["classes"]
    many = ["setosa", "versicolor", problems.IMAGE, "rose", "tulip"]
    X, y = problems.labels(300, 0, many)
    estimator = fakes.FakeClassifier().fit(X, y)
    Xh, yh = problems.labels(200, 1, many)
    p = estimator.predict_proba(Xh)
    assert found.heldout.score("accuracy").model == np.mean(estimator.predict(Xh) == yh)
    chosen = [p[i, list(estimator.classes_).index(label)] for i, label in enumerate(yh)]
    assert found.heldout.score("log loss").model == pytest.approx(-np.mean(np.log(chosen)))
    assert found.heldout.score("accuracy").baseline == np.mean(yh == y.mode()[0])
    k = found.heldout.classes
    assert k.labels == tuple(estimator.classes_)
    assert sum(map(sum, k.confusion)) == 200
    assert k.reliability_of is None
    assert k.predicted == pytest.approx(p.max(axis=1).mean())
    assert sum(one.count for one in k.reliability) == 200
    assert len(found.slices[0].curves) == 4
    assert found.heldout.worst.rows[0].probability == pytest.approx(min(chosen))


def test_two_classes_are_about_the_second(contents):
    found = contents["binary"].heldout
    assert found.classes.reliability_of == "no"
    assert found.classes.labels == (problems.IMAGE, "no")
    assert 0 <= found.score("Brier score").model <= 0.25


def test_rare_classes_are_shown_as_one():
    names = [f"class {k:02d}" for k in range(30)]
    X, y = problems.labels(400, 0, names)
    found = gather(fakes.FakeClassifier().fit(X, y), X, y, heldout=problems.labels(300, 1, names))
    k = found.heldout.classes
    assert len(k.labels) == 12
    assert k.labels[-1] == "19 others"
    assert sum(map(sum, k.confusion)) == 300
    render(found)


def test_labels_that_are_numbers():
    X, y = problems.labels(60, 0, [0, 1, 2])
    y = y.astype(int)
    found = gather(fakes.FakeClassifier().fit(X, y), X, y, heldout=(X, y))
    assert found.heldout.classes.labels == ("0", "1", "2")
