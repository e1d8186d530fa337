"""What the examples in docstrings can use: ``np``, ``tgp``, and the small data set ``X`` (60, 2), ``y`` (60,)."""

from importlib.util import find_spec

import numpy as np
import pytest

import tightgp as tgp

#: Modules whose optional dependency is not installed, which cannot be imported for their examples.
collect_ignore = [] if find_spec("botorch") else ["src/tightgp/optimise/botorch.py"]


@pytest.fixture(autouse=True)
def example_namespace(doctest_namespace):
    """Add the names that every example may use."""
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, size=(60, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=60)
    doctest_namespace.update(np=np, tgp=tgp, X=X, y=y)
