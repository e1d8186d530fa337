"""Tables and queries of SQLite databases, which are opened for reading only."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pandas as pd

from tightgp.app.tables.columns import check_names
from tightgp.app.tables.errors import TableError, reason
from tightgp.app.tables.rows import share_of

_QUERY = re.compile(r"\s*(select|with)\b", re.IGNORECASE)


def read_sqlite(path: Path, share: tuple[int, int], part: str | None = None) -> pd.DataFrame:
    """The frame of a table or a query, of the only table by default."""
    if not path.exists():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            listed = "select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%'"
            tables = [name for (name,) in database.execute(listed)]
            if part is None and len(tables) != 1:
                problem = f"holds the tables {', '.join(tables[:20])}" if tables else "holds no table"
                raise TableError(path, f"{problem}; name one with --from, or a query: --from 'select ... from ...'")
            name = tables[0] if part is None else part
            if not _QUERY.match(name) and name not in tables:
                raise TableError(path, f"has no table {name!r}; its tables are {', '.join(tables[:20])}")
            quoted = name.replace('"', '""')
            cursor = database.execute(name if _QUERY.match(name) else f'select * from "{quoted}"')
            names = [column[0] for column in cursor.description]
            check_names(path, names)
            frame = pd.DataFrame(cursor.fetchall(), columns=names).infer_objects()
    except sqlite3.Error as error:
        raise TableError(path, f"cannot be read: {reason(error)}") from None
    for name in frame:
        if frame[name].dtype == object and frame[name].map(lambda cell: isinstance(cell, bytes)).any():
            raise TableError(path, f"column {name!r} holds binary data; leave it out of the query")
    rows = share_of(len(frame), share)
    frame = frame.iloc[rows].reset_index(drop=True)
    frame.attrs.update(header=False, first=rows.start)
    return frame
