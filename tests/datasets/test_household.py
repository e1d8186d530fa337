"""The data set houseelectric, from integers and from UCI's text."""

import zipfile
from dataclasses import replace

import numpy as np

from tests.datasets.conftest import assert_refused
from tightgp import datasets
from tightgp.datasets import household
from tightgp.datasets.formats import read

HOUSEHOLD = datasets.describe("houseelectric")


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
