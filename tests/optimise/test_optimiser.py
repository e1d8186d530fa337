"""Loops find optima: one program for all points, since fewer than 17 rows have one size."""

import numpy as np
import pytest

import tightgp as tgp
from tightgp.optimise import Integer, Optimiser, minimise


def bowl(x):
    return (x[0] - 0.3) ** 2 + 0.5 * np.cos(3 * x[1])


@pytest.fixture(scope="module")
def found():
    return minimise(bowl, [(-1.0, 1.0), (0.0, 2.0)], num_calls=15, num_initial=6, seed=0)


def test_expected_improvement_finds_the_optimum(found):
    assert found.y < -0.5 + 0.01
    np.testing.assert_allclose(found.x, [0.3, np.pi / 3], atol=0.15)
    assert found.X.shape == (15, 2)
    assert found.y == found.values.min() == bowl(found.x)


def test_thompson_sampling_of_several_points_at_a_time_gets_close():
    search = Optimiser([(-1.0, 1.0), (0.0, 2.0)], acquisition="thompson", maximise=True, num_initial=3, seed=1)
    for _ in range(5):
        X = search.ask(3)
        assert len(np.unique(X, axis=0)) == 3
        search.tell(X, [-bowl(x) for x in X])
    assert search.best.y > 0.42
    assert "maximise, thompson, 15 values" in repr(search)


def test_points_that_are_not_told_yet_are_not_asked_for_again(found):
    search = found.optimiser
    one, other = search.ask(), search.ask()
    assert np.max(np.abs(one - other)) > 1e-6
    assert len(search._pending) == 2
    search.tell(one, bowl(one))
    assert len(search._pending) == 1


def test_whole_numbers_are_whole_and_tried_once():
    search = Optimiser([Integer(0, 5), (0.0, 1.0)], num_initial=4, seed=0)
    for _ in range(12):
        x = search.ask()
        assert x[0] == round(x[0])
        search.tell(x, (x[0] - 3) ** 2 + (x[1] - 0.5) ** 2)
    assert search.best.x[0] == 3
    assert len(np.unique(search.X, axis=0)) == 12


def test_the_same_seed_asks_for_the_same_points():
    first, second = (Optimiser([(0.0, 1.0)], seed=3) for _ in range(2))
    np.testing.assert_array_equal(first.ask(4), second.ask(4))


def test_a_callback_ends_the_search():
    seen = []
    result = minimise(bowl, [(-1.0, 1.0), (0.0, 2.0)], callback=lambda search: seen.append(search) or len(seen) == 3)
    assert len(result.values) == 3


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
def test_a_value_that_is_not_finite_ends_the_search_and_keeps_the_others(bad):
    values = iter([3.0, 1.0, bad])
    with pytest.warns(UserWarning, match="the search ends early: function gave"):
        result = minimise(lambda x: next(values), [(-1.0, 1.0)], num_initial=5)
    assert result.y == 1.0
    np.testing.assert_array_equal(result.values, [3.0, 1.0])
    with pytest.raises(ValueError, match="y"):
        minimise(lambda x: bad, [(-1.0, 1.0)])


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_exception_has_the_values_so_far(error):
    def function(x):
        if not values:
            raise error("stopped")
        return values.pop()

    values = [3.0, 1.0]
    with pytest.raises(error, match="stopped") as caught:
        minimise(function, [(-1.0, 1.0)], num_initial=5)
    search = caught.value.optimiser
    np.testing.assert_array_equal(search.y, [1.0, 3.0])
    assert "2 value(s) so far" in caught.value.__notes__[0]
    search.tell(search.ask(), 0.5)
    assert search.best.y == 0.5


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match="acquisition"):
        Optimiser([(0, 1)], acquisition="ucb")
    search = Optimiser([(0, 1)])
    with pytest.raises(ValueError, match="no value was told yet"):
        _ = search.best
    with pytest.raises(ValueError, match="y"):
        search.tell([0.5], np.nan)
    with pytest.raises(ValueError, match="value for each of 1 point"):
        search.tell([0.5], [1.0, 2.0])
    with pytest.raises(ValueError, match="num_calls"):
        tgp.optimise.minimise(bowl, [(0, 1)], num_calls=0)
