"""Shares of a table's rows, and row numbers as a spreadsheet shows them."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.app.tables.files import assert_refused
from tightgp.app.tables import TableError, read_table, row_number
from tightgp.app.tables.rows import share_of


@given(st.integers(0, 50), st.integers(1, 9))
def test_shares_are_those_of_array_split(rows, count):
    parts = [np.arange(rows)[share_of(rows, (i, count))].tolist() for i in range(count)]
    assert parts == [part.tolist() for part in np.array_split(np.arange(rows), count)]


@pytest.mark.parametrize("share", [(2, 2), (-1, 2), (0, 0)])
def test_invalid_shares(tmp_path, share):
    (tmp_path / "t.csv").write_text("a\n1\n")
    with pytest.raises(ValueError, match="share must be"):
        read_table(tmp_path / "t.csv", share=share)


def frame():
    rng = np.random.default_rng(0)
    made = pd.DataFrame({"a": rng.normal(size=23), "b": rng.choice(["x", "y"], 23), "c": np.arange(23)})
    made.loc[20, "a"] = np.nan
    return made


def write_table_as(folder, kind):
    path = folder / f"t.{kind}"
    numbers = frame()[["a", "c"]].to_numpy()
    if kind.startswith("csv"):
        frame().to_csv(path, index=False)
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pandas(frame()), path, row_group_size=4)
    elif kind == "npy":
        np.save(path, numbers)
    else:
        np.savez(path, X=numbers, y=numbers[:, 0])
    return path


@pytest.mark.parametrize("count", [1, 3, 30])
@pytest.mark.parametrize("kind", ["csv", "csv.gz", "parquet", "npy", "npz"])
def test_shares_add_up_to_the_table(tmp_path, kind, count):
    path = write_table_as(tmp_path, kind)
    whole = read_table(path)
    parts = [read_table(path, share=(i, count)) for i in range(count)]
    assert [len(part) for part in parts] == [len(part) for part in np.array_split(np.arange(23), count)]
    joined = pd.concat([part for part in parts if len(part)], ignore_index=True)
    pd.testing.assert_frame_equal(joined, whole, check_dtype=False)
    rows = np.concatenate([row_number(part, np.arange(len(part))) for part in parts])
    np.testing.assert_array_equal(rows, row_number(whole, np.arange(23)))


def test_a_share_reads_only_its_row_groups(tmp_path, monkeypatch):
    path = write_table_as(tmp_path, "parquet")
    asked, real = [], pq.ParquetFile.iter_batches

    def spied(self, *arguments, row_groups=None, **more):
        asked.append(row_groups)
        return real(self, *arguments, row_groups=row_groups, **more)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", spied)
    read_table(path, share=(1, 3))  # rows 8 to 15
    assert asked == [[2, 3]]


def test_rows_are_counted_as_a_spreadsheet_does(file):
    path = file('\n\na,b\n1,"two\nlines"\n\n3,4\n5,6\n')
    frame = read_table(path)
    assert [row_number(frame, i) for i in range(3)] == [4, 6, 7]
    assert row_number(frame, np.arange(3)).tolist() == [4, 6, 7]
    assert [row_number(read_table(file("1,2\n\n3,4\n")), i) for i in range(2)] == [1, 3]
    assert row_number(read_table(file("a,b\n\r1,2")), 0) == 3
    assert_refused(file('\na,b\n1,"two\nlines"\n\n3,4\n5,6,7\n'), "row 6 has 3 cells")


def test_shares_of_text_number_rows_and_name_errors_of_the_whole_file(tmp_path):
    """Blank lines count; all rows decide what a column holds, and a mistake is named wherever it is."""
    (tmp_path / "t.csv").write_text("a,b\n1,1\n\n2,2\n\n3,u\n4,v\n")
    second = read_table(tmp_path / "t.csv", share=(1, 2))
    assert row_number(second, np.arange(2)).tolist() == [6, 7]
    assert read_table(tmp_path / "t.csv", share=(0, 2))["b"].tolist() == ["1", "2"]
    (tmp_path / "t.csv").write_text("a,b\n1,1\n2,2\n3,3\n4\n")
    for share in ((0, 2), (1, 2)):
        with pytest.raises(TableError, match="row 5 has 1 cell"):
            read_table(tmp_path / "t.csv", share=share)


def test_a_share_of_an_incomplete_parquet_file(tmp_path):
    path = write_table_as(tmp_path, "parquet")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(TableError, match="cannot be read as Parquet"):
        read_table(path, share=(0, 2))
    with pytest.raises(TableError, match="No such file"):
        read_table(tmp_path / "missing.parquet", share=(0, 2))
