"""Delimited text as a table."""

import numpy as np
import pandas as pd
import pytest

from tests.app.tables.files import COMPRESS, FRAME, TEXT, assert_refused
from tightgp.app.tables import read_table, row_number


@pytest.mark.parametrize("compression", COMPRESS)
@pytest.mark.parametrize(("suffix", "mark"), [(".csv", ","), (".TSV", "\t"), (".txt", ";"), (".csv", "|")])
def test_text_is_read_with_any_delimiter_and_compression(file, suffix, mark, compression):
    path = file(COMPRESS[compression](TEXT.replace(",", mark).encode()), "table" + suffix + compression)
    frame = read_table(path)
    pd.testing.assert_frame_equal(frame, FRAME)
    assert frame.attrs["header"] is True


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("tail", ["", "end", "ends"])
def test_line_ends(file, end, tail):
    text = TEXT.rstrip("\n").replace("\n", end) + {"": "", "end": end, "ends": 3 * end}[tail]
    pd.testing.assert_frame_equal(read_table(file(text)), FRAME)


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


def test_a_first_row_of_numbers_is_not_a_header(file):
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
    assert_refused(file('a,b\n7,x\n"1,500",x\n"2,000",y\n'), "row 3, column 'a': '1,500' may be", "thousands", "1234.5")


@pytest.mark.parametrize("stray", ["12,5", "abc", "1.2.3", "5 km"])
def test_a_text_among_numbers_is_refused_with_row_and_value(file, stray):
    cells = [f"{i}.5" for i in range(20)]
    cells[12] = stray
    path = file("x;y\n" + "\n".join(f"{i};{cell}" for i, cell in enumerate(cells)))
    assert_refused(path, f"row 14, column 'y': '{stray}' is not a number, but 19 of the column's 20 cells are")
    fewer = file("x;y\n" + "\n".join(f"{i};{cell}" for i, cell in enumerate(cells[8:16])))
    assert list(read_table(fewer)["y"]) == cells[8:16]


def test_blank_lines_of_one_column_are_missing_cells(file):
    frame = read_table(file("\na\n1\n\n3\n\n"))
    assert frame["a"].isna().tolist() == [False, True, False]
    assert row_number(frame, 2) == 5


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n\r\n\n", "is empty"),
        (b"\xef\xbb\xbf", "is empty"),
        (b"a,b\n", "column names but no rows"),
        (b"a,b\n\n\n", "column names but no rows"),
        (b"a,b\n1,2\n3,4,5\n", "row 3 has 3 cells where the first row has 2: '3,4,5'"),
        (b"a,b\n1,2\n3\n", "row 3 has 1 cell where the first row has 2: '3'"),
        (b"1,2\n3,4\n5\n", "row 3 has 1 cell where"),
        (b'a,b\n1,"x"\n2,"y\n3,z\n4,w\n', 'row 3: a quote (") opens here'),
        (b'"a,b\n1,2\n', 'row 1: a quote (") opens here'),
        (b'a,b\n1,5" pipe\n2,"y\n3,z\n', 'row 3: a quote (") opens here'),
        (b"a,b\n1,\xe9\n", "row 2: byte 0xe9 is not text in utf-8; pass --encoding latin-1"),
        (b'a,b\n"1\n\n",2\n"3","4"\n5,\xe9\n', "row 4: byte 0xe9"),
        ("a,b\n1,2\n".encode("utf-16"), "--encoding utf-16"),
        (b"a,b\n1,\0\n", "zero bytes"),
        (b"PK\x03\x04\0\0\xff\xff\xfe", "zero bytes"),
        (b"a,a\n1,2\n", "two columns are called 'a', the second is column 2"),
        (b"a,,b\n1,2,3\n", "column 2 of 3 has no name"),
        (b" \n1\n", "column 1 of 1 has no name"),
        (b"1.0  2.0\n3.0  4.0\n", "separated by spaces"),
    ],
)
def test_malformed_text_is_refused_in_one_line(file, content, message):
    assert_refused(file(content), message)


def test_random_bytes_are_refused(file):
    for seed in range(20):
        assert_refused(file(np.random.default_rng(seed).bytes(1000)), "not text")


def test_errors_in_large_files_name_the_row(file):
    lines = ["a,b", *["1.5,2.5"] * 400_000]
    lines[300_000] = "1.5,2.5,3.5"
    assert_refused(file("\n".join(lines)), "row 300001 has 3 cells")
    lines[300_000] = "1.5,2.5x"
    assert_refused(file("\n".join(lines)), "row 300001, column 'b': '2.5x'")


def test_quoted_line_ends_in_a_large_file(file):
    frame = read_table(file("a,b\n" + '1.5,"two\n\nlines"\n' * 200_000))
    assert len(frame) == 200_000
    assert set(frame["b"]) == {"two\n\nlines"}
    assert frame.attrs["blank"] == ()


def test_a_cell_of_a_million_characters_is_read(file):
    frame = read_table(file('a,b\n1,"' + "x" * 3_000_000 + '"\n2,y\n'))
    assert frame["b"].str.len().tolist() == [3_000_000, 1]
    assert_refused(file("a" * 3_000_000 + ",b\n1\n"), "row 2 has 1 cell")
    assert_refused(file("a,b\n1,2\n" + "x" * 3_000_000), "row 3 has 1 cell")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"encoding": "utf-9"}, "encoding 'utf-9' is unknown"),
        ({"encoding": "hex"}, "encoding 'hex' is unknown"),
        ({"delimiter": ";;"}, "delimiter must be one character"),
        ({"delimiter": "é"}, "delimiter must be one character"),
        ({"delimiter": ""}, "delimiter must be one character"),
    ],
)
def test_options_are_checked(file, options, message):
    assert_refused(file(TEXT), message, **options)


def test_a_given_delimiter_is_used(file):
    for mark in ("\t", r"\t", "tab"):
        assert list(read_table(file("a;x\tb\n1\t2\n"), delimiter=mark).columns) == ["a;x", "b"]
    assert list(read_table(file("a b\n1 2\n"), delimiter=" ").columns) == ["a", "b"]


def test_progress_bar_of_a_large_file(file, monkeypatch):
    steps = []
    monkeypatch.setattr("tightgp.app.tables.text._LARGE_BYTES", 10)
    monkeypatch.setattr("rich.progress.Progress.advance", lambda self, task, advance: steps.append(advance))
    path = file("a,b\n" + "1.5,x\n" * 500_000)
    frame = read_table(path)
    assert len(steps) > 2
    assert sum(steps) == path.stat().st_size - 1
    pd.testing.assert_frame_equal(frame, read_table(path, progress=False))
