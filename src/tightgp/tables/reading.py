"""Reading: the suffix says the format, and each format gives a frame or a `TableError`."""

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tightgp.tables.arrays import read_npy, read_npz
from tightgp.tables.errors import TableError, reason
from tightgp.tables.parquet import read_parquet
from tightgp.tables.shares import WHOLE, Share
from tightgp.tables.text import read_text

TEXT = (".csv", ".tsv", ".txt")
COMPRESSED = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd"}
_MODULES = {"gzip": "gzip", "bz2": "bz2", "xz": "lzma"}
READERS: dict[str, Callable] = {".parquet": read_parquet, ".npy": read_npy, ".npz": read_npz}


def read_table(
    path,
    *,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    progress: bool = True,
    share: tuple[int, int] | None = None,
) -> Any:
    """The table in a file, as a pandas DataFrame with text for column names.

    Args:
        path: ``.csv``, ``.tsv`` or ``.txt``, each also with ``.gz``, ``.bz2``, ``.xz`` or ``.zst``; ``.parquet``;
            ``.npy`` with one two-dimensional or structured array; ``.npz`` with one such array, or with X and y.
        delimiter: what separates the cells of a text; None finds it among comma, semicolon, tab and bar.
        encoding: of a text.
        progress: show a bar while a large text is read.
        share: ``(i, n)`` gives the i-th, from 0, of n parts of consecutive rows, as ``numpy.array_split`` cuts them;
            it may be empty. Of ``.npy`` and ``.parquet`` that part alone is read; texts and ``.npz`` are read through,
            so that what a column holds is decided by all of its rows, and the part is kept.

    ``frame.attrs["header"]`` is False where the file has no names for its columns; they are c0, c1, ... then.
    `row_number` turns a place in the frame into the row that a spreadsheet shows.
    """
    path = Path(path)
    part = WHOLE if share is None else Share(*share)
    stem, compression = split(path)
    if path.is_dir():
        raise TableError(path, "is a folder; name a file in it")
    if stem not in (*TEXT, *READERS) or (compression and stem not in TEXT):
        raise TableError(
            path,
            f"cannot tell the format from the suffix {''.join(path.suffixes[-2:])!r}; use .csv, .tsv or .txt "
            "(also with .gz, .bz2, .xz or .zst), .parquet, .npy or .npz",
        )
    try:
        if stem in TEXT:
            data = _unpacked(path, path.read_bytes(), compression)
            frame = read_text(path, data, delimiter, encoding, "\t" if stem == ".tsv" else None, progress, part)
        else:
            frame = READERS[stem](path, part)
    except OSError as error:
        raise TableError(path, f"cannot be read: {reason(error)}") from None
    except MemoryError:
        raise TableError(path, "does not fit in memory; use fewer rows or columns") from None
    if not len(frame.columns):
        raise TableError(path, "has no columns")
    if not len(frame) and part.count == 1:
        raise TableError(path, "has column names but no rows; it needs at least one row of data")
    return frame


def split(path: Path) -> tuple[str, str]:
    """The suffix that says the format, and the compression around it, or the empty text."""
    suffixes = [suffix.lower() for suffix in path.suffixes[-2:]]
    if suffixes and suffixes[-1] in COMPRESSED:
        return (suffixes[0] if len(suffixes) == 2 else ""), COMPRESSED[suffixes[-1]]
    return (suffixes[-1] if suffixes else ""), ""


def _unpacked(path: Path, data: bytes, compression: str) -> bytes:
    if not compression:
        return data
    try:
        if compression == "zstd":
            import pyarrow as pa

            with pa.CompressedInputStream(pa.BufferReader(data), compression) as stream:
                return stream.read()
        # The standard library's own decoders: Arrow's leak memory where the data are broken.
        return importlib.import_module(_MODULES[compression]).decompress(data)
    except MemoryError:
        raise
    # What a decoder raises for broken data is not said anywhere; all of it means the same to the user.
    except Exception as error:
        raise TableError(path, f"is no whole {path.suffix} file, perhaps cut off: {reason(error)}") from None
