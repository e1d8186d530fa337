"""Which method trains a model, and for how long."""

import pytest

import tightgp as tgp
from tightgp.estimators import plan as plans
from tightgp.estimators.settings import Settings


@pytest.mark.parametrize(
    ("rows", "changes", "said"),
    [
        (
            1000,
            {},
            "at most 400 iterations of L-BFGS: a pass over 1000 rows with 256 inducing points is quick",
        ),
        (200_000, {}, "Natural gradients and Adam, 16 passes through minibatches of at most 1024 rows (3136 steps)"),
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
    s = Settings.of(tgp.SparseGPRegressor(**changes), ("collapsed", "minibatch"))
    assert said in plans.for_regression(s, rows).reason


def test_how_other_likelihoods_are_trained():
    s = Settings.of(tgp.SparseGPClassifier(), ("full", "minibatch"))
    assert plans.for_likelihood(s, 4000).reason.endswith("500 steps on all rows: 4000 rows are at most 4000.")
    plan = plans.for_likelihood(s, 10_240)
    assert (plan.method, plan.amount, plan.batches) == ("minibatch", 300, 10)
