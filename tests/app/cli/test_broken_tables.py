"""Forty tables as people have them: each is read with a note, or refused in one line that says what to do.

Nothing is trained here: `read_problem` does all that a fit does before training.
"""

import numpy as np
import pytest

from tightgp.app.cli.options import Request
from tightgp.app.cli.problem import read_problem
from tightgp.app.cli.terminal import Terminal
from tightgp.app.tables import TableError

N = 40
X = [f"{(i * 37 % 100) / 10 + 0.05}" for i in range(N)]


def csv(**columns):
    """A table of quoted cells, with a numeric column x unless there is another."""
    columns = {"x": X, **columns}
    lines = [",".join(columns)]
    lines += [",".join(f'"{cell}"' for cell in row) for row in zip(*columns.values(), strict=True)]
    return "\n".join(lines) + "\n"


def cells(make):
    return [make(i) for i in range(N)]


Y = cells(lambda i: f"{i % 9 + 0.5}")
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]

#: Tables that are fitted: the text, the likelihood, and a note that must be given ("" where nothing is unusual).
FITTED = {
    "money as the target": (csv(y=cells(lambda i: f"${1200 + i * 7:,}.00")), "gaussian", "money in $"),
    "euros with decimal commas": (csv(y=cells(lambda i: f"{i + 1}.345,67 €")), "gaussian", "decimal comma"),
    "decimal commas as the target": (csv(y=cells(lambda i: f"12.345,{i:02d}")), "gaussian", "decimal comma"),
    "percent as the target": (csv(y=cells(lambda i: f"{i % 13}.5%")), "gaussian", "percent"),
    "accountants' negatives": (csv(y=cells(lambda i: f"({i}.50)" if i % 3 else f"{i}.25")), "gaussian", "read as"),
    "thousands with spaces": (csv(y=cells(lambda i: f"{i + 1} 250,5")), "gaussian", "decimal comma"),
    "ages": (csv(y=cells(lambda i: 20 + i * 17 % 60)), "gaussian", ""),
    "ratings": (csv(y=cells(lambda i: 1 + i * 7 % 5)), "gaussian", ""),
    "zeros and ones": (csv(y=cells(lambda i: i % 2)), "classes", "two classes"),
    "yes and no": (csv(y=cells(lambda i: ["yes", "no"][i % 2])), "classes", "2 classes"),
    "a rare class": (csv(y=cells(lambda i: "rare" if i == 7 else "usual")), "classes", "2 classes"),
    "percent as an input": (csv(y=Y, p=cells(lambda i: f"{i * 7 % 40}%")), "gaussian", "percent"),
    "money as an input": (csv(y=Y, p=cells(lambda i: f"${i * 7 % 40 + 1},250")), "gaussian", "money in $"),
    "day first": (csv(y=Y, d=cells(lambda i: f"{i % 28 + 1:02d}/{i % 12 + 1:02d}/2020")), "gaussian", "%d/%m/%Y"),
    "month first": (csv(y=Y, d=cells(lambda i: f"{i % 12 + 1:02d}/{i % 28 + 1:02d}/2020")), "gaussian", "%m/%d/%Y"),
    "months in words": (csv(y=Y, d=cells(lambda i: f"{MONTHS[i % 12]} {i % 28 + 1:02d}, 2020")), "gaussian", "%b %d"),
    "dates with points": (csv(y=Y, d=cells(lambda i: f"{i % 28 + 1:02d}.{i % 12 + 1:02d}.2020")), "gaussian", "%d.%m"),
    "dates as numbers": (csv(y=Y, d=cells(lambda i: 20200101 + i % 28)), "gaussian", "are dates"),
    "an index": (csv(row=range(N), y=Y), "gaussian", "an index, left out"),
    "19-digit ids": (csv(key=cells(lambda i: 10**18 + 7 * i), y=Y), "gaussian", "19 digits: an identifier"),
    "numbers called id": (csv(user_id=cells(lambda i: i * 13 % 997), y=Y), "gaussian", "an identifier, left out"),
    "names": (csv(name=cells(lambda i: f"Person {i}"), y=Y), "gaussian", "an identifier, left out"),
    "sentinels": (csv(w=cells(lambda i: -999 if i % 8 == 0 else 50 + i), y=Y), "gaussian", "read as missing"),
    "a constant": (csv(c=["same"] * N, y=Y), "gaussian", "in every row, left out"),
    "an empty column": (csv(e=[""] * N, y=Y), "gaussian", "no value in any row, left out"),
    "ordered levels": (csv(s=cells(lambda i: ["low", "high", "medium"][i % 3]), y=Y), "gaussian", "low<medium<high"),
    "spellings": (csv(b=cells(lambda i: ["Yes", "no", "yes "][i % 3]), y=Y), "gaussian", "several spellings"),
    "a copy of the target": (csv(copy=Y, y=Y), "gaussian", "the target itself, left out"),
    "semicolons": ("x;y\n" + "".join(f"{i},5;{i * 7 % 11},25\n" for i in range(N)), "gaussian", ""),
    "a byte-order mark": ("\ufeff" + csv(y=Y), "gaussian", ""),
    "blank lines": (csv(y=Y).replace("\n", "\n\n"), "gaussian", ""),
    "a target with gaps": (csv(y=["", *Y[1:]]), "gaussian", "1 of 40 rows have no target and were left out"),
    "words for missing cells": (csv(w=cells(lambda i: "n/a" if i % 5 == 0 else i / 3), y=Y), "gaussian", ""),
}

