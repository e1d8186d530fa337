"""Delimited text as a table: strict about its shape, lenient about its dialect.

Arrow parses it; Python's csv module goes through it record by record for what Arrow does not tell. Row k of a file, as
a spreadsheet shows it, is the k-th of its records.
"""

import codecs
import csv
import io
import itertools
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, read_csv

from tightgp.app.tables.columns import MISSING, check_names, parse_numbers, to_pandas
from tightgp.app.tables.errors import NO_ROWS, TableError, quoted, reason
from tightgp.app.tables.limits import check_cells, refuse_long
from tightgp.app.tables.rows import file_row, share_of
from tightgp.progress import ProgressBar

_DELIMITERS = ("\t", ";", "|", ",")
_QUOTED = re.compile(rb'"[^"]*(?:"|\Z)')
_LINE_END = re.compile(rb"\r\n|\r|\n")
_SAMPLE_BYTES = 1 << 16
_NUMBER = re.compile(r"\s*[-+]?(\d+([.,]\d*)?|[.,]\d+)([eE][-+]?\d+)?\s*")
_LINE = re.compile(rb"[^\r\n]+")
_BINARY = "holds zero bytes, so it is not text; save the table as CSV, or use the suffix of its format"
#: Arrow parses this many bytes at a time; a progress bar is shown for larger texts than the second.
_BLOCK_BYTES, _LARGE_BYTES = 1 << 20, 1 << 26
csv.field_size_limit(2**31 - 1)


def read_text(
    path: Path,
    data: bytes,
    delimiter: str | None,
    encoding: str,
    share: tuple[int, int],
    progress: bool,
    strict: bool = True,
) -> pd.DataFrame:
    """The rows of delimited text that belong to a share, with or without a header.

    All rows are parsed, also for a share: whether a column holds numbers or text depends on all of them.
    """
    delimiter = {"\\t": "\t", "tab": "\t"}.get(delimiter or "", delimiter)
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n'):
        marks = ", ".join(map(repr, _DELIMITERS))
        raise TableError(path, f"--delimiter must be one character such as {marks}, got {delimiter!r}")
    text = _as_utf8(path, data, encoding)
    if (first_line := _LINE.search(text)) is None:
        raise TableError(path, "is empty; it needs a line of column names, and rows")
    delimiter = delimiter or _detect_delimiter(text, "\t" if ".tsv" in path.name.lower() else ",")
    if row := _open_quote(text, delimiter):
        raise TableError(path, f'row {row}: a quote (") opens here and is never closed; close it or remove it')
    cells, *more = itertools.islice(filter(None, _records(text, delimiter)), 2)
    if len(cells) == 1 and len(words := cells[0].split()) > 1 and all(map(_NUMBER.fullmatch, words)):
        raise TableError(path, "its cells are separated by spaces; separate them by commas or tabs")
    header = b'"' in first_line[0] or not all(map(_NUMBER.fullmatch, cells))
    names = cells if header else [f"c{i}" for i in range(len(cells))]
    if len(names) > 1 and not names[0].strip():
        names[0] = "unnamed"  # the index that pandas writes
    check_names(path, names)
    if header and not more:
        raise TableError(path, NO_ROWS)
    body = slice(first_line.start(), len(text.rstrip(b"\r\n")))
    table = _parse(path, text, body, names, header, delimiter, progress)
    blank = _blank_rows(text, body, delimiter, table.num_rows + header, len(names))
    table = parse_numbers(path, table, delimiter, partial(file_row, header=header, blank=blank), strict)
    rows = share_of(table.num_rows, share)
    frame = to_pandas(table.slice(rows.start, rows.stop - rows.start))
    frame.attrs.update(header=header, blank=blank, first=rows.start, delimiter=delimiter)
    return frame


def _as_utf8(path: Path, data: bytes, encoding: str) -> bytes:
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
        raise TableError(path, f"--encoding {encoding!r} is unknown; use a name such as utf-8 or latin-1") from None
    except UnicodeDecodeError as error:
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            raise TableError(path, "is text in UTF-16; pass --encoding utf-16") from None
        if b"\0" not in data[: 1 << 16]:
            row = sum(1 for _ in _records(data[: error.start + 1], _detect_delimiter(data, ",")))
            other = "latin-1" if name.startswith("utf-8") else "utf-8"
            problem = f"byte 0x{data[error.start]:02x} is not text in {encoding}"
            advice = f"pass --encoding {other}, or save the file as UTF-8"
            raise TableError(path, f"row {row}: {problem}; {advice}") from None
        raise TableError(path, _BINARY) from None
    except UnicodeError as error:
        raise TableError(path, f"is not text in {encoding}: {reason(error)}") from None
    if b"\0" in data:
        raise TableError(path, _BINARY)
    return data


