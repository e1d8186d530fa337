"""Transforms of targets are confirmed by left-out rows."""

import numpy as np
import pytest

from tightgp.estimators.target_transform import TargetTransform, Warp
from tightgp.estimators.transform_check import confirmed

LOG, NONE = Warp("log", lowest=0.0), Warp()


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (300, 2))
    return X, np.sin(2 * X[:, 0]) + 0.2 * rng.normal(size=300)


@pytest.mark.parametrize("noise", ["gaussian", "auto"])
def test_a_transform_stays_only_where_it_helps(problem, noise):
    X, z = problem
    both = TargetTransform((LOG, LOG))
    found = confirmed(both, X, np.stack([np.exp(z), 3 + z], axis=1), noise, 0)
    assert found.warps == (LOG, NONE)


def test_heavy_tails_stay_where_noise_is_one_gaussian(problem):
    X, _ = problem
    y = np.sin(2 * X[:, 0]) + np.exp(1.5 * X[:, 1] - 1) * np.random.default_rng(1).normal(size=300)
    heavy = TargetTransform((Warp("sinh-arcsinh", 0.0, 1.0, tail=0.7),))
    assert confirmed(heavy, X, y, "gaussian", 0) == heavy


def test_no_transform_needs_no_confirmation(problem):
    none = TargetTransform((NONE,))
    assert confirmed(none, *problem, "auto", 0) is none
