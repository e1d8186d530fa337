"""Tables written, and read back."""

import contextlib
import datetime
import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import hypothesis.extra.numpy as hnp
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.app.tables.files import FRAME, fast
from tightgp.app.tables import TableError, read_table, write_table, writing

WORDS = st.text("abcdXYZ é,;\"'\n\r\t|", min_size=1).filter(lambda text: text.strip("\r\n") == text and text.strip())


NAMES = st.one_of(WORDS, st.integers(-5, 5).map(str), st.sampled_from(["NA", "a b", '"', "x,y"]))


INSTANTS = st.datetimes(datetime.datetime(1700, 1, 1), datetime.datetime(2262, 1, 1)).map(np.datetime64)


@st.composite
def tables(draw):
    """Tables that mean the same in every format: no text that looks like something else."""
    rows = draw(st.integers(1, 8))
    names = draw(st.lists(NAMES, min_size=1, max_size=4, unique=True))
    kinds = {
        "float": hnp.arrays(np.float64, rows, elements=st.floats(allow_infinity=False)),
        "whole": hnp.arrays(np.int64, rows, elements=st.integers(-(2**53), 2**53)),
        "text": st.lists(st.one_of(st.none(), WORDS), min_size=rows, max_size=rows),
        "time": hnp.arrays("M8[us]", rows, elements=INSTANTS),
        "truth": hnp.arrays(bool, rows),
    }
    chosen = draw(st.lists(st.sampled_from(sorted(kinds)), min_size=len(names), max_size=len(names)))
    return pd.DataFrame({name: draw(kinds[kind]) for name, kind in zip(names, chosen, strict=True)})


@fast
@given(tables(), st.sampled_from([".csv", ".tsv", ".txt", ".csv.gz", ".csv.xz", ".tsv.zst", ".txt.bz2", ".parquet"]))
def test_a_table_is_read_back_as_it_was_written(frame, suffix):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"table{suffix}"
        write_table(frame, path)
        again = read_table(path)
        assert os.listdir(folder) == [path.name]
    assert list(again.columns) == list(frame.columns)
    assert len(again) == len(frame)
    for name in frame.columns:
        np.testing.assert_array_equal(again[name].isna(), frame[name].isna())
        kept = frame[name].notna()
        np.testing.assert_array_equal(again[name][kept].to_numpy(), frame[name][kept].to_numpy())


@pytest.mark.parametrize("cells", [[1.5, None], [None, 1.5], ["x", None], [None, None, 2.5]])
def test_a_missing_cell_alone_in_its_row_is_kept(tmp_path, cells):
    write_table(pd.DataFrame({"a": cells}), tmp_path / "t.csv")
    frame = read_table(tmp_path / "t.csv")
    assert [None if pd.isna(cell) else cell for cell in frame["a"]] == cells


def test_durations_are_written_as_days_and_far_dates_survive(tmp_path):
    path = tmp_path / "t.csv"
    far = np.array(["1500-01-01T01:00", "2020-01-01"], "M8[us]")
    write_table(pd.DataFrame({"wait": pd.to_timedelta([36, 12], unit="h"), "when": far}), path)
    frame = read_table(path)
    assert frame["wait"].tolist() == [1.5, 0.5]
    assert frame["when"].dtype.kind == "M"
    np.testing.assert_array_equal(frame["when"].to_numpy("M8[us]"), far)


@pytest.mark.parametrize("name", ["t.npy", "t.xlsx", "t", "t.parquet.gz"])
def test_only_text_and_parquet_are_written(tmp_path, name):
    with pytest.raises(TableError, match=r"cannot be written; use the suffix"):
        write_table(FRAME, tmp_path / name)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (pd.DataFrame({"m": [1, "a"]}, dtype=object), "column 'm' cannot be written"),
        (pd.DataFrame({"m": [1j]}), "column 'm' cannot be written"),
        (pd.DataFrame([[1, 2]], columns=["1", 1]), "two columns are called '1'"),
        (pd.DataFrame({"m": [[1], [2]]}), "column 'm' cannot be written"),
    ],
)
def test_frames_that_cannot_be_written(tmp_path, frame, message):
    with pytest.raises(TableError, match=message):
        write_table(frame, tmp_path / "t.csv")
    assert not os.listdir(tmp_path)


WRITTEN = [".csv", ".csv.gz", ".csv.xz", ".parquet"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
@pytest.mark.parametrize("suffix", WRITTEN)
def test_a_full_disk(tmp_path, monkeypatch, suffix):
    full = tmp_path / "full"
    full.symlink_to("/dev/full")
    monkeypatch.setattr(writing, "atomic_write", lambda path: contextlib.nullcontext(full))
    with pytest.raises(TableError, match=r"cannot be written: No space left on device$"):
        write_table(FRAME, tmp_path / f"t{suffix}")


def test_a_failed_write_leaves_the_old_file_alone(tmp_path):
    code = (
        "import resource, sys, numpy as np, pandas as pd\n"
        "from tightgp.app.tables import TableError, write_table\n"
        "frame = pd.DataFrame(np.random.default_rng(0).normal(size=(50_000, 4)), columns=list('abcd'))\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))\n"
        "for path in sys.argv[1:]:\n"
        "    try:\n        write_table(frame, path)\n"
        "    except TableError as error:\n        print(error)\n"
    )
    paths = [tmp_path / f"t{suffix}" for suffix in WRITTEN]
    for path in paths:
        path.write_text("old")
    ran = subprocess.run([sys.executable, "-c", code, *paths], capture_output=True, text=True, timeout=300)
    assert ran.stdout.splitlines() == [f"{path}: cannot be written: File too large" for path in paths], ran.stderr
    assert sorted(os.listdir(tmp_path)) == sorted(path.name for path in paths)
    assert {path.read_text() for path in paths} == {"old"}


@pytest.mark.parametrize("suffix", WRITTEN)
def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch, suffix):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(TableError, match=r"cannot be written: (Not a directory|File exists)$"):
        write_table(FRAME, tmp_path / "file" / f"t{suffix}")

    def closed(*args, **kwargs):
        raise PermissionError(errno.EACCES, "denied")

    monkeypatch.setattr(Path, "touch", closed)
    with pytest.raises(TableError, match=r"cannot be written: Permission denied$"):
        write_table(FRAME, tmp_path / f"t{suffix}")
    assert os.listdir(tmp_path) == ["file"]


def test_texts_that_a_spreadsheet_would_run_are_marked(tmp_path):
    texts = ["=1+1", "+cmd|x", "-2+3", "@SUM(A1)", "\t=1", "-1.5e3", "+7", "-", "plain", None]
    frame = pd.DataFrame({"=name": texts, "label": pd.Categorical(texts), "x": np.arange(-5.0, 5.0)})
    for path in (tmp_path / "safe.csv", tmp_path / "safe.tsv.gz"):
        write_table(frame, path, formulas=False)
        written = pd.read_csv(path, sep="," if path.suffix == ".csv" else "\t", keep_default_na=False, dtype=str)
        marked = ["'=1+1", "'+cmd|x", "'-2+3", "'@SUM(A1)", "'\t=1", "-1.5e3", "+7", "-", "plain", ""]
        assert list(written) == ["'=name", "label", "x"]
        assert written["'=name"].tolist() == written["label"].tolist() == marked
        assert written["x"].astype(float).tolist() == frame["x"].tolist()
    write_table(frame, tmp_path / "raw.csv")
    assert pd.read_csv(tmp_path / "raw.csv")["=name"][0] == "=1+1"
