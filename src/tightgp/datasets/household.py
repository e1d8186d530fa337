"""The data set houseelectric: a household's electric power, minute by minute (UCI 235).

It is read from UCI's archive, or from houseelectric.npz, which has the same numbers as integers.

The target is the logarithm of the active power. The paper uses nine inputs and does not say which. Here they are the
other six measurements (reactive power in kW, voltage in V, intensity in A, three sub-meters in Wh) and the time as
year, day of the year and minute of the day: three numbers that determine it and make nine. The intensity must be
among the paper's inputs, and its target a logarithm: gradient-boosted trees on 60 000 rows have a standardised RMSE of
0.043 with these inputs, 0.5 without the intensity, and 0.031 for the power itself; the paper's are 0.057 to 0.061.
"""

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tightgp.datasets import npz

_START = np.datetime64("2006-12-16T17:24", "m")
#: For each measurement in the archive: its name in the .npz, and how many units there make one.
_MEASUREMENTS = {
    "Global_active_power": ("gap_milli_kw", 1000),
    "Global_reactive_power": ("grp_milli_kw", 1000),
    "Voltage": ("voltage_centi_v", 100),
    "Global_intensity": ("intensity_deci_a", 10),
    "Sub_metering_1": ("sub1_wh", 1),
    "Sub_metering_2": ("sub2_wh", 1),
    "Sub_metering_3": ("sub3_wh", 1),
}


def read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (N, 9) and log active power (N,) from ``houseelectric.npz``, or from UCI's .zip or .txt."""
    return _features(_integers(path) if path.suffix == ".npz" else _archive(path))


def _features(table: Mapping[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets from integers: minutes since the start, and each measurement in its unit."""
    time = _START + table["minute"].astype("timedelta64[m]")
    day, year = time.astype("datetime64[D]"), time.astype("datetime64[Y]")
    calendar = (year.astype(int) + 1970, (day - year).astype(int) + 1, (time - day).astype(int))
    power, *others = (table[key] / scale for key, scale in _MEASUREMENTS.values())
    if not np.all(power > 0):
        raise ValueError(f"Global_active_power is not positive in row {int(np.argmin(power > 0))}: it has no logarithm")
    return np.stack([*calendar, *others], axis=1), np.log(power)


def _integers(path: Path) -> dict[str, np.ndarray]:
    table = npz.arrays(path, ["minute", *(key for key, _ in _MEASUREMENTS.values())])
    for name, column in table.items():
        if column.dtype.kind not in "ui" or column.shape != table["minute"].shape or column.ndim != 1:
            raise ValueError(f"{name!r} must be integers, one for each row, got {column.dtype} of shape {column.shape}")
    return table


def _archive(path: Path) -> dict[str, np.ndarray]:
    """The same integers from UCI's text, where a question mark says that a minute was not measured."""
    import pandas as pd

    columns, dtypes = ["Date", "Time", *_MEASUREMENTS], dict.fromkeys(_MEASUREMENTS, np.float64)
    frame = pd.read_csv(path, sep=";", usecols=columns, dtype=dtypes, na_values="?").dropna()
    time = pd.to_datetime(frame["Date"] + " " + frame["Time"], format="%d/%m/%Y %H:%M:%S").to_numpy("datetime64[m]")
    measured = {key: np.rint(frame[name].to_numpy() * scale) for name, (key, scale) in _MEASUREMENTS.items()}
    return {"minute": (time - _START).astype(np.int64)} | {key: m.astype(np.int64) for key, m in measured.items()}
