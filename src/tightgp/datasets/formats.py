"""Read a file as inputs and targets: one function for each form of `Source`."""

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

#: What reading raises if a file ends too soon, is not an archive, has a word for a number, or lacks a column.
_READ_ERRORS = (OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error)


def read(source: Source, path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (N, D) and targets (N,) in ``path``, which must have the rows and columns of ``source``."""
    try:
        X, y = _READERS[source.form](source, path)
        if X.shape != (source.rows, len(source.inputs)) or y.shape != (source.rows,):
            expected = f"{source.rows} and {len(source.inputs)} are expected"
            raise ValueError(f"it has {X.shape[0]} rows and {X.shape[1]} inputs where {expected}")
        checks.finite("X", X)
        checks.finite("y", y)
    except _READ_ERRORS as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DatasetError(
            f"{path} cannot be read as {source.name}: {reason}. It may be cut short or changed; get it again"
        ) from error
    return X, y


def _named(source: Source, path: Path) -> tuple[np.ndarray, np.ndarray]:
    with open(path, newline="", encoding="utf-8-sig", errors="replace") as file:
        header, *rows = [row for row in csv.reader(file) if row] or [[]]
    columns = [_column_index(name, header) for name in (*source.inputs, source.target)]
    for i, row in enumerate(rows):
        if len(row) != len(header):
            raise ValueError(f"row {i} has {len(row)} cells and the header {len(header)}")
    return _numbers([",".join(row[column] for column in columns) for row in rows])


def _column_index(name: str, header: list[str]) -> int:
    """Where a column is, whether or not the header writes its unit in brackets."""
    for i, cell in enumerate(header):
        if cell.partition("(")[0].strip() == name:
            return i
    raise ValueError(f"it has no column {name!r}; its columns are {', '.join(map(repr, header))}")


def _numbers(lines: Path | list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Numbers separated by commas, as inputs and, from the last column, targets."""
    with warnings.catch_warnings():
        # `read` reports an empty file by its number of rows.
        warnings.filterwarnings("ignore", message="loadtxt: input contained no data")
        table = np.loadtxt(lines, delimiter=",", ndmin=2)
    return np.ascontiguousarray(table[:, :-1]), np.ascontiguousarray(table[:, -1])


def _labelled(source: Source, path: Path) -> tuple[np.ndarray, np.ndarray]:
    X, labels = npz.arrays(path, ("Y", "labels")).values()
    if X.ndim != 2 or labels.ndim != 1:
        raise ValueError(f"Y must be (N, D) and labels (N,), got {X.shape} and {labels.shape}")
    return np.asarray(X, np.float64), np.asarray(labels, np.float64)


_READERS: dict[str, Callable[[Source, Path], tuple[np.ndarray, np.ndarray]]] = {
    "table": lambda _, path: _numbers(path),
    "named": _named,
    "labelled": _labelled,
    "household": lambda _, path: household.read(path),
}
