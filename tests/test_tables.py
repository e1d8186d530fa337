import bz2
import contextlib
import datetime
import errno
import gzip
import io
import lzma
import os
import pickle
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import hypothesis.extra.numpy as hnp
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tightgp.tables import (
    TableError,
    check_target,
    read_table,
    reading,
    row_number,
    target_column,
    write_table,
    writing,
)

bounded = settings(
    max_examples=150, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture
def file(tmp_path):
    """Write a file of this content, and give its path."""

    def write(content, name="table.csv"):
        path = tmp_path / name
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    return write


def refused(path, *said, **options):
    """The one line with which reading fails, which names the file and says all of this."""
    with pytest.raises(TableError) as caught:
        read_table(path, **options)
    line = str(caught.value)
    assert line.startswith(f"{path}: ")
    assert "\n" not in line
    assert line.isprintable()
    for part in said:
        assert part in line
    return line


TABLE = "a,b\n1,x\n2.5,y\n"
EXPECTED = pd.DataFrame({"a": [1.0, 2.5], "b": ["x", "y"]})


def zstd(data):
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return sink.getvalue().to_pybytes()


PACKERS = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress, ".zst": zstd}


@pytest.mark.parametrize("packed", PACKERS)
@pytest.mark.parametrize(("suffix", "mark"), [(".csv", ","), (".TSV", "\t"), (".txt", ";"), (".csv", "|")])
def test_text_is_read_with_any_delimiter_and_compression(file, suffix, mark, packed):
    path = file(PACKERS[packed](TABLE.replace(",", mark).encode()), "table" + suffix + packed)
    frame = read_table(path)
    pd.testing.assert_frame_equal(frame, EXPECTED)
    assert frame.attrs["header"] is True


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("tail", ["", "end", "ends"])
def test_line_ends_of_every_kind_and_number(file, end, tail):
    text = TABLE.rstrip("\n").replace("\n", end) + {"": "", "end": end, "ends": 3 * end}[tail]
    pd.testing.assert_frame_equal(read_table(file(text)), EXPECTED)


@pytest.mark.parametrize("encoding", ["utf-8-sig", "latin-1", "utf-16", "cp1252"])
def test_other_encodings_and_byte_order_marks(file, encoding):
    frame = read_table(file("naïve,b\n1,é\n".encode(encoding)), encoding=encoding.removesuffix("-sig"))
    assert list(frame.columns) == ["naïve", "b"]
    assert frame["b"][0] == "é"


def test_the_types_of_columns(file):
    frame = read_table(
        file(
            "whole,float,day,time,hour,truth,text,holes\n"
            '1,1e3,2020-01-01,2020-01-01 12:30:00,12:30,true,"a, ""b""\nc",\n'
            "2,-.5,2020-02-29,2020-01-01 12:30:01,13:30,False,d,3\n"
        )
    )
    assert list(frame["whole"]) == [1, 2]
    assert list(frame["float"]) == [1000.0, -0.5]
    assert list(frame["day"]) == [pd.Timestamp("2020-01-01"), pd.Timestamp("2020-02-29")]
    assert frame["time"][1] == pd.Timestamp("2020-01-01 12:30:01")
    assert frame["hour"][0] == pd.Timedelta(hours=12.5)
    assert list(frame["truth"]) == [True, False]
    assert frame["text"][0] == 'a, "b"\nc'
    assert frame["holes"].isna().tolist() == [True, False]


def test_a_first_row_of_numbers_is_no_header(file):
    frame = read_table(file("1,-2.5\n3,4e1\n"))
    assert list(frame.columns) == ["c0", "c1"]
    assert frame.attrs["header"] is False
    assert frame.shape == (2, 2)
    quoted = read_table(file('"1","2"\n3,4\n'))
    assert list(quoted.columns) == ["1", "2"]
    assert quoted.attrs["header"] is True


def test_the_index_that_pandas_writes_is_kept(file):
    path = file("")
    pd.DataFrame({"a": [1.5, 2.5]}).to_csv(path)
    assert list(read_table(path).columns) == ["unnamed", "a"]


@pytest.mark.parametrize("word", ["", "NA", "N/A", "NaN", "nan", "null", "None", '""'])
def test_words_for_missing_cells(file, word):
    frame = read_table(file(f"a,b,c\n{word},{word},2020-01-01\n1,x,{word}\n"))
    assert frame.isna().to_numpy().tolist() == [[True, True, False], [False, False, True]]
    assert frame["a"].dtype == np.float64


