"""Workbooks, JSON and databases as tables."""

import json
import sqlite3

import numpy as np
import pandas as pd
import pytest

from tightgp.app.tables import TableError, read_table, row_number


@pytest.fixture
def frame():
    return pd.DataFrame({"x": [1.5, 2.0, np.nan], "city": ["Oslo", "Rome", "Oslo"], "y": [1, 2, 3]})


def same(got, frame):
    assert list(got) == list(frame)
    np.testing.assert_array_equal(got["x"].astype(float), frame["x"])
    assert got["city"].tolist() == frame["city"].tolist()
    assert got["y"].tolist() == frame["y"].tolist()


def test_excel(frame, tmp_path):
    path = tmp_path / "t.xlsx"
    with pd.ExcelWriter(path) as book:
        frame.to_excel(book, sheet_name="first", index=False)
        frame.assign(y=[4, 5, 6]).to_excel(book, sheet_name="second", index=False)
    got = read_table(path)
    same(got, frame)
    assert row_number(got, 2) == 4
    assert read_table(path, part="second")["y"].tolist() == [4, 5, 6]
    with pytest.raises(TableError, match="has no sheet 'third'; its sheets are first, second"):
        read_table(path, part="third")
    path.write_bytes(path.read_bytes()[:1000])
    with pytest.raises(TableError, match="is not a complete Excel workbook"):
        read_table(path)


def test_excel_with_blank_rows_dates_and_errors(tmp_path):
    import openpyxl

    book = openpyxl.Workbook()
    for row in [["when", "n"], [], [pd.Timestamp("2024-01-02").to_pydatetime(), 1], [None, "#DIV/0!"], [None, None]]:
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    got = read_table(tmp_path / "t.xlsx")
    assert got["when"].dtype.kind == "M"
    assert got["n"].isna().tolist() == [False, True]
    assert row_number(got, 0) == 3
    openpyxl.Workbook().save(tmp_path / "empty.xlsx")
    with pytest.raises(TableError, match="is empty"):
        read_table(tmp_path / "empty.xlsx")


def test_json_lines_and_arrays(frame, tmp_path):
    records = [{k: v for k, v in row.items() if v == v} for row in frame.to_dict("records")]
    (tmp_path / "t.jsonl").write_text("\n".join(map(json.dumps, records)))
    (tmp_path / "t.json").write_text(json.dumps(records))
    same(read_table(tmp_path / "t.jsonl"), frame)
    same(read_table(tmp_path / "t.json"), frame)
    for text, message in [
        ('{"a": [1, 2]}', "holds lists or objects"),
        ('{"a": 1', "is not one JSON object a line"),
        ("[1, 2]", "is no array of objects"),
        ("[{", "is not complete JSON"),
        ("", "is empty"),
    ]:
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(TableError, match=message):
            read_table(tmp_path / "bad.json")


def test_sqlite(frame, tmp_path):
    path = tmp_path / "t.sqlite"
    with sqlite3.connect(path) as database:
        frame.to_sql("flats", database, index=False)
    same(read_table(path), frame)
    assert read_table(path, part="select y from flats where y > 1")["y"].tolist() == [2, 3]
    with sqlite3.connect(path) as database:
        frame.to_sql("more", database, index=False)
    with pytest.raises(TableError, match="holds the tables flats, more; name one with --from"):
        read_table(path)
    same(read_table(path, part="more"), frame)
    for part, message in [
        ("other", "has no table 'other'; its tables are flats, more"),
        ("select z from flats", "no such column: z"),
        ("with a as (select 1) delete from flats", "readonly"),
    ]:
        with pytest.raises(TableError, match=message):
            read_table(path, part=part)
    (tmp_path / "broken.db").write_bytes(b"no database" * 100)
    with pytest.raises(TableError, match="file is not a database"):
        read_table(tmp_path / "broken.db")


def test_duckdb(frame, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "t.duckdb"
    with duckdb.connect(str(path)) as database:
        database.execute("create table flats (x double, city varchar, y integer)")
        database.executemany(
            "insert into flats values (?, ?, ?)", frame.astype(object).where(frame.notna(), None).values.tolist()
        )
    same(read_table(path), frame)
    assert read_table(path, part="select y, date '2024-01-01' as day from flats where y > 1")["y"].tolist() == [2, 3]
    assert read_table(path, part="from flats")["y"].tolist() == [1, 2, 3]
    with duckdb.connect(str(path)) as database:
        database.execute("create view more as select * from flats")
    with pytest.raises(TableError, match="holds the tables flats, more; name one with --from"):
        read_table(path)
    same(read_table(path, part="more"), frame)
    (tmp_path / "other.csv").write_text("a\n1\n")
    for part, message in [
        ("other", "has no table 'other'; its tables are flats, more"),
        ("select z from flats", "cannot be read: Binder Error"),
        (f"select * from '{tmp_path / 'other.csv'}'", "cannot be read"),
        (f"select * from read_csv('{tmp_path / 'other.csv'}')", "Permission Error"),
        ("select [1, 2] as a from flats", "holds lists or records"),
    ]:
        with pytest.raises(TableError, match=message):
            read_table(path, part=part)
    (tmp_path / "broken.duckdb").write_bytes(b"no database" * 100)
    with pytest.raises(TableError, match="cannot be read"):
        read_table(tmp_path / "broken.duckdb")


def test_a_part_of_a_file_that_has_none(tmp_path):
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    with pytest.raises(TableError, match="is for Excel workbooks and databases"):
        read_table(tmp_path / "t.csv", part="x")
