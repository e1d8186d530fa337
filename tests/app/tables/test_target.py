"""The column to predict."""

import pandas as pd
import pytest

from tightgp.app.tables import TableError, check_target, find_column, read_table


@pytest.mark.parametrize(
    ("names", "target", "found"),
    [
        (["a", "b"], "b", "b"),
        (["a", " b "], "b", " b "),
        (["a", "b"], " a", "a"),
        (["a", "b"], "-1", "b"),
        (["a", "b"], "0", "a"),
        (["1", "0"], "0", "0"),
        (["a", 7], "7", 7),
    ],
)
def test_the_target_is_found_by_name_or_number(names, target, found):
    assert find_column(pd.DataFrame([[1, 2]], columns=names), target) == found


@pytest.mark.parametrize(
    ("names", "wanted", "message"),
    [
        (
            ["price", "size"],
            "prise",
            "no column 'prise'; the columns are 'price', 'size'; did you mean 'price'",
        ),
        (["Price", "size"], "price", "did you mean 'Price'?"),
        (["a", "b"], "2", "the columns are 'a', 'b'"),
        ([" a", "a "], "a", "the columns are ' a', 'a '"),
    ],
)
def test_unknown_columns(names, wanted, message):
    with pytest.raises(TableError) as caught:
        find_column(pd.DataFrame([[1, 2]], columns=names), wanted)
    assert message in str(caught.value)


def test_unusable_targets(file):
    path = file("x,y,flat,word\n1,1,5,u\n2,,5,v\n\n3,inf,5,u\n")
    frame = read_table(path)
    for name, message in (
        ("y", "row 3: target 'y' is missing, in all in 1 of 3 rows"),
        ("flat", "target 'flat' is '5' in every row"),
    ):
        with pytest.raises(TableError) as caught:
            check_target(frame, name, path)
        assert message in str(caught.value)
        assert str(caught.value).startswith(f"{path}: ")
    rest = read_table(file("x,y\n1,1\n2,2\n\n3,inf\n"))
    with pytest.raises(TableError, match="row 5: target 'y' is infinite"):
        check_target(rest, "y", path)
    with pytest.raises(TableError, match=r"has 1 row\(s\)"):
        check_target(frame.iloc[:1], "x", path)
    assert check_target(frame, "x", path).tolist() == [1, 2, 3]
    assert check_target(frame, "word", path).tolist() == ["u", "v", "u"]