@pytest.mark.parametrize("word", ["?", "-", " ? "])
def test_marks_for_missing_cells_among_numbers_only(file, word):
    frame = read_table(file(f"a,b\n{word},{word}\n1,x\n+2.5,y\n"))
    assert frame["a"].dtype == np.float64
    assert frame["a"].isna().tolist() == [True, False, False]
    assert frame["b"][0] == word


def test_decimal_commas(file):
    frame = read_table(file("a;b\n1,5;x\n-2,25;y\n3;z\n"))
    assert list(frame["a"]) == [1.5, -2.25, 3.0]
    assert read_table(file("1,5;2,5\n3,5;4,5\n")).to_numpy().tolist() == [[1.5, 2.5], [3.5, 4.5]]
    assert list(read_table(file('a,b\n"1,5",x\n"2",y\n'))["a"]) == [1.5, 2.0]
    refused(file('a,b\n7,x\n"1,500",x\n"2,000",y\n'), "row 3, column 'a': '1,500' may be", "thousands", "1234.5")


@pytest.mark.parametrize("stray", ["12,5", "abc", "1.2.3", "5 km"])
def test_a_stray_text_among_numbers_is_refused_by_row_and_value(file, stray):
    cells = [f"{i}.5" for i in range(20)]
    cells[12] = stray
    path = file("x;y\n" + "\n".join(f"{i};{cell}" for i, cell in enumerate(cells)))
    refused(path, f"row 14, column 'y': '{stray}' is no number, but 19 of the column's 20 cells are")
    fewer = file("x;y\n" + "\n".join(f"{i};{cell}" for i, cell in enumerate(cells[8:16])))
    assert list(read_table(fewer)["y"]) == cells[8:16]


def test_rows_are_counted_as_a_spreadsheet_does(file):
    path = file('\n\na,b\n1,"two\nlines"\n\n3,4\n5,6\n')
    frame = read_table(path)
    assert [row_number(frame, i) for i in range(3)] == [4, 6, 7]
    assert row_number(frame, np.arange(3)).tolist() == [4, 6, 7]
    assert [row_number(read_table(file("1,2\n\n3,4\n")), i) for i in range(2)] == [1, 3]
    assert row_number(read_table(file("a,b\n\r1,2")), 0) == 3
    refused(file('\na,b\n1,"two\nlines"\n\n3,4\n5,6,7\n'), "row 6 has 3 cells")


def test_blank_lines_of_one_column_are_missing_cells(file):
    frame = read_table(file("\na\n1\n\n3\n\n"))
    assert frame["a"].isna().tolist() == [False, True, False]
    assert row_number(frame, 2) == 5


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\n\r\n\n", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"a,b\n", "column names but no rows"),
        (b"a,b\n\n\n", "column names but no rows"),
        (b"a,b\n1,2\n3,4,5\n", "row 3 has 3 cells where the first row has 2: '3,4,5'"),
        (b"a,b\n1,2\n3\n", "row 3 has 1 cell where the first row has 2: '3'"),
        (b"1,2\n3,4\n5\n", "row 3 has 1 cell where"),
        (b'a,b\n1,"x"\n2,"y\n3,z\n4,w\n', 'row 3: a quote (") opens there'),
        (b'"a,b\n1,2\n', 'row 1: a quote (") opens there'),
        (b'a,b\n1,5" pipe\n2,"y\n3,z\n', 'row 3: a quote (") opens there'),
        (b"a,b\n1,\xe9\n", 'row 2: byte 0xe9 is no text in utf-8; pass encoding="latin-1"'),
        (b'a,b\n"1\n\n",2\n"3","4"\n5,\xe9\n', "row 4: byte 0xe9"),
        ("a,b\n1,2\n".encode("utf-16"), 'encoding="utf-16"'),
        (b"a,b\n1,\0\n", "zero bytes"),
        (b"PK\x03\x04\0\0\xff\xff\xfe", "zero bytes"),
        (b"a,a\n1,2\n", "two columns are called 'a', the second is column 2"),
        (b"a,,b\n1,2,3\n", "column 2 of 3 has no name"),
        (b" \n1\n", "column 1 of 1 has no name"),
        (b"1.0  2.0\n3.0  4.0\n", "separated by spaces"),
    ],
)
def test_malformed_text_is_refused_in_one_line(file, content, said):
    refused(file(content), said)


