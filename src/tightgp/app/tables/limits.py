"""Limits on what a table may unpack to: a small file can claim terabytes, and one cell can break a parser."""

import bz2
import gzip
import io
import lzma
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tightgp.app.tables.errors import TableError, quoted

#: Gigabytes that a compressed table may unpack to, unless the caller says otherwise.
UNPACKED_GB = 4.0
#: Bytes of a cell. Longer texts are no labels, and Arrow's parser ends the process at some length.
CELL_BYTES = 1 << 24
COMPRESSIONS = (".gz", ".bz2", ".xz", ".zst")


def check_limit(gigabytes: float) -> None:
    """Refuse a limit that is no positive number."""
    if not gigabytes > 0:
        raise ValueError(f"--max-unpacked must be a number of gigabytes above 0, got {gigabytes}")


def decompress(path: Path, data: bytes, compression: str, gigabytes: float) -> bytes:
    """The unpacked bytes, refused as soon as there are more than ``gigabytes``.

    By the standard library where it can: Arrow's decoders leak memory if the data are broken.
    """
    source: Any
    match compression:
        case ".gz":
            source = gzip.GzipFile(fileobj=io.BytesIO(data))
        case ".bz2":
            source = bz2.BZ2File(io.BytesIO(data))
        case ".xz":
            source = lzma.LZMAFile(io.BytesIO(data))  # noqa: SIM115, closed below
        case _:
            source = pa.CompressedInputStream(pa.BufferReader(data), "zstd")
    with source:
        unpacked = source.read(int(gigabytes * 1e9) + 1)
    check_unpacked(path, len(unpacked), gigabytes)
    return unpacked


def check_archive(path: Path, gigabytes: float) -> None:
    """Refuse a zip archive that claims to unpack to more than ``gigabytes``."""
    with zipfile.ZipFile(path) as archive:
        check_unpacked(path, sum(one.file_size for one in archive.infolist()), gigabytes)


def check_unpacked(path: Path | str, size: int, gigabytes: float) -> None:
    """Refuse a size in bytes above the limit."""
    if size > gigabytes * 1e9:
        raise TableError(
            path, f"unpacks to more than {gigabytes:g} GB; if it is no mistake, raise the limit with --max-unpacked"
        )


def check_cells(path: Path | str, table: pa.Table) -> None:
    """Refuse a text longer than any label."""
    for name, column in zip(table.column_names, table.columns, strict=True):
        kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_binary(kind):
            chunks = [chunk.dictionary if pa.types.is_dictionary(chunk.type) else chunk for chunk in column.chunks]
            refuse_long(
                path,
                max((pc.max(pc.binary_length(c)).as_py() or 0 for c in chunks), default=0),
                f"column {quoted(name)}",
            )


def refuse_long(path: Path | str, length: int, where: str) -> None:
    """Refuse a cell of this many bytes if it is too long."""
    if length > CELL_BYTES:
        problem = f"{where} has a cell of {length:,} bytes; at most {CELL_BYTES:,} can be read"
        raise TableError(path, f"{problem}: shorten it or drop the column")
