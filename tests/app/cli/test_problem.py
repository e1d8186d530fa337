"""From a table to what is fitted, and every table that cannot be."""

import gzip

import numpy as np
import pytest

from tests.app.cli.conftest import run
from tightgp.app.cli.options import Request
from tightgp.app.cli.problem import read_problem
from tightgp.app.cli.terminal import Terminal


def problem(path, **options):
    return read_problem(Request(str(path), **{"target": "y", **options}), Terminal(quiet=True))


def write(path, rows, header="x,y"):
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


@pytest.mark.parametrize(
    ("cells", "likelihood"),
    [
        (["1.5", "2.5", "-1", "7"], "gaussian"),
        (["0", "1", "1", "0"], "classes"),
        (["0", "0", "1", "2"] * 8, "poisson"),
        (["5", "3", "4", "2"] * 8, "gaussian"),  # ratings: no zeros
        (["31", "45", "23", "62"] * 8, "gaussian"),  # ages
        (["1000", "3", "1", "12"], "gaussian"),
        (["-1", "3", "1", "12"], "gaussian"),
        (["a", "b", "a", "c"], "classes"),
        (["true", "false", "true", "true"], "classes"),
    ],
)
def test_likelihood_is_guessed(tmp_path, cells, likelihood):
    path = write(tmp_path / "t.csv", [f"{i},{cell}" for i, cell in enumerate(cells)])
    found = problem(path, holdout=0.25)
    assert found.likelihood == likelihood
    assert found.num_rows + len(found.heldout[1]) == len(cells)
    assert bool(found.notes) == (likelihood != "gaussian")


def test_heldout_rows_are_numbered_as_in_the_file(tmp_path):
    path = write(tmp_path / "t.csv", [f"{i},{i / 2}" if i != 4 else "4," for i in range(40)])
    found = problem(path, holdout=0.25)
    assert found.notes == ("1 of 40 rows have no target and were left out.",)
    assert found.num_rows + len(found.heldout[1]) == 39
    np.testing.assert_array_equal([2 * y + 2 for y in found.heldout[1]], found.heldout_rows)
    np.testing.assert_array_equal(found.heldout[0]["x"] / 2, found.heldout[1])
    assert not set(found.y) & set(found.heldout[1])
    same = problem(path, holdout=0.25)
    assert same.heldout_rows == found.heldout_rows
    assert problem(path, holdout=0.25, seed=1).heldout_rows != found.heldout_rows
    assert problem(path, holdout=0).heldout is None


def test_errors_after_dropped_rows_name_the_row_of_the_file(tmp_path):
    path = write(tmp_path / "t.csv", ["1,1", "2,", "3,3", "4,inf", "5,5"])
    with pytest.raises(ValueError, match="row 5: target 'y' is infinite"):
        problem(path)


def test_mostly_missing_targets_are_left_out_if_asked(tmp_path):
    path = write(tmp_path / "t.csv", [f"{i},{i / 2}" if i < 12 else f"{i}," for i in range(40)])
    with pytest.raises(ValueError, match=r"row 14: .* in 28 of 40 rows; fill them in, or .* --drop-missing-target"):
        problem(path)
    found = problem(path, drop_missing_target=True, holdout=0.25)
    assert found.num_rows + len(found.heldout[1]) == 12


def test_classes_are_held_out_in_proportion(tmp_path):
    path = write(tmp_path / "t.csv", [f"{i % 7},{'rare' if i % 20 == 0 else 'common'}" for i in range(200)])
    for seed in range(5):
        assert np.sum(problem(path, holdout=0.2, seed=seed).heldout[1] == "rare") == 2


def test_the_last_rows_by_a_time_are_held_out(tmp_path):
    rng = np.random.default_rng(0)
    days = rng.permutation(40)
    path = write(tmp_path / "t.csv", [f"2024-01-01 {d % 24:02d}:{d:02d}:00,{d},{d + 0.5}" for d in days], "t,x,y")
    found = problem(path, holdout=0.25, holdout_by="x")
    assert sorted(found.heldout[1]) == [d + 0.5 for d in range(30, 40)]
    assert problem(path, holdout=0.25, holdout_by="t").heldout[0]["t"].min() > found.X["t"].min()
    with pytest.raises(ValueError, match="--holdout-by: there is no column 'z'"):
        problem(path, holdout_by="z")


def test_every_class_has_a_row_to_fit(tmp_path):
    path = write(tmp_path / "t.csv", [f"{i},{'abcdefgh'[i % 8]}" for i in range(9)])
    for seed in range(10):
        found = problem(path, holdout=0.5, seed=seed)
        assert set(found.y) == set("abcdefgh")


