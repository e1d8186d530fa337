"""Reading a file into inputs and targets, one function a form. Whatever is wrong with it is said by the exception."""

import csv
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from tightgp import checks
from tightgp.datasets import household, npz
from tightgp.datasets.source import DatasetError, Source

# A file that ends too soon, is no archive, holds a word for a number, or lacks a column.
_FAULTS = (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error)


def read(source: Source, path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (N, D) and targets (N,) in ``path``, which must have the rows and columns of ``source``."""
    try:
        X, y = _READERS[source.form](source, path)
        if X.shape != (source.rows, len(source.inputs)) or y.shape != (source.rows,):
            raise ValueError(
                f"it has {X.shape[0]} rows and {X.shape[1]} inputs where {source.rows} and {len(source.inputs)} belong"
            )
        checks.finite("X", X)
        checks.finite("y", y)
    except _FAULTS as fault:
        words = " ".join(str(fault).split()) or type(fault).__name__
        raise DatasetError(
            f"{path} cannot be read as {source.name}: {words}. It may be cut short or changed; get it again"
        ) from fault
    return X, y


def _table(source: Source, path: Path) -> tuple[np.ndarray, np.ndarray]:
    with warnings.catch_warnings():
        # An empty file is told of by its number of rows.
        warnings.filterwarnings("ignore", message="loadtxt: input contained no data")
        values = np.loadtxt(path, delimiter=",", ndmin=2)
    return _parted(values)


def _named(source: Source, path: Path) -> tuple[np.ndarray, np.ndarray]:
    with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
        header, *rows = [row for row in csv.reader(file) if row] or [[]]
    places = [_place(name, header) for name in (*source.inputs, source.target)]
    values = np.empty((len(rows), len(places)))
    for i, row in enumerate(rows):
        if len(row) != len(header):
            raise ValueError(f"row {i} has {len(row)} cells and the header {len(header)}")
        for j, place in enumerate(places):
            try:
                values[i, j] = float(row[place])
            except ValueError:
                raise ValueError(
                    f"row {i} has {row[place]!r} for {header[place].strip()!r}; a number belongs"
                ) from None
    return _parted(values)


def _parted(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.ascontiguousarray(values[:, :-1]), np.ascontiguousarray(values[:, -1])


def _place(name: str, header: list[str]) -> int:
    """Where a column is: headers are written with and without their unit."""
    for i, cell in enumerate(header):
        if cell.partition("(")[0].strip() == name:
            return i
    raise ValueError(f"it has no column {name!r}; its columns are {', '.join(repr(cell) for cell in header)}")


def _labelled(source: Source, path: Path) -> tuple[np.ndarray, np.ndarray]:
    X, labels = npz.arrays(path, ("Y", "labels")).values()
    if X.ndim != 2 or labels.ndim != 1:
        raise ValueError(f"Y must be (N, D) and labels (N,), got {X.shape} and {labels.shape}")
    return np.asarray(X, np.float64), np.asarray(labels, np.float64)


def _household(source: Source, path: Path) -> tuple[np.ndarray, np.ndarray]:
    return household.read(path)


_READERS: dict[str, Callable[[Source, Path], tuple[np.ndarray, np.ndarray]]] = {
    "table": _table,
    "named": _named,
    "labelled": _labelled,
    "household": _household,
}
