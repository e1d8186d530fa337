"""Parquet files as tables."""

import datetime

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from tests.app.tables.files import assert_refused
from tightgp.app.tables import TableError, read_table, row_number


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
    assert_refused(file(data[: len(data) // 2], "half.parquet"), "cannot be read as Parquet")
    assert_refused(file(b"no such thing", "junk.parquet"), "cannot be read as Parquet")
    assert_refused(file(b"", "empty.parquet"), "cannot be read as Parquet")
    pq.write_table(pa.table({"x": [[1], [2]]}), tmp_path / "nested.parquet")
    assert_refused(tmp_path / "nested.parquet", "column 'x' holds lists or records")
    pq.write_table(pa.table([[1], [2]], ["x", "x"]), tmp_path / "twice.parquet")
    assert_refused(tmp_path / "twice.parquet", "two columns are called 'x'")
    pq.write_table(pa.table({"x": pa.array([], pa.float64())}), tmp_path / "none.parquet")
    assert_refused(tmp_path / "none.parquet", "no rows")
    pq.write_table(pa.table({}), tmp_path / "nothing.parquet")
    assert_refused(tmp_path / "nothing.parquet", "no columns")


def test_parquet_with_a_wrong_row_count(tmp_path, file):
    pq.write_table(pa.table({"x": list(range(29))}), tmp_path / "t.parquet")
    data, messages = (tmp_path / "t.parquet").read_bytes(), []
    # In the footer 29 is written as the byte 58; one that is changed must be noticed or mean something else.
    for at in [i for i in range(len(data)) if data[i] == 58]:
        for other in (b"\x02", b"\x7e"):
            try:
                assert len(read_table(file(data[:at] + other + data[at + 1 :], "broken.parquet"))) == 29
            except TableError as error:
                messages.append(str(error))
    assert any("it holds 29 rows where it claims 63" in line for line in messages)
    assert any("it holds 1 rows where it claims 29" in line for line in messages)
