"""Reading: the suffix gives the format, and each format gives a frame or a `TableError`."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from tightgp.app.tables.arrays import read_npy, read_npz
from tightgp.app.tables.duck import read_duckdb
from tightgp.app.tables.errors import NO_ROWS, TableError, TableFileError, reason, refuse_broken
from tightgp.app.tables.excel import read_excel
from tightgp.app.tables.limits import COMPRESSIONS, UNPACKED_GB, check_limit, decompress
from tightgp.app.tables.parquet import read_parquet
from tightgp.app.tables.records import read_json
from tightgp.app.tables.rows import share_of
from tightgp.app.tables.sqlite import read_sqlite
from tightgp.app.tables.text import read_text

TEXT = (".csv", ".tsv", ".txt")
READERS: dict[str, Callable] = {
    **{".parquet": read_parquet, ".npy": read_npy, ".npz": read_npz},
    **dict.fromkeys((".json", ".jsonl", ".ndjson"), read_json),
}
#: Files of several tables, whose readers take the part that is meant.
SEVERAL: dict[str, Callable] = {
    **dict.fromkeys((".xlsx", ".xlsm"), read_excel),
    **dict.fromkeys((".sqlite", ".sqlite3", ".db"), read_sqlite),
    **dict.fromkeys((".duckdb", ".ddb"), read_duckdb),
}


def read_table(
    path,
    *,
    delimiter: str | None = None,
    encoding: str = "utf-8",
    progress: bool = True,
    share: tuple[int, int] = (0, 1),
    strict: bool = True,
    part: str | None = None,
    max_unpacked: float = UNPACKED_GB,
) -> pd.DataFrame:
    """The table in a file, as a pandas DataFrame whose column names are text.

    Args:
        path: ``.csv``, ``.tsv`` or ``.txt``, each also with ``.gz``, ``.bz2``, ``.xz`` or ``.zst``; ``.parquet``;
            ``.npy`` with one two-dimensional or structured array; ``.npz`` with one such array, or with X and y;
            ``.jsonl``, ``.ndjson`` or ``.json``; ``.xlsx``; ``.sqlite`` or ``.db``; ``.duckdb``.
        delimiter: what separates the cells of a text; None detects comma, semicolon, tab or bar.
        encoding: of a text.
        progress: show a bar while a large text is read.
        share: ``(i, n)`` gives the i-th, from 0, of n parts of consecutive rows, cut as by ``numpy.array_split``; it
            may be empty. Of ``.npy`` and ``.parquet`` only that part is read; texts and ``.npz`` are read completely,
            because all rows of a column decide its type.
        part: the sheet of a workbook, or the table or query of a database; None is the first sheet, the only table.
        strict: refuse a column of numbers in which a few cells are none; otherwise it is a column of text.
        max_unpacked: gigabytes that a compressed text, a Parquet file, an archive or a query may unpack to; more is
            refused.

    Returns:
        The frame. ``frame.attrs["header"]`` is False for a file without column names; they are c0, c1, ... then.
        `row_number` gives the row of the file for a position in the frame.

    >>> import pathlib, tempfile
    >>> from tightgp.app.tables import read_table
    >>> path = pathlib.Path(tempfile.mkdtemp(), "flats.csv")
    >>> _ = path.write_text("area,district\\n52.5,Old Town\\n81.0,Harbour\\n")
    >>> read_table(path)
       area  district
    0  52.5  Old Town
    1  81.0   Harbour
    """
    path = Path(path)
    share_of(0, share)
    check_limit(max_unpacked)
    suffix, compression = format_of(path)
    if path.is_dir():
        raise TableError(path, "is a folder; name a file in it")
    if suffix == ".xls":
        raise TableError(path, "is of the old Excel format; save it as .xlsx or CSV")
    if part is not None and suffix not in SEVERAL:
        raise TableError(path, f"--from {part!r} is for Excel workbooks and databases")
    if suffix not in (*TEXT, *READERS, *SEVERAL) or (compression and suffix not in TEXT):
        problem = f"cannot tell the format from the suffix {''.join(path.suffixes[-2:])!r}"
        known = ".csv, .tsv or .txt (also with .gz, .bz2, .xz or .zst), .parquet, .xlsx, .jsonl, .sqlite, .duckdb, .npy"
        known += " or .npz"
        raise TableError(path, f"{problem}; use {known}")
    try:
        if suffix in TEXT:
            data = path.read_bytes()
            if compression:
                with refuse_broken(path, f"is not a complete {path.suffix} file, perhaps cut off"):
                    data = decompress(path, data, compression, max_unpacked)
            frame = read_text(path, data, delimiter, encoding, share, progress, strict)
        elif suffix in SEVERAL:
            frame = SEVERAL[suffix](path, share, part, max_unpacked)
        else:
            more = () if suffix == ".npy" else (max_unpacked,)
            frame = READERS[suffix](path, share, *more)
    except OSError as error:
        raise TableFileError(path, f"cannot be read: {reason(error)}") from None
    except MemoryError as error:
        size = f" ({reason(error)})" if str(error) else ""
        raise TableError(path, f"does not fit in memory{size}; use fewer rows or columns") from None
    if not len(frame.columns):
        raise TableError(path, "has no columns")
    if not len(frame) and share == (0, 1):
        raise TableError(path, NO_ROWS)
    return frame


def format_of(path: Path) -> tuple[str, str]:
    """The suffix that gives the format, and that of the compression or the empty text."""
    *_, before, last = ["", "", *(suffix.lower() for suffix in path.suffixes)]
    return (before, last) if last in COMPRESSIONS else (last, "")