def test_random_bytes_are_refused(file):
    for seed in range(20):
        refused(file(np.random.default_rng(seed).bytes(1000)), "no text")


def test_rows_are_named_in_large_files_too(file):
    lines = ["a,b", *["1.5,2.5"] * 400_000]
    lines[300_000] = "1.5,2.5,3.5"
    refused(file("\n".join(lines)), "row 300001 has 3 cells")
    lines[300_000] = "1.5,2.5x"
    refused(file("\n".join(lines)), "row 300001, column 'b': '2.5x'")


def test_quoted_line_ends_in_large_files(file):
    frame = read_table(file("a,b\n" + '1.5,"two\n\nlines"\n' * 200_000))
    assert len(frame) == 200_000
    assert set(frame["b"]) == {"two\n\nlines"}
    assert "blank" not in frame.attrs


def test_a_cell_of_a_million_characters_is_read(file):
    frame = read_table(file('a,b\n1,"' + "x" * 3_000_000 + '"\n2,y\n'))
    assert frame["b"].str.len().tolist() == [3_000_000, 1]
    refused(file("a" * 3_000_000 + ",b\n1\n"), "row 2 has 1 cell")
    refused(file("a,b\n1,2\n" + "x" * 3_000_000), "row 3 has 1 cell")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"encoding": "utf-9"}, "encoding 'utf-9' is unknown"),
        ({"encoding": "hex"}, "encoding 'hex' is unknown"),
        ({"delimiter": ";;"}, "delimiter must be one character"),
        ({"delimiter": "é"}, "delimiter must be one character"),
        ({"delimiter": ""}, "delimiter must be one character"),
    ],
)
def test_options_are_checked(file, options, said):
    refused(file(TABLE), said, **options)


def test_a_given_delimiter_is_used(file):
    for mark in ("\t", r"\t", "tab"):
        assert list(read_table(file("a;x\tb\n1\t2\n"), delimiter=mark).columns) == ["a;x", "b"]
    assert list(read_table(file("a b\n1 2\n"), delimiter=" ").columns) == ["a", "b"]


