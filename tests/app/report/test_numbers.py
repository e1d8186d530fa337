"""Numbers as text."""

import pytest

from tightgp.app.report import numbers


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0, "0"),
        (None, "–"),
        (1234.5678, "1,235"),
        (-0.000123456, "−0.000123"),
        (9.996, "10.00"),
        (1.5e-7, "1.50 × 10⁻⁷"),
        (-2e11, "−2.00 × 10¹¹"),
        (float("nan"), "nan"),
    ],
)
def test_numbers(value, words):
    assert numbers.number(value) == words


def test_intervals():
    assert numbers.interval(12.0, 15.0) == "12 to 15"
    assert numbers.interval(-3.14159, 2.0) == "−3.1 to 2.0"
    assert numbers.interval(1e-7, 2e-7) == "1.00 × 10⁻⁷ to 2.00 × 10⁻⁷"
    assert numbers.interval(2.0, 2.0) == "2.00 to 2.00"
    assert numbers.interval(None, 2.0) == "–"


def test_shares_and_durations():
    assert numbers.percent(1.0) == "100\u202f%"
    assert numbers.percent(0.0) == "0\u202f%"
    assert numbers.percent(0.9999) == ">99.9\u202f%"
    assert numbers.percent(0.0002) == "<0.1\u202f%"
    assert numbers.percent(None) == "–"
    assert numbers.percent(-0.25, 0) == "−25\u202f%"
    assert numbers.duration(None) == "–"
    assert numbers.duration(99.7) == "1\u202fmin 40\u202fs"
    assert numbers.duration(3600) == "1\u202fh 0\u202fmin"


def test_shortened():
    assert numbers.shortened("abc", 3) == "abc"
    assert numbers.shortened("abcd", 3) == "ab…"
    assert numbers.shortened("a\n b", 9) == "a b"
