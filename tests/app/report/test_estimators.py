"""Reports of the real estimators, after very small fits."""

import numpy as np
import pytest

from tests.app.report import problems
from tightgp.app.report import Content, gather, render
from tightgp.estimators import SparseGPClassifier, SparseGPCountRegressor, SparseGPRegressor

N, HELD = 64, 48


def reported(estimator, data):
    (X, y), held = data(N, 0), data(HELD, 1)
    content = gather(estimator.fit(X, y), X, y, heldout=held, source="table.csv")
    assert Content.from_json(content.to_json()) == content
    page = render(content)
    assert problems.SCRIPT not in page
    assert "nan" not in page.replace("inducing", "")
    return content


def test_regression():
    (X, y), (Xh, yh) = problems.prices(N, 0), problems.prices(HELD, 1)
    estimator = SparseGPRegressor(n_inducing="auto", max_inducing=32, max_iter=10)
    found = reported(estimator, problems.prices)
    assert found.task == "regression"
    assert found.heldout.score("NLPD").model == pytest.approx(-np.mean(estimator.log_density(Xh, yh)))
    mean, sd = estimator.predict(Xh, return_std=True)
    first = found.heldout.worst.rows[0]
    assert first.deviations == pytest.approx(((yh - mean) / sd).to_numpy()[first.row - 1], rel=1e-4)
    assert found.evidence.lower is found.evidence.upper is None  # Vecchia is no bound
    assert [step.num_inducing for step in found.evidence.path] == [32]
    assert found.evidence.stopped
    assert found.scales is None  # Vecchia has no V
    noise = next(trace for trace in found.training.traces if trace.name == "noise")
    assert noise.values[-1] == pytest.approx(found.noise_sd, rel=0.2)
    assert noise.steps[0] == 0  # no second round of neighbours in so few iterations
    assert {column for column, _ in found.relevance} == set(X.columns)
    assert y.std() > found.noise_sd > 0


def test_several_outputs():
    def data(n, seed):
        X = np.random.default_rng(seed).normal(size=(n, 2))
        return X, np.column_stack([X[:, 0], 100 * X[:, 1]]) + 0.1

    X, y = data(N, 0)
    found = gather(SparseGPRegressor(8, max_iter=3).fit(X, y), X, y, heldout=data(HELD, 1))
    assert [one.name for one in found.heldout.outputs] == ["output 1", "output 2"]
    assert found.heldout.outputs[1].rmse > found.heldout.outputs[0].rmse
    render(found)


def test_counts():
    found = reported(SparseGPCountRegressor(8, max_iter=5), problems.visits)
    assert found.task == "counts"
    assert found.noise_sd is None
    assert found.scales.count == 1
    assert found.scales.histogram == ()
    assert [trace.name for trace in found.training.traces][:2] == ["objective", "v"]
    assert all(row.low == int(row.low) for row in found.heldout.worst.rows)


@pytest.mark.parametrize("labels", [("no", "yes"), ("red", "green", "blue")])
def test_classes(labels):
    found = reported(SparseGPClassifier(8, max_iter=5), lambda n, seed: problems.labels(n, seed, list(labels)))
    assert found.task == "classification"
    assert found.heldout.classes.labels == tuple(sorted(labels))
    assert len(found.slices[0].curves) == (1 if len(labels) == 2 else 3)


def test_a_transformed_target():
    """The noise is that of the logarithm, and is not shown as if it were the target's."""

    def data(n, seed):
        X, y = problems.prices(n, seed)
        return X, np.exp(y / 60)

    found = reported(SparseGPRegressor(8, max_iter=5, target_transform="log"), data)
    assert found.noise_sd is None
    assert "noise" not in [trace.name for trace in found.training.traces]
    assert "logarithm of the target" in found.subject.training
    assert all(row.low > 0 and row.deviations is None for row in found.heldout.worst.rows)
