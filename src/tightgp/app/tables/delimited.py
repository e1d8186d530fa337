"""Delimited text record by record, by Python's csv module: for what Arrow's faster parser does not tell.

Row k of a file, as a spreadsheet shows it, is the k-th of its `records`.
"""

import csv
import io
import re
from collections.abc import Iterator
from typing import Any

DELIMITERS = ("\t", ";", "|", ",")
_QUOTED = re.compile(rb'"[^"]*(?:"|\Z)')
_LINE_END = re.compile(rb"\r\n|\r|\n")
_SAMPLE_BYTES = 1 << 16
csv.field_size_limit(2**31 - 1)


def records(text: bytes, delimiter: str) -> Iterator[list[str]]:
    """The cells of each record of ``text``; a blank line is an empty record."""
    return csv.reader(io.TextIOWrapper(io.BytesIO(text), "utf-8", "replace", newline=""), delimiter=delimiter)


def detect_delimiter(text: bytes, default: str) -> str:
    """The delimiter that occurs equally often in each of the first lines, or most often in the first.

    A decimal comma occurs equally often in each line too, so the comma is tried last.
    """
    lines = [line for line in _LINE_END.split(_QUOTED.sub(b"", text[:_SAMPLE_BYTES])) if line][:20]
    lines = lines[:-1] if len(lines) > 1 else lines
    counts = {mark: [line.count(mark.encode()) for line in lines] for mark in DELIMITERS}
    for mark, count in counts.items():
        if len(set(count)) == 1 and count[0]:
            return mark
    most = max(reversed(DELIMITERS), key=lambda mark: counts[mark][:1])
    return most if any(counts[most][:1]) else default


def open_quote(text: bytes, delimiter: str) -> int | None:
    """The row in which a quote opens that nothing closes; Arrow would close it at the end of the file."""
    if b'"' not in text:
        return None
    # Other characters; a quote inside an unquoted cell; a quoted cell; or nothing: before Python 3.11.5 a possessive
    # repetition did not go back to where its last, failed turn began.
    closed: Any = re.compile(
        rb'(?:[^"]++|(?<=[^' + re.escape(delimiter.encode()) + rb'\r\n])"|"[^"]*+(?:""[^"]*+)*+"|)*+'
    )
    end = closed.match(text).end()
    return None if end == len(text) else sum(1 for _ in records(text[: end + 1], delimiter))
