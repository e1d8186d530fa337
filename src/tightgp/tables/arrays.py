"""Arrays in files as tables. Nothing that is loaded may run code: pickled objects are refused."""

from pathlib import Path

import numpy as np

from tightgp.tables.errors import TableError, reason
from tightgp.tables.shares import WHOLE, Share

_PICKLED = "holds pickled objects, which could run code when loaded; save an array of numbers instead"


def read_npy(path: Path, share: Share = WHOLE):
    """One array of shape (rows, columns), or a structured one whose fields are the columns.

    Of a share no more than its own rows is read.
    """
    start = _start(path)
    if start.startswith(b"PK"):
        raise TableError(path, "is an archive of arrays; call it .npz")
    try:
        # A map of the file is refused where the file is shorter than its header says, before memory is asked for.
        mapped = np.lib.format.open_memmap(path, mode="r")
        here = share.of(len(mapped)) if mapped.ndim else slice(None)
        array = np.array(mapped[here])
    except MemoryError:
        raise
    # A broken header can make the reader raise almost anything.
    except Exception as error:
        said = _PICKLED if "objects in dtype" in str(error) else f"is no whole NumPy file: {reason(error)}"
        raise TableError(path, said) from None
    return share.marked(_frame(path, array, "the array", "c"), here)


def read_npz(path: Path, share: Share = WHOLE):
    """One array as in ``.npy``, or ``X`` (rows, columns) and ``y`` (rows,).

    The archive is read through, also for a share: its parts may be compressed.
    """
    import pandas as pd

    if not _start(path).startswith(b"PK"):
        raise TableError(path, "is no .npz archive; write one by numpy.savez(path, X=X, y=y)")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            names = sorted(archive.files)
            pair = names in (["X", "y"], ["x", "y"], ["X", "Y"])
            if len(names) != 1 and not pair:
                raise TableError(path, f"holds the arrays {names[:10]}; it needs one array alone, or X and y")
            arrays = [archive[name] for name in names]
    except (MemoryError, TableError):
        raise
    except Exception as error:
        said = _PICKLED if "allow_pickle" in str(error) else f"is no whole .npz archive: {reason(error)}"
        raise TableError(path, said) from None
    for name, array in zip(names, arrays, strict=True):
        if not isinstance(array, np.ndarray):
            raise TableError(path, f"holds {name!r}, which is no array; write it by numpy.savez(path, X=X, y=y)")
    if not pair:
        return share.cut(_frame(path, arrays[0], f"array {names[0]!r}", "c"))
    X, y = arrays
    frame = _frame(path, X, f"array {names[0]!r}", "x")
    if y.dtype.kind not in "biuf" or y.shape not in ((len(X),), (len(X), 1)):
        raise TableError(
            path, f"array {names[1]!r} has shape {y.shape} of {y.dtype}; it needs {len(X)} numbers, one a row of X"
        )
    attrs = frame.attrs
    frame = pd.concat([frame, pd.DataFrame({"y": _native(y.reshape(-1))})], axis=1)
    frame.attrs.update(attrs)
    return share.cut(frame)


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(8)


def _frame(path: Path, array: np.ndarray, called: str, letter: str):
    import pandas as pd

    if array.dtype.names is not None and array.ndim == 1:
        kinds = {name: array.dtype[name].kind for name in array.dtype.names}
        strange = [name for name, kind in kinds.items() if kind not in "biufMmU" or array.dtype[name].shape]
        if strange:
            kind = array.dtype[strange[0]]
            raise TableError(path, f"field {strange[0]!r} of {called} is {kind}; use numbers, texts or dates")
        try:
            frame = pd.DataFrame({name: _native(array[name]) for name in kinds})
        # Bytes that are no characters, in a field of text.
        except (SystemError, ValueError) as error:
            raise TableError(path, f"{called} has a field that cannot be read: {reason(error)}") from None
        frame.attrs["header"] = True
        return frame
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise TableError(
            path, f"{called} has shape {array.shape} of {array.dtype}; it needs numbers in shape (rows, columns)"
        )
    frame = pd.DataFrame(_native(array), columns=[f"{letter}{i}" for i in range(array.shape[1])])
    frame.attrs["header"] = False
    return frame


def _native(array: np.ndarray) -> np.ndarray:
    """The array as pandas takes it: this machine's byte order, and no float wider or narrower than its own."""
    if array.dtype.kind == "f" and array.dtype.itemsize not in (4, 8):
        return array.astype(np.float64)
    return np.ascontiguousarray(array, array.dtype.newbyteorder("="))