#: Tables that are refused: the text, options, and what the one line says.
REFUSED = {
    "as many classes as rows": (csv(y=cells(lambda i: f"note {i}")), {}, "too many for classes"),
    "classes nearly all alone": (csv(y=cells(lambda i: f"c{i % 30}")), {}, "name another --target"),
    "either day or month first": (
        csv(y=Y, d=cells(lambda i: f"0{i % 9 + 1}/0{i % 7 + 1}/2020")),
        {},
        "--date-format '%d/%m/%Y' or --date-format '%m/%d/%Y'",
    ),
    "commas of either kind": (
        csv(y=Y, c=cells(lambda i: f"{i % 9 + 1},250")),
        {},
        "--decimal point or --decimal comma",
    ),
    "a stray word": (
        csv(y=Y, c=[*cells(lambda i: f"{i}%")[1:], "lots"]),
        {},
        "'lots' is no number, but 39 other cells",
    ),
    "two currencies": (csv(y=Y, c=cells(lambda i: f"{'$€'[i % 2]}{i}")), {}, "not the same unit"),
    "only constants": ("c,y\n" + "".join(f"7,{i}.5\n" for i in range(N)), {}, "nothing is left to predict from"),
    "a target that is mostly missing": (csv(y=["", *Y[1:10], *[""] * 30]), {}, "--drop-missing-target"),
    "two columns of one name": ("x,x,y\n1,2,3\n4,5,6\n", {}, "two columns are called 'x'"),
    "an unknown column": (csv(y=Y), {"kinds": ["z=text"]}, "--as: there is no column 'z'"),
    "a wrong kind": (csv(y=Y), {"kinds": ["x=integer"]}, "--as must be COLUMN=KIND"),
    "a target that is a date": (csv(y=cells(lambda i: f"2020-01-{i % 28 + 1:02d}")), {}, "is a date or duration"),
}


def problem(text, path, **options):
    path.write_text(text, encoding="utf-8")
    return read_problem(Request(str(path), "y", **options), Terminal(quiet=True))


def test_there_are_forty():
    assert len(FITTED) + len(REFUSED) >= 40


@pytest.mark.parametrize("name", FITTED)
def test_fitted_with_a_note(name, tmp_path):
    text, likelihood, note = FITTED[name]
    found = problem(text, tmp_path / "t.csv")
    assert found.likelihood == likelihood
    assert found.num_rows + len(found.heldout[1]) == N - (name == "a target with gaps")
    assert note in " ".join(found.notes)
    assert len(found.X.columns) >= 1
    assert not {"row", "key", "user_id", "name", "c", "e", "copy"} & set(found.X)


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_one_line(name, tmp_path):
    text, options, message = REFUSED[name]
    with pytest.raises(ValueError, match=r".*") as refused:
        problem(text, tmp_path / "t.csv", **options)
    line = str(refused.value)
    assert message in line
    assert "\n" not in line
    assert isinstance(refused.value, TableError) or "--as" in line


def test_the_option_that_is_named_settles_it(tmp_path):
    text = REFUSED["either day or month first"][0]
    found = problem(text, tmp_path / "t.csv", date_format="%m/%d/%Y")
    assert found.X["d"].dtype.kind == "M"
    text = REFUSED["commas of either kind"][0]
    assert problem(text, tmp_path / "t.csv", decimal="comma").X["c"].max() == 9.25
    text = REFUSED["a stray word"][0]
    assert np.isnan(problem(text, tmp_path / "t.csv", missing=["lots"], holdout=0).X["c"].iloc[-1])
    text = REFUSED["as many classes as rows"][0]
    assert problem(text, tmp_path / "t.csv", likelihood="classes").likelihood == "classes"
