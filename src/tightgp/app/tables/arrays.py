"""NumPy files as tables. Pickled objects are refused, because loading them could run code."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd

from tightgp.app.tables.errors import TableError, reason, refuse_broken
from tightgp.app.tables.limits import UNPACKED_GB, check_archive
from tightgp.app.tables.rows import share_of

_SAVE = "write one with numpy.savez(path, X=X, y=y)"


def read_npy(path: Path, share: tuple[int, int]) -> pd.DataFrame:
    """The frame of one array of shape (rows, columns), or of a structured array whose fields are the columns.

    Of a share only its own rows are read.
    """
    if _is_zip(path):
        raise TableError(path, "is an archive of arrays; call it .npz")

    with _loading(path, "a complete NumPy file"):
        # Mapping a file that is shorter than its header says fails before memory is allocated.
        mapped = np.lib.format.open_memmap(path, mode="r")
        rows = share_of(len(mapped), share) if mapped.ndim else slice(0, None)
        array = np.array(mapped[rows] if mapped.ndim else mapped)
    frame = _frame(path, array, "the array", "c")
    frame.attrs["first"] = rows.start
    return frame


def read_npz(path: Path, share: tuple[int, int], max_unpacked: float = UNPACKED_GB) -> pd.DataFrame:
    """The frame of one array as in ``.npy``, or of ``X`` (rows, columns) and ``y`` (rows,).

    The archive is read completely, also for a share: its parts may be compressed.
    """
    if not _is_zip(path):
        raise TableError(path, f"is not an .npz archive; {_SAVE}")

    with _loading(path, "a complete .npz archive"):
        check_archive(path, max_unpacked)
    with (
        _loading(path, "a complete .npz archive"),
        path.open("rb") as file,  # given a path, NumPy would leave a broken file open
        np.load(file, allow_pickle=False) as archive,
    ):
        names = sorted(archive.files)
        if len(names) != 1 and names not in (["X", "y"], ["x", "y"], ["X", "Y"]):
            raise TableError(path, f"holds the arrays {names[:10]}; it needs one array, or X and y")
        arrays = {name: archive[name] for name in names}
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):
            raise TableError(path, f"holds {name!r}, which is not an array; {_SAVE}")
    (name, X), *targets = arrays.items()
    frame = _frame(path, X, f"array {name!r}", "x" if targets else "c")
    for name, y in targets:
        if y.dtype.kind not in "biuf" or y.shape not in ((len(X),), (len(X), 1)):
            shape = f"shape {y.shape} of {y.dtype}"
            raise TableError(path, f"array {name!r} has {shape}; it needs {len(X)} numbers, one a row of X")
        frame["y"] = _native(y.reshape(-1))
    rows = share_of(len(frame), share)
    frame = frame.iloc[rows].reset_index(drop=True)
    frame.attrs["first"] = rows.start
    return frame


def _is_zip(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == b"PK"


@contextmanager
def _loading(path: Path, kind: str) -> Iterator[None]:
    """Refuse pickled objects and broken files."""
    with refuse_broken(path, f"is not {kind}"):
        try:
            yield
        except ValueError as error:
            if "allow_pickle" not in str(error) and "objects in dtype" not in str(error):
                raise
            problem = "holds pickled objects, which could run code when loaded; save an array of numbers instead"
            raise TableError(path, problem) from None


def _frame(path: Path, array: np.ndarray, called: str, letter: str) -> pd.DataFrame:
    """The frame of an array; columns without names are called by ``letter`` and their number."""
    fields = array.dtype.names if array.ndim == 1 else None
    if fields is not None:
        for name in fields:
            if (kind := array.dtype[name]).kind not in "biufMmU" or kind.shape:
                raise TableError(path, f"field {name!r} of {called} is {kind}; use numbers, texts or dates")
        try:
            frame = pd.DataFrame({name: _native(array[name]) for name in fields})
        except (SystemError, ValueError) as error:  # bytes that are not characters, in a field of text
            raise TableError(path, f"{called} has a field that cannot be read: {reason(error)}") from None
    elif array.ndim == 2 and array.dtype.kind in "biuf":
        frame = pd.DataFrame(_native(array), columns=[f"{letter}{i}" for i in range(array.shape[1])])
    else:
        shape = f"shape {array.shape} of {array.dtype}"
        raise TableError(path, f"{called} has {shape}; it needs numbers in shape (rows, columns)")
    frame.attrs["header"] = fields is not None
    return frame


def _native(array: np.ndarray) -> np.ndarray:
    """The array as pandas accepts it: in native byte order, and floats of 32 or 64 bits."""
    if array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8):
        return array.astype(np.float64)
    return np.ascontiguousarray(array, array.dtype.newbyteorder("="))
