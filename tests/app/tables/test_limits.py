"""Tables that unpack to too much, and cells that are too long."""

import bz2
import gzip
import lzma
import sqlite3

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tightgp.app.tables import TableError, read_table
from tightgp.app.tables.limits import CELL_BYTES

TEXT = b"a,b\n" + b"1,2\n" * 300_000
PACK = {
    ".csv.gz": gzip.compress,
    ".csv.bz2": bz2.compress,
    ".csv.xz": lzma.compress,
    ".csv.zst": lambda data: pa.compress(data, "zstd", asbytes=True),
}


@pytest.mark.parametrize("suffix", PACK)
def test_compressed_text_that_unpacks_to_too_much_is_refused(suffix, tmp_path):
    path = tmp_path / f"t{suffix}"
    path.write_bytes(PACK[suffix](TEXT))
    with pytest.raises(TableError, match=r"unpacks to more than 0.001 GB.*--max-unpacked"):
        read_table(path, max_unpacked=0.001)
    assert len(read_table(path)) == 300_000


def test_archives_and_parquet_that_unpack_to_too_much_are_refused(tmp_path):
    np.savez_compressed(tmp_path / "t.npz", X=np.zeros((100_000, 2)), y=np.zeros(100_000))
    pq.write_table(pa.table({"a": np.zeros(200_000)}), tmp_path / "t.parquet")
    for name in ("t.npz", "t.parquet"):
        with pytest.raises(TableError, match="unpacks to more than"):
            read_table(tmp_path / name, max_unpacked=0.001)
        assert len(read_table(tmp_path / name)) >= 100_000
    with pytest.raises(ValueError, match="--max-unpacked must be a number of gigabytes above 0"):
        read_table(tmp_path / "t.npz", max_unpacked=float("nan"))


def test_a_query_that_makes_rows_for_ever_is_refused(tmp_path):
    endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select i from n"
    sqlite3.connect(tmp_path / "t.sqlite").execute("create table a (b)").connection.close()
    with pytest.raises(TableError, match="unpacks to more than"):
        read_table(tmp_path / "t.sqlite", part=endless, max_unpacked=0.01)
    duckdb = pytest.importorskip("duckdb")
    duckdb.connect(str(tmp_path / "t.duckdb")).close()
    for query in ("select * from range(100000000000)", "select repeat('x', 1000) as a from range(10000000)"):
        with pytest.raises(TableError, match=r"unpacks to more than|Out of Memory"):
            read_table(tmp_path / "t.duckdb", part=query, max_unpacked=0.05)


def test_a_workbook_with_a_cell_far_away_is_refused(tmp_path):
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["a", "b"])
    book.active.cell(200_000, 300, "far away")
    book.save(tmp_path / "t.xlsx")
    with pytest.raises(TableError, match="unpacks to more than"):
        read_table(tmp_path / "t.xlsx", max_unpacked=0.001)


def test_json_whose_objects_all_have_other_names_is_refused(tmp_path):
    (tmp_path / "t.jsonl").write_text("\n".join(f'{{"name {i}": {i}}}' for i in range(10_000)))
    with pytest.raises(TableError, match="unpacks to more than"):
        read_table(tmp_path / "t.jsonl", max_unpacked=0.5)


def test_cells_that_are_too_long_are_refused(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"a,b\n1,x\n2," + b"y" * (CELL_BYTES + 1) + b"\n")
    with pytest.raises(TableError, match=r"row 3 has a cell of 16,777,217 bytes; at most 16,777,216"):
        read_table(tmp_path / "t.csv")
    pd.DataFrame({"a": [1.0], "b": ["y" * (CELL_BYTES + 1)]}).to_parquet(tmp_path / "t.parquet")
    with pytest.raises(TableError, match=r"column 'b' has a cell of 16,777,217 bytes"):
        read_table(tmp_path / "t.parquet")


def test_too_little_memory_for_a_thread_is_not_the_fault_of_the_table(tmp_path, monkeypatch):
    def no_thread(*_):
        raise pa.ArrowInvalid("Failed to launch worker thread: Resource temporarily unavailable")

    monkeypatch.setattr("tightgp.app.tables.text.read_csv", no_thread)
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    with pytest.raises(TableError, match=r"does not fit in memory \(no memory for another thread\)"):
        read_table(tmp_path / "t.csv")