BAD = {
    "empty file": (b"", "empty"),
    "header only": (b"x,y\n", "no rows"),
    "ragged": (b"x,y\n1,2\n1,2,3\n4,5\n", "row 3"),
    "ragged, too few": (b"x,y\n1,2\n1\n4,5\n", "row 3"),
    "binary": (bytes(range(256)) * 8, ""),
    "wrong encoding": ("x,y\ncafé,2\nthé,3\n".encode("latin-1"), "latin-1"),
    "NaN target": (b"x,y\n1,2\n2,nan\n3,nan\n", "row 3: target 'y' is missing"),
    "infinite target": (b"x,y\n1,2\n2,inf\n3,4\n", "row 3: target 'y' is infinite"),
    "constant target": (b"x,y\n1,2\n2,2\n3,2\n", "target 'y' is '2' in every row"),
    "one row": (b"x,y\n1,2\n", "1 row"),
    "no such target": (b"x,z\n1,2\n3,4\n5,6\n", "--target: there is no column 'y'; the columns are 'x', 'z'"),
    "only the target": (b"y\n1\n2\n3\n", "no column besides the target"),
    "too few rows to hold any out": (b"x,y\n1,2\n2,3\n", "--holdout"),
}


@pytest.mark.parametrize("name", BAD)
def test_unusable_tables_give_one_line(name, tmp_path):
    content, message = BAD[name]
    path, folder = tmp_path / "t.csv", tmp_path / "m"
    path.write_bytes(content)
    ran = run("fit", path, "--target", "y", "--out", folder)
    assert ran.code == 2, ran.err
    assert ran.out == ""
    last = ran.err.splitlines()[-1]
    assert last.startswith("error: ")
    assert message in last
    if name not in ("no such target", "too few rows to hold any out"):
        assert str(path) in last
    assert len(last) < 500
    assert not folder.exists()


def test_a_cell_of_a_million_characters_is_a_level(tmp_path):
    long = "a" * 10**6
    found = problem(write(tmp_path / "t.csv", [f"{long},2.5", "b,3", "b,4", f"{long},5"]), holdout=0)
    assert found.X["x"].tolist() == [long, "b", "b", long]


def test_missing_and_incomplete_files(tmp_path):
    packed = gzip.compress(b"x,y\n" + b"1,2\n" * 10_000)
    (tmp_path / "t.csv.gz").write_bytes(packed[: len(packed) // 2])
    for name in ("t.csv.gz", "missing.csv", "t.xlsx"):
        ran = run("fit", tmp_path / name, "--target", "y", "--out", tmp_path / "m")
        assert ran.code == (2 if name == "t.csv.gz" else 4)
        assert name in ran.err
        assert ran.err.count("\n") == 1
    (tmp_path / "t.csv").write_text("x\n1\n")
    ran = run("predict", tmp_path / "nothing", tmp_path / "t.csv", "--out", tmp_path / "p.csv")
    assert ran.code == 2
    assert "does not exist" in ran.err
    (tmp_path / "model.safetensors").write_bytes(b"half")
    ran = run("predict", tmp_path, tmp_path / "t.csv", "--out", tmp_path / "p.csv")
    assert ran.code == 2
    assert str(tmp_path / "model.safetensors") in ran.err


def test_folders_that_cannot_be_written(csv, tmp_path):
    (tmp_path / "file").write_text("")
    ran = run("fit", csv, "--target", "y", "--out", tmp_path / "file")
    assert ran.code == 2
    assert "is a file; name a folder" in ran.err
    ran = run("fit", csv, "--target", "y", "--out", tmp_path / "file" / "deeper")
    assert ran.code == 4
    assert "Not a directory" in ran.err
    ran = run("fit", csv, "--target", "y", "--out", "/proc/nothing")
    assert ran.code == 4
    assert ran.err.splitlines()[-1].startswith("error: /proc/nothing")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--likelihood", "poison"], "--likelihood must be auto, gaussian"),
        (["--likelihood", "poisson"], "whole numbers of at least 0"),
        (["--holdout", "1"], "--holdout must be a share"),
        (["--inducing", "many"], "--inducing must be a whole number of at least 1, or auto"),
        (["--ignore", "y"], "is the target"),
        (["--ignore", "z"], "--ignore: there is no column 'z'"),
        (["--kernel", "mattern"], "kernel"),
        (["--bound", "tight"], "bound"),
        (["--method", "magic"], "method"),
    ],
)
def test_invalid_options(csv, tmp_path, options, message):
    ran = run("fit", csv, "--target", "y", "--out", tmp_path / "m", *options)
    assert ran.code == 2, ran.err
    assert message in ran.err.splitlines()[-1]
    assert not (tmp_path / "m" / "model.safetensors").exists()
