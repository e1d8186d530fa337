"""What the readers of databases share: which table or query is meant, and its rows as a frame."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from tightgp.app.tables.columns import check_names
from tightgp.app.tables.errors import TableError
from tightgp.app.tables.limits import check_unpacked
from tightgp.app.tables.rows import share_of

_QUERY = re.compile(r"\s*(select|with|from)\b", re.IGNORECASE)
#: The first rows that are fetched together, and the bytes of those that are fetched together later.
_FIRST_ROWS, _BATCH_BYTES = 64, 1 << 24
#: The bytes of memory that a row and each of its cells take at least.
_ROW_BYTES, _CELL_BYTES = 56, 40


def query_of(path: Path, tables: list[str], part: str | None) -> str:
    """The query for a table, for the only one where none is named, or the query that is given."""
    if part is None and len(tables) != 1:
        problem = f"holds the tables {', '.join(tables[:20])}" if tables else "holds no table"
        raise TableError(path, f"{problem}; name one with --from, or a query: --from 'select ... from ...'")
    name = tables[0] if part is None else part
    if _QUERY.match(name):
        return name
    if name not in tables:
        raise TableError(path, f"has no table {name!r}; its tables are {', '.join(tables[:20])}")
    quoted = name.replace('"', '""')
    return f'select * from "{quoted}"'


def fetch_all(path: Path, names: list[str], fetch: Callable[[int], list], gigabytes: float) -> pd.DataFrame:
    """The rows of a query, refused as soon as they take more than ``gigabytes``; a few bytes can make rows for ever."""
    check_names(path, names)
    rows: list[Any] = []
    size, count = 0, _FIRST_ROWS
    while batch := fetch(count):
        rows += batch
        texts = sum(len(cell) for row in batch for cell in row if isinstance(cell, str | bytes))
        size += len(batch) * (_ROW_BYTES + _CELL_BYTES * len(names)) + texts
        check_unpacked(path, size, gigabytes)
        count = max(1, _BATCH_BYTES * len(rows) // size)
    return pd.DataFrame(rows, columns=names).infer_objects()


def checked(path: Path, frame: pd.DataFrame, share: tuple[int, int]) -> pd.DataFrame:
    """The share of a frame, whose cells are neither binary data nor lists."""
    for name in frame:
        kinds = {type(cell) for cell in frame[name].dropna()} if frame[name].dtype == object else set()
        if kinds & {bytes, bytearray, memoryview}:
            raise TableError(path, f"column {name!r} holds binary data; leave it out of the query")
        if kinds & {list, dict, tuple}:
            raise TableError(path, f"column {name!r} holds lists or records; leave it out of the query")
    rows = share_of(len(frame), share)
    frame = frame.iloc[rows].reset_index(drop=True)
    frame.attrs.update(header=False, first=rows.start)
    return frame