@pytest.mark.parametrize("packed", [p for p in PACKERS if p])
def test_a_compressed_file_cut_in_half_is_refused(file, packed):
    data = PACKERS[packed](b"a,b\n" + b"".join(b"%d,%d\n" % (i, i * i) for i in range(5000)))
    for broken in (data[: len(data) // 2], b"a,b\n1,2\n" + data):
        refused(file(broken, "table.csv" + packed), f"is no whole {packed} file")


def test_parquet(file, tmp_path):
    frame = pd.DataFrame(
        {
            "a": [1.5, None],
            "b": pd.Categorical(["x", "y"]),
            "c": [datetime.date(2020, 1, 1), None],
            "d": [datetime.time(12, 30), None],
            "e": pa.array([b"u", None]).to_pylist(),
        },
        index=pd.Index([5, 6]),
    )
    path = tmp_path / "table.parquet"
    frame.to_parquet(path)
    found = read_table(path)
    assert list(found.columns) == ["a", "b", "c", "d", "e", "unnamed"]
    assert found["c"][0] == pd.Timestamp("2020-01-01")
    assert found["d"][0] == pd.Timedelta(hours=12.5)
    assert found["e"][0] == "u"
    assert found["unnamed"].tolist() == [5, 6]
    assert row_number(found, 0) == 2

    data = path.read_bytes()
    refused(file(data[: len(data) // 2], "half.parquet"), "cannot be read as Parquet")
    refused(file(b"no such thing", "junk.parquet"), "cannot be read as Parquet")
    refused(file(b"", "empty.parquet"), "cannot be read as Parquet")
    pq.write_table(pa.table({"x": [[1], [2]]}), tmp_path / "nested.parquet")
    refused(tmp_path / "nested.parquet", "column 'x' holds lists or records")
    pq.write_table(pa.table([[1], [2]], ["x", "x"]), tmp_path / "twice.parquet")
    refused(tmp_path / "twice.parquet", "two columns are called 'x'")
    pq.write_table(pa.table({"x": pa.array([], pa.float64())}), tmp_path / "none.parquet")
    refused(tmp_path / "none.parquet", "no rows")
    pq.write_table(pa.table({}), tmp_path / "nothing.parquet")
    refused(tmp_path / "nothing.parquet", "no columns")


def test_parquet_that_contradicts_itself_about_its_rows(tmp_path, file):
    pq.write_table(pa.table({"x": list(range(29))}), tmp_path / "t.parquet")
    data, said = (tmp_path / "t.parquet").read_bytes(), []
    # In the footer 29 is written as the byte 58; one that is changed must be noticed or mean something else.
    for at in [i for i in range(len(data)) if data[i] == 58]:
        for other in (b"\x02", b"\x7e"):
            try:
                assert len(read_table(file(data[:at] + other + data[at + 1 :], "broken.parquet"))) == 29
            except TableError as error:
                said.append(str(error))
    assert any("it holds 29 rows where it claims 63" in line for line in said)
    assert any("it holds 1 rows where it claims 29" in line for line in said)


class Trap:
    """What a hostile file would hold."""

    def __reduce__(self):
        return os.abort, ()


def saved(**arrays):
    out = io.BytesIO()
    np.savez(out, **arrays)
    return out.getvalue()


def packed(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


@pytest.mark.parametrize("dtype", ["f8", ">f8", "f4", "f2", "i2", ">i4", "u1", "?"])
def test_npy(file, dtype):
    array = np.array([[1, 0], [0, 1], [1, 1]], dtype)
    frame = read_table(file(packed(array), "table.npy"))
    assert list(frame.columns) == ["c0", "c1"]
    np.testing.assert_array_equal(frame.to_numpy(), array)
    assert frame.attrs["header"] is False
    assert frame.dtypes["c0"].isnative


def test_npy_with_fields(file):
    array = np.array([(1.5, "u", "2020-01-01"), (2.5, "v", "2020-01-02")], [("a", ">f8"), ("b", "U3"), ("c", "M8[D]")])
    frame = read_table(file(packed(array), "table.npy"))
    assert list(frame.columns) == ["a", "b", "c"]
    assert frame["a"].tolist() == [1.5, 2.5]
    assert frame["b"].tolist() == ["u", "v"]
    assert frame["c"][1] == pd.Timestamp("2020-01-02")
    refused(file(packed(np.zeros(2, [("a", "f8", 3)])), "table.npy"), "field 'a'")
    refused(file(packed(array).replace("u".encode("utf-32-le"), b"\xff" * 4), "table.npy"), "field that cannot be read")


def test_npz(file):
    X, y = np.arange(6.0).reshape(3, 2), np.array([1, 2, 3])
    for content in (saved(X=X, y=y), saved(x=X, y=y[:, None]), saved(X=X, Y=y)):
        frame = read_table(file(content, "table.npz"))
        assert list(frame.columns) == ["x0", "x1", "y"]
        np.testing.assert_array_equal(frame.to_numpy(), np.column_stack([X, y]))
        assert frame.attrs["header"] is False
    assert list(read_table(file(saved(anything=X), "table.npz")).columns) == ["c0", "c1"]
    refused(file(saved(X=X, y=y[:2]), "table.npz"), "array 'y' has shape (2,)", "3 numbers")
    refused(file(saved(X=X, z=y), "table.npz"), "holds the arrays ['X', 'z']")
    refused(file(saved(), "table.npz"), "holds the arrays []")


def a_zip(name, content):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(name, content)
    return out.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.npy", packed(np.arange(3.0)), "has shape (3,)"),
        ("t.npy", packed(np.array([["a"]])), "needs numbers"),
        ("t.npy", packed(np.zeros((2, 2), complex)), "needs numbers"),
        ("t.npy", packed(np.zeros((0, 2))), "no rows"),
        ("t.npy", packed(np.zeros((2, 0))), "no columns"),
        ("t.npy", packed(np.array([[Trap()]])), "pickled objects"),
        ("t.npy", pickle.dumps(Trap()), "is no whole NumPy file"),
        ("t.npy", packed(np.zeros((9, 9)))[:300], "is no whole NumPy file"),
        ("t.npy", packed(np.zeros((9, 9)))[:30], "is no whole NumPy file"),
        ("t.npy", packed(np.zeros((9, 9))).replace(b"9, 9", b"9999999999999, 9"), "is no whole NumPy file"),
        ("t.npy", b"", "is no whole NumPy file"),
        ("t.npy", saved(X=np.zeros((2, 2))), "call it .npz"),
        ("t.npz", packed(np.zeros((2, 2))), "is no .npz archive"),
        ("t.npz", saved(X=np.array([[Trap()]])), "pickled objects"),
        ("t.npz", pickle.dumps(Trap()), "is no .npz archive"),
        ("t.npz", saved(X=np.zeros((9, 9)))[:200], "is no whole .npz archive"),
        ("t.npz", b"PK\x03\x04 no zip", "is no whole .npz archive"),
        ("t.npz", b"no zip", "is no .npz archive"),
        ("t.npz", a_zip("X.npy", b"no array"), "holds 'X', which is no array"),
        ("t.npz", a_zip("readme.txt", b"no array"), "holds 'readme.txt', which is no array"),
    ],
)
def test_malformed_arrays_are_refused_and_nothing_runs(file, name, content, said):
    refused(file(content, name), said)


@pytest.mark.parametrize("name", ["t.xlsx", "t", "t.json", "t.parquet.gz", "t.gz", ".csv"])
def test_other_suffixes_are_refused(file, name):
    refused(file("a,b\n1,2\n", name), "cannot tell the format", ".csv", ".parquet", ".npz")


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".parquet", ".npy", ".npz"])
def test_files_that_cannot_be_opened(tmp_path, monkeypatch, suffix):
    path = tmp_path / f"table{suffix}"
    refused(path, "No such file or directory")
    path.mkdir()
    refused(path, "is a folder")
    path.rmdir()
    path.write_bytes(b"")

    def denied(*args, **kwargs):
        raise PermissionError(errno.EACCES, "denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", denied)
    monkeypatch.setattr(Path, "open", denied)
    refused(path, "cannot be read: Permission denied")


def test_what_does_not_fit_in_memory(file, monkeypatch):
    def exhausted(*args, **kwargs):
        raise MemoryError

    monkeypatch.setattr(reading, "read_text", exhausted)
    refused(file(TABLE), "does not fit in memory")


def test_a_bar_while_large_files_are_read(file, monkeypatch):
    shown = []
    monkeypatch.setattr("tightgp.tables.text._LARGE", 10)
    monkeypatch.setattr("tightgp.training.progress.ProgressBar.update", lambda self, done, state: shown.append(done))
    path = file("a,b\n" + "1.5,x\n" * 500_000)
    frame = read_table(path)
    assert shown[-1] == 2
    pd.testing.assert_frame_equal(frame, read_table(path, progress=False))


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


@bounded
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
        write_table(EXPECTED, tmp_path / name)
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize(
    ("frame", "said"),
    [
        (pd.DataFrame({"m": [1, "a"]}, dtype=object), "column 'm' cannot be written"),
        (pd.DataFrame({"m": [1j]}), "column 'm' cannot be written"),
        (pd.DataFrame([[1, 2]], columns=["1", 1]), "two columns are called '1'"),
        (pd.DataFrame({"m": [[1], [2]]}), "column 'm' cannot be written"),
    ],
)
def test_what_no_table_can_hold_is_refused(tmp_path, frame, said):
    with pytest.raises(TableError, match=said):
        write_table(frame, tmp_path / "t.csv")
    assert not os.listdir(tmp_path)


WRITTEN = [".csv", ".csv.gz", ".csv.xz", ".parquet"]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the system has no full device")
@pytest.mark.parametrize("suffix", WRITTEN)
def test_a_full_disk(tmp_path, monkeypatch, suffix):
    full = tmp_path / "full"
    full.symlink_to("/dev/full")
    monkeypatch.setattr(writing, "written_whole", lambda path: contextlib.nullcontext(full))
    with pytest.raises(TableError, match=r"cannot be written: No space left on device$"):
        write_table(EXPECTED, tmp_path / f"t{suffix}")


def test_what_cannot_be_written_whole_leaves_the_old_file_and_nothing_else(tmp_path):
    code = (
        "import resource, sys, numpy as np, pandas as pd\n"
        "from tightgp.tables import TableError, write_table\n"
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
        write_table(EXPECTED, tmp_path / "file" / f"t{suffix}")

    def closed(*args, **kwargs):
        raise PermissionError(errno.EACCES, "denied")

    monkeypatch.setattr(tempfile, "mkstemp", closed)
    with pytest.raises(TableError, match=r"cannot be written: Permission denied$"):
        write_table(EXPECTED, tmp_path / f"t{suffix}")
    assert os.listdir(tmp_path) == ["file"]


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
    assert target_column(pd.DataFrame([[1, 2]], columns=names), target) == found


@pytest.mark.parametrize(
    ("names", "target", "said"),
    [
        (["price", "size"], "prise", "'prise' is no column; there are 'price', 'size'; did you mean 'price'?"),
        (["Price", "size"], "price", "did you mean 'Price'?"),
        (["a", "b"], "2", "there are 'a', 'b'"),
        ([" a", "a "], "a", "there are ' a', 'a '"),
    ],
)
def test_a_target_that_is_no_column(names, target, said):
    with pytest.raises(TableError) as caught:
        target_column(pd.DataFrame([[1, 2]], columns=names), target)
    assert said in str(caught.value)


def test_targets_are_checked_and_rows_named(file):
    path = file("x,y,flat,word\n1,1,5,u\n2,,5,v\n\n3,inf,5,u\n")
    frame = read_table(path)
    for name, said in (
        ("y", "row 3: target 'y' is missing there and in 1 of 3 rows"),
        ("flat", "target 'flat' is '5' in every row"),
    ):
        with pytest.raises(TableError) as caught:
            check_target(frame, name, path)
        assert said in str(caught.value)
        assert str(caught.value).startswith(f"{path}: ")
    rest = read_table(file("x,y\n1,1\n2,2\n\n3,inf\n"))
    with pytest.raises(TableError, match="row 5: target 'y' is infinite"):
        check_target(rest, "y", path)
    with pytest.raises(TableError, match=r"has 1 row\(s\)"):
        check_target(frame.iloc[:1], "x", path)
    assert check_target(frame, "x", path).tolist() == [1, 2, 3]
    assert check_target(frame, "word", path).tolist() == ["u", "v", "u"]


def survives(content, suffix, **options):
    """A table or a `TableError` comes of it, and nothing else."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"fuzz{suffix}"
        path.write_bytes(content)
        try:
            frame = read_table(path, progress=False, **options)
        except TableError as error:
            said = str(error)
        else:
            assert frame.shape[0] > 0
            assert all(isinstance(name, str) for name in frame.columns)
            return
    assert said.startswith(f"{path}: ")
    assert said.isprintable()


SUFFIXES = [".csv", ".tsv", ".txt.gz", ".csv.xz", ".csv.bz2", ".csv.zst", ".parquet", ".npy", ".npz"]


@bounded
@given(st.binary(max_size=300), st.sampled_from(SUFFIXES))
def test_random_bytes_are_a_table_or_an_error(content, suffix):
    survives(content, suffix)


@bounded
@given(
    st.text(st.sampled_from("ab1290.,;\t|\"'\n\r -+?eNA:é"), max_size=80),
    st.sampled_from([None, ",", ";", " ", "a"]),
    st.sampled_from(["utf-8", "latin-1", "utf-16", "ascii"]),
)
def test_random_text_is_a_table_or_an_error(content, delimiter, encoding):
    survives(content.encode(), ".csv", delimiter=delimiter, encoding=encoding)


def valid_files():
    frame = pd.DataFrame(
        {"a": [1.5, np.nan, 3], "b": ["x", "y, z", None], "c": np.array(["2020-01-01"] * 3, "M8[us]"), "d": [1, 2, 3]}
    )
    X = np.arange(12.0).reshape(4, 3)
    files = {".npy": packed(X), ".npz": saved(X=X, y=X[:, 0])}
    with tempfile.TemporaryDirectory() as folder:
        for suffix in (".csv", ".tsv", ".csv.gz", ".csv.bz2", ".csv.xz", ".csv.zst", ".parquet"):
            write_table(frame, Path(folder) / f"t{suffix}")
            files[suffix] = (Path(folder) / f"t{suffix}").read_bytes()
    return files


VALID = valid_files()


@st.composite
def mutated(draw):
    """A valid file of some format, with bytes flipped, cut out and put in."""
    suffix = draw(st.sampled_from(sorted(VALID)))
    content = bytearray(VALID[suffix])
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(content)))
        change = draw(st.sampled_from(["flip", "cut", "insert", "end"]))
        if change == "flip" and at < len(content):
            content[at] ^= draw(st.integers(1, 255))
        elif change == "cut":
            del content[at : at + draw(st.integers(1, 20))]
        elif change == "end":
            del content[at:]
        else:
            content[at:at] = draw(st.binary(min_size=1, max_size=10))
    return bytes(content), suffix


@settings(bounded, max_examples=400)
@given(mutated())
def test_a_damaged_file_is_a_table_or_an_error(damaged):
    survives(*damaged)
