"""Everything unusual in a table is found at once, with the option that changes it, and other rows are read alike."""

import numpy as np
import pandas as pd
import pytest

from tightgp.app.tables import Choices, TableError, inspect_table
from tightgp.app.tables.readings import apply_readings, from_plain, to_plain

N = 40


def shop():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "row": np.arange(N),
            "day": [f"{['Jan', 'Feb', 'Mar', 'Apr'][i % 4]} {i % 28 + 1:02d}, 2020" for i in range(N)],
            "stamp": [20200101 + 100 * (i % 12) + i % 28 for i in range(N)],
            "price": [f"${v:,}.00" for v in rng.integers(900, 20000, N)],
            "tax": [f"{i % 17}%" for i in range(N)],
            "size": [["low", "medium", "high"][i % 3] for i in range(N)],
            "ok": [["yes", "no", "Yes"][i % 3] for i in range(N)],
            "when": [f"{i % 28 + 1:02d}/{i % 12 + 1:02d}/2021" for i in range(N)],
            "weight": [-999 if i % 10 == 0 else 50 + i for i in range(N)],
            "code": [10**18 + 7 * i for i in range(N)],
            "flat": [7] * N,
            "empty": [None] * N,
            "name": [f"item {i}" for i in range(N)],
            "x": rng.normal(size=N),
        }
    )


@pytest.fixture(scope="module")
def found():
    return inspect_table(shop(), "price")


def test_columns_are_read_as_what_they_are(found):
    kinds = {name: found.frame[name].dtype.kind for name in found.frame}
    assert kinds == {"day": "M", "stamp": "M", "price": "f", "tax": "f", "size": "O", "ok": "O", "when": "M"} | {
        "weight": "f",
        "x": "f",
    }
    assert found.frame["size"].cat.ordered
    assert set(found.frame["ok"]) == {"yes", "no"}
    assert found.frame["weight"].isna().sum() == 4
    assert found.times == ("day", "stamp", "when")


def test_everything_is_said_at_once_with_the_option_that_changes_it(found):
    said = {one.column: str(one) for one in found.findings}
    for column, words in {
        "row": "an index, left out (change: --as row=keep)",
        "day": "read as %b %d, %Y (change: --as day=text)",
        "stamp": "are dates (change: --as stamp=number)",
        "price": "money in $, read as numbers (change: --as price=text)",
        "tax": "percent",
        "size": "its levels have an order: low<medium<high",
        "ok": "several spellings",
        "when": "read as %d/%m/%Y",
        "weight": "-999 in 4 rows is far from the rest: read as missing (change: --as weight=number)",
        "code": "whole numbers of 19 digits: an identifier, left out",
        "flat": "is '7' in every row, left out",
        "empty": "has no value in any row, left out",
        "name": "40 different texts in 40 rows",
    }.items():
        assert words in said[column]
    assert set(said) == set(shop()) - {"x"}
    assert found.problems == []


def test_each_option_changes_what_it_says():
    kinds = {"row": "keep", "day": "text", "stamp": "number", "tax": "text", "size": "high<medium<low", "name": "keep"}
    changed = inspect_table(shop(), "price", Choices(kinds={**kinds, "weight": "number", "code": "keep"}))
    frame = changed.frame
    assert {"row", "name", "code"} <= set(frame)
    assert frame["stamp"].dtype.kind == "i"
    assert frame["tax"].iloc[1] == "1%"
    assert list(frame["size"].cat.categories) == ["high", "medium", "low"]
    assert frame["weight"].min() == -999
    assert inspect_table(shop(), "price", Choices(missing=("-999", "low"))).frame["size"].isna().sum() == 14


def test_other_rows_are_read_as_the_training_rows_were(found):
    readings = from_plain(to_plain(found.readings))
    new = shop().iloc[[0, 1]].reset_index(drop=True)
    new.loc[0, "when"] = "03/04/2021"  # by itself it could be March
    read = apply_readings(new, readings, "new.csv")
    assert read["when"].iloc[0] == pd.Timestamp("2021-04-03")
    assert read["price"].dtype.kind == "f"
    assert np.isnan(read["weight"].iloc[0])
    new.loc[1, "tax"] = "lots"
    with pytest.raises(TableError, match=r"new\.csv: row 3, column 'tax': 'lots' is not a number"):
        apply_readings(new, readings, "new.csv")


def test_problems_come_together_in_one_line():
    frame = pd.DataFrame(
        {
            "when": [f"0{i % 9 + 1}/0{i % 7 + 1}/2020" for i in range(N)],
            "cost": ["1,250", "3,000"] * (N // 2),
            "mixed": ["$5", "€6"] * (N // 2),
            "odd": ["12"] * (N - 1) + ["twelve"],
            "y": np.arange(N) / 2,
        }
    )
    found = inspect_table(frame, "y")
    with pytest.raises(TableError) as refused:
        found.check("t.csv")
    message = str(refused.value)
    for words in (
        "--date-format '%d/%m/%Y' or --date-format '%m/%d/%Y'",
        "--decimal point or --decimal comma",
        "not the same unit",
        "row 41: 'twelve' is no number, but 39 other cells are",
    ):
        assert words in message
    assert "\n" not in message
    settled = Choices(date_format="%d/%m/%Y", decimal="point", kinds={"mixed": "text"}, missing=("twelve",))
    again = inspect_table(frame, "y", settled)
    assert again.problems == []
    assert again.frame["cost"].tolist()[:2] == [1250, 3000]
    assert again.frame["when"].iloc[0] == pd.Timestamp("2020-01-01")


def test_the_only_input_is_kept_even_if_it_counts_the_rows():
    frame = pd.DataFrame({"t": np.arange(N), "y": np.sin(np.arange(N))})
    assert list(inspect_table(frame, "y").frame) == ["t", "y"]


def test_a_copy_of_the_target_is_left_out():
    rng = np.random.default_rng(0)
    y = rng.normal(size=N)
    frame = pd.DataFrame({"x": rng.normal(size=N), "copy": y, "y": y})
    found = inspect_table(frame, "y")
    assert list(found.frame) == ["x", "y"]
    assert "is the target itself" in str(found.findings[0])


def test_the_target_in_other_words_is_left_out():
    alive = np.arange(N) % 3 == 0
    frame = pd.DataFrame(
        {"x": np.arange(N) / 3.5, "alive": np.where(alive, "yes", "no"), "survived": alive.astype(int)}
    )
    frame["sex"] = np.where(np.arange(N) % 2, "f", "m")
    found = inspect_table(frame, "survived")
    assert list(found.frame) == ["x", "survived", "sex"]
    assert "says the target in other words, left out (change: --as alive=keep)" in str(found.findings[0])
