"""Text with delimiters as a table: strict about its shape, forgiving about its dialect."""

import codecs
import re
from functools import cache
from pathlib import Path
from typing import Any

from tightgp.tables.columns import MISSING, frame_of, numbers_of_text, unique
from tightgp.tables.errors import TableError, file_row, reason, shown
from tightgp.tables.records import DELIMITERS, Records
from tightgp.tables.shares import WHOLE, Share

_NUMBER = re.compile(r"\s*[-+]?(\d+([.,]\d*)?|[.,]\d+)([eE][-+]?\d+)?\s*")
_BINARY = "holds zero bytes, so it is no text; save the table as CSV, or use the suffix of its format"
#: Arrow parses so many bytes at a time; a bar is shown from so many on.
_BLOCK, _LARGE = 1 << 20, 1 << 26


def read_text(
    path: Path,
    data: bytes,
    delimiter: str | None,
    encoding: str,
    prefer: str | None,
    progress: bool,
    share: Share = WHOLE,
) -> Any:
    """The frame of a text with a line of names or none, and one row a line.

    All of it is parsed, also for a share: only all rows tell whether a column is numbers or text.
    """
    if delimiter is not None:
        delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter, delimiter)
        if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
            marks = ", ".join(map(repr, DELIMITERS))
            raise TableError(path, f"delimiter must be one character such as {marks}, got {delimiter!r}")
    records = Records.of(_utf8(path, data, encoding), delimiter, prefer)
    if not records.size:
        raise TableError(path, "is empty; it needs a line of column names, and rows")
    if (row := records.open_quote()) is not None:
        raise TableError(path, f'row {row}: a quote (") opens there and nothing closes it; close it or remove it')
    first = records.first()
    if len(first) == 1 and len(cells := first[0][0].split()) > 1 and all(map(_NUMBER.fullmatch, cells)):
        raise TableError(path, "its cells are separated by spaces; separate them by commas or tabs")
    header = not all(_NUMBER.fullmatch(cell) and not quoted for cell, quoted in first)
    names = [cell for cell, _ in first] if header else [f"c{i}" for i in range(len(first))]
    if len(names) > 1 and not names[0].strip():
        # The column that pandas writes for its index.
        names[0] = "unnamed"
    unique(path, names)
    rows = records.rest() if header else records
    if not rows.size:
        raise TableError(path, "has column names but no rows; it needs at least one row of data")

    @cache
    def blank() -> tuple[int, ...]:
        found = records.blank_rows()
        # Where there is one column, a blank line among the rows is a missing cell.
        return tuple(found if len(names) > 1 else [row for place, row in enumerate(found, 1) if place == row])

    def row_of(position: int) -> int:
        return file_row(position, header, blank())

    table = _parsed(path, rows, names, row_of, progress)
    table, here = numbers_of_text(path, table, records.delimiter, row_of), share.of(table.num_rows)
    frame = frame_of(table.slice(here.start, here.stop - here.start))
    frame.attrs["header"] = header
    if records.has_blank_rows(table.num_rows + header) and blank():
        frame.attrs["blank"] = blank()
    return share.marked(frame, here)


def _utf8(path: Path, data: bytes, encoding: str) -> bytes:
    """The text as UTF-8 without a byte-order mark."""
    try:
        name = codecs.lookup(encoding).name
        if name in ("utf-8", "utf-8-sig"):
            data = data.removeprefix(codecs.BOM_UTF8)
            if not data.isascii():
                data.decode("utf-8")
        else:
            data = data.decode(encoding).removeprefix("\ufeff").encode("utf-8")
    except LookupError:
        raise TableError(path, f"encoding {encoding!r} is unknown; use a name such as utf-8 or latin-1") from None
    except UnicodeDecodeError as error:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise TableError(path, 'is text in UTF-16; pass encoding="utf-16"') from None
        if b"\0" not in data[: 1 << 16]:
            row = Records.of(data, None, None).row_at(error.start)
            other = "latin-1" if name.startswith("utf-8") else "utf-8"
            raise TableError(
                path,
                f'row {row}: byte 0x{data[error.start]:02x} is no text in {encoding}; pass encoding="{other}", '
                "or save the file as UTF-8",
            ) from None
        raise TableError(path, _BINARY) from None
    except UnicodeError as error:
        raise TableError(path, f"is no text in {encoding}: {reason(error)}") from None
    if b"\0" in data:
        raise TableError(path, _BINARY)
    return data


def _parsed(path: Path, rows: Records, names: list[str], row_of, progress: bool):
    """The Arrow table of these records."""
    import pyarrow as pa

    try:
        try:
            return _read(rows, names, _BLOCK, progress)
        except pa.ArrowInvalid as error:
            if "straddl" not in str(error):
                raise
            # A record is longer than a block.
            return _read(rows, names, min(rows.size + 1, 2**31 - 1), progress)
    except pa.ArrowMemoryError:
        raise MemoryError from None
    except pa.ArrowException as error:
        _refuse_ragged(path, rows, names, row_of)
        raise TableError(path, f"cannot be read as a table: {reason(error)}") from None


def _refuse_ragged(path: Path, rows: Records, names: list[str], row_of):
    """Name the first row with too many or too few cells: Arrow counts rows only when it parses with one thread."""
    import pyarrow as pa

    found = []

    def handler(row):
        found.append(row)
        return "error"

    try:
        _read(rows, names, min(rows.size + 1, 2**31 - 1), False, handler)
    except pa.ArrowException:
        if found:
            row, text = found[0], shown(found[0].text)
            cells = f"{row.actual_columns} cell" + ("s" if row.actual_columns > 1 else "")
            raise TableError(
                path, f"row {row_of(row.number - 1)} has {cells} where the first row has {len(names)}: {text}"
            ) from None


def _read(rows: Records, names: list[str], block: int, progress: bool, handler=None):
    import pyarrow as pa
    import pyarrow.csv as csv

    buffer = memoryview(rows.data)[rows.start : rows.end]
    options = {
        "read_options": csv.ReadOptions(use_threads=handler is None, block_size=block, column_names=names),
        "parse_options": csv.ParseOptions(
            delimiter=rows.delimiter,
            newlines_in_values=rows.quoted,
            ignore_empty_lines=len(names) > 1,
            invalid_row_handler=handler,
        ),
        # Arrow's own allocator asks the system anew for each block: measured, more time than the parsing takes.
        "memory_pool": pa.system_memory_pool(),
        "convert_options": csv.ConvertOptions(null_values=MISSING, strings_can_be_null=True, check_utf8=False),
    }
    if not progress or rows.size < _LARGE:
        return csv.read_csv(pa.BufferReader(buffer), **options)
    from tightgp.training.progress import ProgressBar

    with ProgressBar(rows.size >> 20, progress, "reading") as bar:
        return csv.read_csv(pa.PythonFile(_Told(buffer, bar), "r"), **options)


class _Told:
    """Bytes as a file that tells a progress bar how far it was read."""

    def __init__(self, buffer: memoryview, bar):
        self._buffer, self._bar, self._at = buffer, bar, 0
        self.closed = False

    def read(self, count: int = -1) -> memoryview:
        """The next ``count`` bytes."""
        end = len(self._buffer) if count < 0 else self._at + count
        part = self._buffer[self._at : end]
        self._at += len(part)
        self._bar.update(self._at >> 20, "MB")
        return part

    def close(self) -> None:
        """There is nothing to close."""
        self.closed = True
