"""Dates in the formats people write."""

import numpy as np
import pytest

from tightgp.estimators.reading.dates import are_compact_dates, fitting_formats


@pytest.mark.parametrize(
    ("texts", "formats"),
    [
        (["Apr 01, 2020", "May 21, 2020"], ["%b %d, %Y"]),
        (["April 1, 2020", "July 21, 2020"], ["%B %d, %Y"]),
        (["31/12/2020", "01/02/2021"], ["%d/%m/%Y"]),
        (["12/31/2020", "01/02/2021"], ["%m/%d/%Y"]),
        (["13.04.2020 12:30", "01.05.2021 10:00"], ["%d.%m.%Y %H:%M"]),
        (["2020-01-31T05:06:07", "2020-02-01T00:00:00"], ["%Y-%m-%dT%H:%M:%S"]),
        (["1-Feb-2020", "28-Mar-2021"], ["%d-%b-%Y"]),
        (["01/02/2020", "03/04/2021"], ["%d/%m/%Y", "%m/%d/%Y"]),
        (["12 apples", "3 pears", "7"], []),
        (["abc", "def"], []),
    ],
)
def test_formats(texts, formats):
    assert fitting_formats(texts) == formats


def test_whole_numbers_that_are_dates():
    days = np.array([20200101 + 100 * m + d for m in range(12) for d in range(28)])
    assert are_compact_dates("x", days)
    assert are_compact_dates("date", days[:3])
    assert not are_compact_dates("x", days[:3])
    assert not are_compact_dates("x", days + 20)  # days after the 31st
    assert not are_compact_dates("date", np.array([1.0, 2.0]))
