"""Axes: they contain their range, and their ticks are few, round and different."""

from datetime import UTC, datetime
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tightgp.app.report import axes

VALUES = st.floats(-1e12, 1e12, allow_subnormal=False)


def check_axis(axis, low, high):
    room = 1e-8 * (axis.high - axis.low)
    assert axis.low <= low + room
    assert axis.high >= high - room
    assert len(axis.labels) == len(axis.ticks)
    assert all(axis.low - room <= t <= axis.high + room for t in axis.ticks)
    assert all(a < b for a, b in pairwise(axis.ticks))


@given(VALUES, VALUES, st.booleans())
def test_axes_contain_their_range_and_have_a_few_different_ticks(one, other, tight):
    low, high = sorted([one, other])
    assume(high == low or high - low > 1e-6 * max(abs(low), abs(high)))
    for axis in (axes.linear(low, high, tight=tight), axes.padded(low, high)):
        check_axis(axis, low, high)
        assert 3 <= len(axis.ticks) <= 11
        assert len(set(axis.labels)) == len(axis.labels), "two ticks have the same label"
        assert max(map(len, axis.labels)) <= 12


@given(st.floats(-6e10, 2e11), st.floats(0.5, 2e11))
def test_time_axes_have_a_few_different_ticks(low, span):
    high = min(low + span, 2.4e11)
    axis = axes.time(low, high)
    check_axis(axis, low, high)
    assert 2 <= len(axis.ticks) <= 8
    assert len(set(axis.labels)) == len(axis.labels)


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        ("2021-02-10", "2023-01-01", ("Jul 2021", "Jan 2022", "Jul 2022", "Jan 2023")),
        ("1990-06-01", "2020-06-01", ("2000", "2010", "2020")),
        ("2021-03-02", "2021-03-09", ("03 Mar", "05 Mar", "07 Mar", "09 Mar")),
        ("2021-03-01 01:00", "2021-03-02 12:00", ("01 Mar 12:00", "02 Mar 00:00", "02 Mar 12:00")),
        ("2021-03-01 01:00", "2021-03-01 13:00", ("03:00", "06:00", "09:00", "12:00")),
        ("2021-03-01 01:00:00", "2021-03-01 01:00:04", tuple(f"01:00:0{k}" for k in range(5))),
    ],
)
def test_time_axes_have_ticks_at_round_times(low, high, labels):
    seconds = [datetime.fromisoformat(t).replace(tzinfo=UTC).timestamp() for t in (low, high)]
    assert axes.time(*seconds).labels == labels


def test_ticks_of_known_ranges():
    assert axes.linear(0, 10).labels == ("0", "2", "4", "6", "8", "10")
    assert axes.linear(-0.01, 0.011).labels == ("−0.010", "−0.005", "0.000", "0.005", "0.010", "0.015")
    assert axes.linear(0, 4.1e7).labels == ("0", "10", "20", "30", "40", "50")
    assert axes.linear(0, 4.1e7).factor == "(×\u200910⁶)"
    assert axes.logarithmic([16, 32, 64]).labels == ("16", "32", "64")
