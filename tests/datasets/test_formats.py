"""Each file format is read exactly, and malformed files are refused by name."""

import gzip
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.datasets.conftest import assert_refused
from tightgp import datasets
from tightgp.datasets import Source
from tightgp.datasets.formats import read

OIL = datasets.describe("oil")


BIKES = datasets.describe("nybikes")


def table_source(name, rows):
    return replace(datasets.describe(name), rows=rows)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_numbers_are_read_exactly(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("exact") / "a.csv"
    path.write_text("".join(f"{v!r},{-v!r}\n" for v in values))
    source = Source("exact", "", "a.csv", rows=len(values), inputs=("x",), target="y")
    X, y = read(source, path)
    np.testing.assert_array_equal(X[:, 0], values)
    np.testing.assert_array_equal(y, np.negative(values))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1,2,3,4\n", "it has 1 rows and 3 inputs where 2 and 3 are expected"),
        ("1,2,3,4\n5,6,7\n", "number of columns changed"),
        ("1,2,3,4\n5,6,7,x\n", "could not convert string 'x'"),
        ("1,2,3,4\n5,6,7,nan\n", "y has NaN or infinite values in 1 row"),
        ("1,2,3,4\n5,inf,7,8\n", "X has NaN or infinite values in 1 row"),
        ("1,2,3\n5,6,7\n", "2 rows and 2 inputs where 2 and 3 are expected"),
        ("", "it has 0 rows"),
    ],
)
def test_malformed_table(tmp_path, text, words):
    path = tmp_path / "3droad.csv.gz"
    path.write_bytes(gzip.compress(text.encode()))
    assert_refused(table_source("3droad", 2), path, words)


def test_table_truncated_or_not_gzipped(tmp_path, rng):
    path = tmp_path / "3droad.csv.gz"
    content = gzip.compress("".join(f"1,2,3,{v}\n" for v in rng.normal(size=1000)).encode())
    path.write_bytes(content[: len(content) // 2])
    assert_refused(table_source("3droad", 1000), path, "Compressed file ended before")
    path.write_bytes(b"1,2,3,4\n")
    assert_refused(table_source("3droad", 1), path, "Not a gzipped file")
    path.write_bytes(content[:-8] + b"\0\0\0\0" + content[-4:])
    assert_refused(table_source("3droad", 1000), path, "CRC check failed")
    path.write_bytes(content[:10] + b"\xff" + content[11:])
    assert_refused(table_source("3droad", 1000), path, "while decompressing data: invalid block type")


@pytest.mark.parametrize("header", ["High Temp ,Low Temp ", "High Temp (°F),Low Temp (°F)"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
def test_headers_with_and_without_units(tmp_path, header, encoding):
    path = tmp_path / "bikes.csv"
    lines = [f",Date,Day,{header},Precipitation,Brooklyn Bridge,Total"]
    lines += [f"{i},2016-04-0{i} 00:00:00,x,{60 + i}.5,{40 + i},0.47 (S),{1700 + i}.0,9" for i in range(3)]
    path.write_text("\r\n".join(lines), encoding=encoding, newline="")
    X, y = read(replace(BIKES, rows=3), path)
    np.testing.assert_array_equal(X, [[60.5, 40], [61.5, 41], [62.5, 42]])
    np.testing.assert_array_equal(y, [1700, 1701, 1702])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x,z\n1,2\n", "it has no column 'y'; its columns are 'x', 'z'"),
        ("x,y\n1,2\n3\n", "row 1 has 1 cells and the header 2"),
        ("x,y\n1,two\n", "could not convert string 'two' to float64 at row 0"),
        ("", "it has no column 'x'"),
    ],
)
def test_malformed_table_with_a_header(tmp_path, text, words):
    path = tmp_path / "snelson.csv"
    path.write_text(text)
    assert_refused(datasets.describe("snelson"), path, words)


def test_columns_joined_by_paste_are_read(tmp_path):
    path = tmp_path / "snelson.csv"
    path.write_text("x,y\n   5.7007757e+00,  -4.5367780e-01\n")
    X, y = read(replace(datasets.describe("snelson"), rows=1), path)
    assert (X[0, 0], y[0]) == (5.7007757, -0.4536778)


def test_malformed_npz(tmp_path, rng):
    path = tmp_path / "oil_flow_train.npz"
    np.savez(path, Y=rng.normal(size=(6, 12)))
    assert_refused(OIL, path, "it has no array 'labels'; its arrays are 'Y'")
    np.savez(path, Y=rng.normal(size=(6, 12)), labels=np.zeros((6, 3)))
    assert_refused(OIL, path, r"labels \(N,\), got \(6, 12\) and \(6, 3\)")
    np.savez(path, Y=np.array([{}], dtype=object), labels=np.zeros(1))
    assert_refused(OIL, path, "allow_pickle=False")
    np.savez(path, Y=rng.normal(size=(6, 12)), labels=np.zeros(6))
    path.write_bytes(path.read_bytes()[:-40])
    assert_refused(OIL, path, "it is not a complete .npz archive")
    path.write_bytes(b"")
    assert_refused(OIL, path, "it is not a complete .npz archive")
