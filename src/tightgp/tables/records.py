"""The records of a delimited text, as bytes: what tells rows apart before, and beside, the parser of Arrow."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

DELIMITERS = ("\t", ";", "|", ",")
_QUOTED = re.compile(rb'"[^"]*(?:"|\Z)')
_CELL = re.compile(r'"([^"]*(?:""[^"]*)*)"?(.*)', re.DOTALL)
_LINE_END = re.compile(rb"\r\n|\r|\n")
#: The delimiter is looked for in so many bytes.
_SAMPLE = 1 << 16


@dataclass(frozen=True)
class Records:
    """The part of a text from ``start`` to ``end``, without blank lines at either.

    Quotes mean something only where a cell begins with one, as they do to Arrow.
    """

    data: bytes
    start: int
    end: int
    delimiter: str

    @classmethod
    def of(cls, data: bytes, delimiter: str | None, prefer: str | None) -> "Records":
        """All records of a text; without a delimiter, the one that the first lines agree on."""
        start, end = 0, len(data)
        while start < end and data[start] in b"\r\n":
            start += 1
        while end > start and data[end - 1] in b"\r\n":
            end -= 1
        return cls(data, start, end, delimiter or sniffed(data[start : min(end, start + _SAMPLE)], prefer))

    @property
    def size(self) -> int:
        """Number of bytes."""
        return max(0, self.end - self.start)

    @cached_property
    def quoted(self) -> bool:
        """Whether quotes occur at all."""
        return self.data.find(b'"', self.start, self.end) >= 0

    def first(self) -> list[tuple[str, bool]]:
        """The cells of the first record, and whether they were quoted."""
        cell: Any = re.compile(self._cell + b"|")
        cells = []
        line, at = self._pattern.match(self.data, self.start, self.end), self.start
        while (found := cell.match(self.data, at, line.end())) is not None:
            text = found[0].decode("utf-8", "replace")
            cells.append((_unquoted(text), True) if text.startswith('"') else (text, False))
            if found.end() == line.end():
                break
            at = found.end() + 1
        return cells

    def rest(self) -> "Records":
        """All but the first record."""
        line = self._pattern.match(self.data, self.start, self.end)
        ending = _LINE_END.match(self.data, line.end(), self.end)
        return Records(self.data, ending.end() if ending else self.end, self.end, self.delimiter)

    def has_blank_rows(self, count: int) -> bool:
        """Whether there may be blank lines, given how many records there are: quoted line ends look the same."""
        ends, returns = (self.data.count(mark, self.start, self.end) for mark in (b"\n", b"\r"))
        mixed = bool(returns) and not returns == ends == self.data.count(b"\r\n", self.start, self.end)
        return self.start > 0 or mixed or ends + 1 != count

    def blank_rows(self) -> list[int]:
        """Which rows of the file, from 1, are blank lines between records or before them."""
        return [row for row, line in enumerate(self._lines(), 1) if line.start() == line.end()]

    def open_quote(self) -> int | None:
        """The row of the file, from 1, in which a quote opens that nothing closes; Arrow would end it with the file."""
        if not self.quoted:
            return None
        mark = re.escape(self.delimiter.encode())
        # What is no quote; a quote inside of a plain cell; a quoted cell; or nothing, which ends the repetition: before
        # Python 3.11.5 a possessive group whose last turn failed did not go back to where that turn began.
        closed: Any = re.compile(rb'(?:[^"]++|(?<=[^' + mark + rb'\r\n])"|"[^"]*+(?:""[^"]*+)*+"|)*+')
        at = closed.match(self.data, self.start, self.end).end()
        return None if at == self.end else self.row_at(at)

    def row_at(self, position: int) -> int:
        """The row of the file, from 1, that this byte is in."""
        if not self.quoted:
            return 1 + sum(1 for _ in _LINE_END.finditer(self.data, 0, position))
        return next((row for row, line in enumerate(self._lines(), 1) if line.end() > position), 1)

    def _lines(self) -> Iterator[Any]:
        at = 0
        while at < self.end:
            line = self._pattern.match(self.data, at, self.end)
            yield line
            ending = _LINE_END.match(self.data, line.end(), self.end)
            at = ending.end() if ending else self.end

    @property
    def _cell(self) -> bytes:
        plain = b"[^" + re.escape(self.delimiter.encode()) + rb"\r\n]*+"
        return rb'(?:"[^"]*+(?:""[^"]*+)*+(?:"|\Z)' + plain + rb'|(?!")(?=[^\r\n])' + plain + b")"

    @cached_property
    def _pattern(self) -> Any:
        separator = re.escape(self.delimiter.encode())
        return re.compile(b"(?:" + separator + b"|" + self._cell + b")*+")


def sniffed(sample: bytes, prefer: str | None) -> str:
    """The delimiter of a text, from its first lines: one that occurs equally often in each, or most often in the first.

    A decimal comma occurs equally often in each line too, so the comma comes last.
    """
    lines = [line for line in _LINE_END.split(_QUOTED.sub(b"", sample)) if line][:20]
    lines = lines[:-1] if len(lines) > 1 else lines
    order = ((prefer,) if prefer else ()) + DELIMITERS
    counts = {mark: [line.count(mark.encode()) for line in lines] for mark in order}
    for mark, count in counts.items():
        if count and count[0] and len(set(count)) == 1:
            return mark
    best = max(reversed(order), key=lambda mark: counts[mark][0] if counts[mark] else 0)
    return best if counts[best] and counts[best][0] else prefer or ","


def _unquoted(text: str) -> str:
    body, tail = _CELL.fullmatch(text).groups()  # type: ignore[union-attr]
    return body.replace('""', '"') + tail
