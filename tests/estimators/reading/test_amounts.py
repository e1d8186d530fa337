"""Texts that are numbers, in the ways people write them."""

import numpy as np
import pytest

from tightgp.estimators.reading.amounts import read_amounts


@pytest.mark.parametrize(
    ("texts", "values", "decimal", "unit"),
    [
        (["$12,345.00", "$7"], [12345, 7], "point", "$"),
        (["12.345,67", "3,5"], [12345.67, 3.5], "comma", ""),
        (["5%", "12.5 %"], [5, 12.5], "point", "%"),
        (["$1,250", "$3,000"], [1250, 3000], "point", "$"),
        (["1 234,5", "2"], [1234.5, 2], "comma", ""),
        (["1\u202f234,5", "2,5 €"], [1234.5, 2.5], "comma", "€"),
        (["1'234.50", "-3", "−4", "1e-3"], [1234.5, -3, -4, 0.001], "point", ""),
        (["(5)", "USD 7", "$8"], [-5, 7, 8], "point", "$"),
        (["1,234,567", "n/a", "?"], [1234567, np.nan, np.nan], "point", ""),
        (["2,5", "3,75"], [2.5, 3.75], "comma", ""),
    ],
)
def test_numbers_are_read(texts, values, decimal, unit):
    found = read_amounts(texts)
    np.testing.assert_array_equal(found.values, values)
    assert (found.decimal, found.unit, found.mixed) == (decimal, unit, "")
    assert not found.strays.any()


def test_what_could_be_either_is_not_guessed():
    for texts in (["1,250", "3,000"], ["€ 1.250", "€ 3.000"]):
        assert read_amounts(texts).decimal == ""
    assert read_amounts(["1,250"], "point").values == [1250]
    assert read_amounts(["1,250"], "comma").values == [1.25]


def test_units_that_do_not_go_together_and_strays():
    assert read_amounts(["$5", "€6"]).mixed == "'$5' and '€6'"
    assert read_amounts(["5%", "0.05"]).mixed
    assert read_amounts(["1", "abc", "1,23,4"]).strays.tolist() == [False, True, True]
