"""Options as dataclasses."""

import inspect
from dataclasses import dataclass

import pytest

from tightgp.app.cli import likelihood, options
from tightgp.app.cli.options import FitRequest, with_options
from tightgp.app.tables import limits
from tightgp.bounds import structures
from tightgp.estimators import settings


@dataclass(frozen=True)
class Pair:
    first: int
    second: int = 2


def test_a_dataclass_is_replaced_by_its_fields():
    def command(pair: Pair, third: int = 3):
        return pair, third

    called = with_options(command)
    parameters = inspect.signature(called).parameters
    assert [(name, one.default) for name, one in parameters.items()][1:] == [("second", 2), ("third", 3)]
    assert called(first=1, second=5, third=6) == (Pair(1, 5), 6)


def test_the_number_of_inducing_points():
    assert FitRequest("t.csv", "y", inducing="64").num_inducing == 64
    assert FitRequest("t.csv", "y", inducing="auto").num_inducing == "auto"
    for wrong in ("0", "-3", "1.5", "many"):
        with pytest.raises(ValueError, match="--inducing must be a whole number"):
            _ = FitRequest("t.csv", "y", inducing=wrong).num_inducing


def test_what_options_may_be_is_what_the_library_knows():
    assert set(options.LIKELIHOODS) == set(likelihood.ESTIMATORS)
    assert set(options.KERNELS) == set(settings.KERNELS)
    assert options.UNPACKED_GB == limits.UNPACKED_GB
    for name in options.BOUNDS:
        structures.named(name)
