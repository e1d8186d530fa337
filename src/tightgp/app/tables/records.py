"""JSON as a table: one object a line, or an array of objects."""

import json
import re
from pathlib import Path

import pandas as pd
import pyarrow as pa
from pyarrow import json as arrow_json

from tightgp.app.tables.columns import check_names, to_pandas
from tightgp.app.tables.errors import NO_ROWS, TableError, quoted, reason, refuse_broken
from tightgp.app.tables.limits import UNPACKED_GB, check_cells, check_unpacked
from tightgp.app.tables.rows import share_of

#: A name in JSON, and the bytes up to which a text cannot make a large table.
_NAME, _SMALL = re.compile(rb'"((?:[^"\\]|\\.)*)"\s*:'), 100_000


def read_json(path: Path, share: tuple[int, int], max_unpacked: float = UNPACKED_GB) -> pd.DataFrame:
    """The frame of objects with one value for each name; a name that an object lacks is a missing cell."""
    return frame_of_json(path, path.read_bytes(), share, max_unpacked)


def frame_of_json(
    path: Path | str, data: bytes, share: tuple[int, int] = (0, 1), max_unpacked: float = UNPACKED_GB
) -> pd.DataFrame:
    """The frame of JSON in memory, which errors call ``path``."""
    if data.lstrip()[:1] == b"[":
        with refuse_broken(path, "is not complete JSON"):
            records = json.loads(data)
        if not all(isinstance(record, dict) for record in records):
            raise TableError(path, 'is no array of objects; it needs [{"name": value, ...}, ...], or one object a line')
        data = "\n".join(map(json.dumps, records)).encode()
    if not data.strip():
        raise TableError(path, NO_ROWS.replace("has column names but no rows", "is empty"))
    _check_size(path, data, max_unpacked)
    try:
        reading = arrow_json.ReadOptions(block_size=min(len(data) + 1, 2**31 - 1))
        table = arrow_json.read_json(pa.BufferReader(data), reading)
    except pa.ArrowException as error:
        raise TableError(path, f"is not one JSON object a line: {reason(error)}") from None
    check_names(path, table.column_names)
    check_cells(path, table)
    for field in table.schema:
        if pa.types.is_nested(field.type):
            raise TableError(path, f"column {quoted(field.name)} holds lists or objects; use one value for each name")
    rows = share_of(table.num_rows, share)
    frame = to_pandas(table.slice(rows.start, rows.stop - rows.start))
    frame.attrs.update(header=False, first=rows.start)
    return frame


def _check_size(path: Path | str, data: bytes, gigabytes: float) -> None:
    """Refuse objects that have so many different names that the table of all of them would be too large."""
    if len(data) < _SMALL:
        return
    rows, names = data.count(b"\n") + 1, set()
    for match in _NAME.finditer(data):
        if match[1] not in names:
            names.add(match[1])
            check_unpacked(path, 8 * rows * len(names), gigabytes)
