"""`Source` checks its fields, and prints them."""

import pytest

from tightgp import datasets


def test_printed_source():
    printed = str(datasets.describe("snelson"))
    assert "200 rows, 1 inputs; target: y" in printed
    assert "(by hand)" in printed
    assert "(by hand)" not in str(datasets.describe("pol"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"file": "../mine.csv"}, "file must be a path below the data folder"),
        ({"file": "/mine.csv"}, "file must be a path below the data folder"),
        ({"others": ("",)}, "file must be a path below the data folder"),
        ({"rows": 0}, "rows must be a whole number of at least 1"),
        ({"form": "xls"}, "form must be one of 'table'"),
        ({"task": "ranking"}, "task must be one of 'regression'"),
        ({"inputs": "x"}, "inputs must name at least one column in a tuple"),
        ({"inputs": ()}, "inputs must name at least one column in a tuple"),
        ({"sha256": "abc"}, "sha256 must be 64 lower-case hexadecimal digits"),
    ],
)
def test_fields_are_checked(change, message):
    settings = {"name": "mine", "about": "", "file": "mine.csv", "rows": 3, "inputs": ("x",), "target": "y"} | change
    with pytest.raises(ValueError, match=message):
        datasets.Source(**settings)