def _parse(path: Path, text: bytes, body: slice, names: list[str], header: bool, delimiter: str, progress: bool):
    """The Arrow table of the records in ``text[body]``."""
    size = body.stop - body.start
    show = progress and size > _LARGE_BYTES
    parsing = ParseOptions(delimiter=delimiter, newlines_in_values=b'"' in text, ignore_empty_lines=len(names) > 1)
    conversion = ConvertOptions(null_values=MISSING, strings_can_be_null=True, check_utf8=False)
    # Arrow's own allocator asks the system for memory for each block, which takes longer than parsing.
    pool = pa.system_memory_pool()
    for block_bytes in (_BLOCK_BYTES, min(size + 1, 2**31 - 1)):
        if block_bytes > _BLOCK_BYTES:
            for row, cells in enumerate(_records(text, delimiter), 1):  # Arrow may not survive cells of 300 MB
                refuse_long(path, max(map(len, cells), default=0), f"row {row}")
        reading = ReadOptions(block_size=block_bytes, column_names=names, skip_rows_after_names=int(header))
        source = pa.BufferReader(memoryview(text)[body])
        try:
            with ProgressBar(size, show, "reading", in_bytes=True) as bar:
                source = pa.PythonFile(bar.wrap_file(source), "r") if show else source
                table = read_csv(source, reading, parsing, conversion, pool)
            check_cells(path, table)
            return table
        except pa.ArrowMemoryError:
            raise MemoryError from None
        except pa.ArrowException as error:
            if "worker thread" in str(error):
                raise MemoryError("no memory for another thread") from None
            problem = reason(error)  # it may be that a record is longer than a block
    # Arrow numbers rows only when it parses with one thread, and without the blank lines.
    for row, cells in enumerate(_records(text, delimiter), 1):
        if cells and len(cells) != len(names):
            count = f"{len(cells)} cell" + "s" * (len(cells) > 1)
            found = quoted(delimiter.join(cells))
            raise TableError(path, f"row {row} has {count} where the first row has {len(names)}: {found}")
    raise TableError(path, f"cannot be read as a table: {problem}")


def _blank_rows(text: bytes, body: slice, delimiter: str, num_records: int, num_columns: int) -> tuple[int, ...]:
    """The rows of the file that are blank lines. In a table of one column those after the header are missing cells."""
    line_feeds, returns, pairs = (text.count(end, body.start, body.stop) for end in (b"\n", b"\r", b"\r\n"))
    if not body.start and 1 + line_feeds + returns - pairs == num_records:
        return ()
    blank = [row for row, cells in enumerate(_records(text, delimiter), 1) if not cells]
    return tuple(row for position, row in enumerate(blank, 1) if num_columns > 1 or position == row)


def _records(text: bytes, delimiter: str) -> Iterator[list[str]]:
    """The cells of each record of ``text``; a blank line is an empty record."""
    return csv.reader(io.TextIOWrapper(io.BytesIO(text), "utf-8", "replace", newline=""), delimiter=delimiter)


def _detect_delimiter(text: bytes, default: str) -> str:
    """The delimiter that occurs equally often in each of the first lines, or most often in the first.

    A decimal comma occurs equally often in each line too, so the comma is tried last.
    """
    lines = [line for line in _LINE_END.split(_QUOTED.sub(b"", text[:_SAMPLE_BYTES])) if line][:20]
    lines = lines[:-1] if len(lines) > 1 else lines
    counts = {mark: [line.count(mark.encode()) for line in lines] for mark in _DELIMITERS}
    for mark, count in counts.items():
        if len(set(count)) == 1 and count[0]:
            return mark
    most = max(reversed(_DELIMITERS), key=lambda mark: counts[mark][:1])
    return most if any(counts[most][:1]) else default


def _open_quote(text: bytes, delimiter: str) -> int | None:
    """The row in which a quote opens that nothing closes; Arrow would close it at the end of the file."""
    if b'"' not in text:
        return None
    # Other characters; a quote inside an unquoted cell; a quoted cell; or nothing: before Python 3.11.5 a possessive
    # repetition did not go back to where its last, failed turn began.
    inside = rb"(?<=[^" + re.escape(delimiter.encode()) + rb'\r\n])"'
    closed: Any = re.compile(rb'(?:[^"]++|' + inside + rb'|"[^"]*+(?:""[^"]*+)*+"|)*+')
    end = closed.match(text).end()
    return None if end == len(text) else sum(1 for _ in _records(text[: end + 1], delimiter))
