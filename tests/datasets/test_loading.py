"""Each form is read from a small file; errors are one line that names the file."""

import gzip
import os
import subprocess
import sys
import zipfile
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightgp import datasets
from tightgp.datasets import DatasetError, Source, household
from tightgp.datasets.formats import read

OIL = datasets.describe("oil")
BIKES = datasets.describe("nybikes")
HOUSEHOLD = datasets.describe("houseelectric")


def table_source(name, rows):
    return replace(datasets.describe(name), rows=rows)


@pytest.mark.parametrize("name", [name for name in datasets.names() if datasets.describe(name).form == "table"])
def test_table_has_the_target_in_the_last_column(name, data_folder, rng):
    source = table_source(name, 7)
    values = rng.normal(size=(7, len(source.inputs) + 1)).round(4)
    text = "\n".join(",".join(f"{v:.5g}" for v in row) for row in values) + "\n"
    (data_folder / source.file).write_bytes(gzip.compress(text.encode()))
    data = datasets.load(source)
    np.testing.assert_array_equal(data.X, np.vectorize(lambda v: float(f"{v:.5g}"))(values[:, :-1]))
    np.testing.assert_array_equal(data.y, [float(f"{v:.5g}") for v in values[:, -1]])
    assert data.X.dtype == data.y.dtype == np.float64
    assert data.columns == source.inputs
    assert data.target == source.target
    assert data.source is source
    assert data.dataset.num_data == 7
    assert repr(data).startswith(f"Loaded({name!r}, N=7, D={len(source.inputs)}")


def test_two_gzip_archives_can_be_concatenated(data_folder):
    source = table_source("song", 2)
    line = ",".join(["1.5"] * 91) + "\n"
    (data_folder / source.file).write_bytes(gzip.compress(line.encode()) + gzip.compress(line.encode()))
    assert datasets.load(source).X.shape == (2, 90)


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_numbers_are_read_exactly(tmp_path_factory, values):
    path = tmp_path_factory.mktemp("exact") / "a.csv"
    path.write_text("".join(f"{v!r},{-v!r}\n" for v in values))
    source = Source("exact", "", "a.csv", rows=len(values), inputs=("x",), target="y")
    X, y = read(source, path)
    np.testing.assert_array_equal(X[:, 0], values)
    np.testing.assert_array_equal(y, np.negative(values))


def assert_refused(source, path, words):
    with pytest.raises(DatasetError, match=words) as caught:
        read(source, path)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(f"{path} cannot be read as {source.name}: ")


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


def test_missing_rows(data_folder):
    (data_folder / "snelson.csv").write_text("x,y\n1.0,2.0\n")
    with pytest.raises(DatasetError, match="it has 1 rows and 1 inputs where 200 and 1 are expected"):
        datasets.load("snelson")


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


def test_oil(data_folder, rng):
    Y, labels = rng.normal(size=(6, 12)).astype(np.float32), np.array([0, 1, 2, 0, 1, 2], np.uint8)
    np.savez_compressed(data_folder / "three_phase_oil_flow.npz", Y=Y, labels=labels)
    data = datasets.load(replace(OIL, rows=6))
    np.testing.assert_array_equal(data.X, Y.astype(float))
    np.testing.assert_array_equal(data.y, labels)
    assert data.X.dtype == data.y.dtype == np.float64


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


MINUTES = np.array([0, 1, 3, 396, 396 + 1440 * 380], np.uint32)  # minute 396 is midnight


def write_household(folder, rng):
    """Write a few minutes as integers, and return them with UCI's text for them, which has a minute not measured."""
    scales = {name: scale for name, (_, scale) in household._MEASUREMENTS.items()}
    numbers = {name: rng.integers(80, 250, len(MINUTES)).astype(np.uint16) for name in scales}
    numbers["Voltage"][0] = 435  # 4.35 × 100 falls short of 435
    columns = {household._MEASUREMENTS[name][0]: column for name, column in numbers.items()}
    np.savez(folder / "houseelectric.npz", minute=MINUTES, epoch="2006-12-16T17:24", **columns)
    lines = [";".join(["Date", "Time", *scales])]
    for i, minute in enumerate(MINUTES):
        time = np.datetime64("2006-12-16T17:24") + np.timedelta64(int(minute), "m")
        day, clock = str(time).split("T")
        year, month, of_month = (int(part) for part in day.split("-"))
        cells = [f"{numbers[name][i] / scale:.3f}" for name, scale in scales.items()]
        lines += [";".join([f"{of_month}/{month}/{year}", f"{clock}:00", *cells])]
        if i == 1:
            lines += ["16/12/2006;17:26:00;?;?;?;?;?;?;"]
    return numbers, "\r\n".join(lines) + "\r\n"


