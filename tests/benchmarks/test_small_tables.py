"""Fits of small tables do not collapse: a small part of the experiment."""

import pytest

from benchmarks import small_tables


@pytest.mark.parametrize(("d", "signal"), [(2, 0.0), (2, 3.0), (20, 0.3), (20, 3.0)])
def test_a_default_fit_is_as_good_as_the_best_of_random_starts(d, signal):
    found = small_tables.outcome(50, d, signal, seed=0, starts=6)
    assert not found.collapsed
    assert not found.far
