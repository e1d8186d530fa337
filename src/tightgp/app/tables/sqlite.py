"""Tables and queries of SQLite databases, which are opened for reading only."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pandas as pd

from tightgp.app.tables.databases import checked, fetch_all, query_of
from tightgp.app.tables.errors import TableError, reason
from tightgp.app.tables.limits import UNPACKED_GB


def read_sqlite(
    path: Path, share: tuple[int, int], part: str | None = None, max_unpacked: float = UNPACKED_GB
) -> pd.DataFrame:
    """The frame of a table or a query, of the only table by default."""
    if not path.exists():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as database:
            listed = "select name from sqlite_master where type in ('table', 'view') and name not like 'sqlite_%'"
            tables = [name for (name,) in database.execute(listed)]
            cursor = database.execute(query_of(path, tables, part))
            names = [column[0] for column in cursor.description]
            frame = fetch_all(path, names, cursor.fetchmany, max_unpacked)
    except sqlite3.Error as error:
        raise TableError(path, f"cannot be read: {reason(error)}") from None
    return checked(path, frame, share)