def test_household_from_npz_text_and_zip(tmp_path, rng):
    numbers, text = write_household(tmp_path, rng)
    source = replace(HOUSEHOLD, rows=len(MINUTES))
    X, y = read(source, tmp_path / "houseelectric.npz")
    np.testing.assert_array_equal(X[:, 0], [2006, 2006, 2006, 2006, 2008])
    np.testing.assert_array_equal(X[:, 1], [350, 350, 350, 351, 1])
    np.testing.assert_array_equal(X[:, 2], [1044, 1045, 1047, 0, 0])
    np.testing.assert_array_equal(X[:, 3], numbers["Global_reactive_power"] / 1000)
    np.testing.assert_array_equal(X[:, 4], numbers["Voltage"] / 100)
    np.testing.assert_array_equal(X[:, 5], numbers["Global_intensity"] / 10)
    np.testing.assert_array_equal(X[:, 6:].T, [numbers[f"Sub_metering_{i}"] for i in (1, 2, 3)])
    np.testing.assert_array_equal(y, np.log(numbers["Global_active_power"] / 1000))

    plain, zipped = tmp_path / "household_power_consumption.txt", tmp_path / "household_power_consumption.zip"
    plain.write_bytes(text.encode())
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.write(plain, plain.name)
    for path in (plain, zipped):
        same_X, same_y = read(source, path)
        np.testing.assert_array_equal(same_X, X)
        np.testing.assert_array_equal(same_y, y)


def test_malformed_household(tmp_path, rng):
    _, text = write_household(tmp_path, rng)
    npz = tmp_path / "houseelectric.npz"
    assert_refused(HOUSEHOLD, npz, f"it has {len(MINUTES)} rows and 9 inputs where 2049280 and 9 are expected")
    with np.load(npz) as file:
        arrays = dict(file)
    np.savez(npz, **arrays | {"voltage_centi_v": arrays["voltage_centi_v"] / 1.0})
    assert_refused(HOUSEHOLD, npz, "'voltage_centi_v' must be integers, one for each row, got float64")
    np.savez(npz, **arrays | {"sub1_wh": arrays["sub1_wh"][:-1]})
    assert_refused(HOUSEHOLD, npz, r"'sub1_wh' must be integers, one for each row, got uint16 of shape \(4,\)")
    np.savez(npz, **arrays | {"gap_milli_kw": 0 * arrays["gap_milli_kw"]})
    assert_refused(HOUSEHOLD, npz, "Global_active_power is not positive in row 0")
    plain = tmp_path / "a.txt"
    plain.write_text(text.replace("Voltage", "Volts"))
    assert_refused(HOUSEHOLD, plain, "Voltage")
    plain.write_text(text.replace("16/12/2006", "2006-12-16"))
    assert_refused(HOUSEHOLD, plain, "time data")
    zipped = tmp_path / "a.zip"
    zipped.write_bytes(b"PK no archive")
    assert_refused(HOUSEHOLD, zipped, "not a zip file")
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("readme.txt", "nothing here")
    assert_refused(HOUSEHOLD, zipped, "columns expected but not found")


def test_pooch_and_pandas_are_imported_only_when_needed(data_folder):
    (data_folder / "snelson.csv").write_text("x,y\n" + "1.5,2.5\n" * 200)
    code = """
import sys
sys.modules["pooch"] = sys.modules["pandas"] = None
from tightgp import datasets
print(datasets.load("snelson").X.shape, datasets.wiggly(5).num_data)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=os.environ.copy())
    assert done.stdout.split("\n")[0] == "(200, 1) 5", done.stderr
