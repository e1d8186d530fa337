"""Which method trains a model, and for how long."""

import pytest

import tightgp as tgp
from tightgp.estimators import plan as plans
from tightgp.estimators.settings import Settings


@pytest.mark.parametrize(
    ("rows", "changes", "said"),
    [
        (2001, {}, "at most 100 iterations of L-BFGS: a pass over 2001 rows with 64 inducing points is quick"),
        (1000, {"n_inducing": 256}, "a pass over 1000 rows with 256 inducing points is quick"),
        (1000, {"bound": "diagonal"}, "a pass over 1000 rows with 64 inducing points is quick"),
        (5000, {"method": "exact"}, "Exact Gaussian process by at most 100 iterations of L-BFGS: asked for"),
        (1_000_000, {}, "Collapsed bound"),
        (
            1000,
            {},
            "Exact Gaussian process by at most 100 iterations of L-BFGS: 1000 rows are at most 2000",
        ),
        (
            200_000,
            {"n_inducing": 256},
            "Natural gradients and Adam, 16 passes through minibatches of at most 1024 rows (3136 steps)",
        ),
        (200_000, {"n_inducing": 128}, "Collapsed bound"),
        (200_000, {"method": "collapsed"}, "asked for by method='collapsed'"),
        (
            20_000,
            {"n_inducing": "auto"},
            "a pass over 20000 rows with 512 inducing points is quick",
        ),
        (100_000, {"n_inducing": "auto"}, "a pass over 100000 rows with 512 inducing points is slow"),
        (100, {"method": "minibatch", "max_iter": 3}, "3 passes through minibatches of at most 1024 rows (3 steps)"),
    ],
)
def test_how_regression_is_trained(rows, changes, said):
    estimator = tgp.SparseGPRegressor(**changes)
    plan = plans.for_regression(estimator.check_parameters(), rows, exact=estimator._leaves_it_open())
    assert said in plan.reason


def test_how_other_likelihoods_are_trained():
    s = Settings.of(tgp.SparseGPClassifier(), ("full", "minibatch"))
    assert plans.for_likelihood(s, 4000).reason.endswith("500 steps on all rows: 4000 rows are at most 4000.")
    plan = plans.for_likelihood(s, 10_240)
    assert (plan.method, plan.amount, plan.batches) == ("minibatch", 300, 10)


@pytest.mark.parametrize(
    ("rows", "points"), [(2001, 64), (10_000, 200), (25_600, 512), (50_000, 374), (1_311_539, 73), (10**8, 64)]
)
def test_an_accelerator_takes_more_inducing_points_where_they_cost_little(rows, points, monkeypatch):
    assert plans.few_points(rows) == plans.FEW_POINTS
    monkeypatch.setattr(plans, "on_cpu", lambda: False)
    assert plans.few_points(rows) == points
