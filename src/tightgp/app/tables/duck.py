"""Tables and queries of DuckDB databases, which are opened for reading only and can reach no other file."""

from pathlib import Path

import pandas as pd

from tightgp.app.tables.databases import checked, fetch_all, query_of
from tightgp.app.tables.errors import TableError, reason
from tightgp.app.tables.limits import UNPACKED_GB

#: A query sees its own database, and loads nothing: no other file, no network, no extension.
_CONFINED = {"enable_external_access": "false", "autoload_known_extensions": "false", "lock_configuration": "true"}


def read_duckdb(
    path: Path, share: tuple[int, int], part: str | None = None, max_unpacked: float = UNPACKED_GB
) -> pd.DataFrame:
    """The frame of a table or a query, of the only table by default."""
    try:
        import duckdb
    except ImportError:
        raise TableError(path, "needs DuckDB: run `pip install 'tightgp[duckdb]'`, or export the table") from None
    if not path.exists():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    try:
        config = _CONFINED | {"memory_limit": f"{1000 * max_unpacked:.0f}MB"}
        with duckdb.connect(str(path), read_only=True, config=config) as database:
            listed = "select table_name from information_schema.tables where table_schema = current_schema()"
            tables = sorted(name for (name,) in database.execute(listed).fetchall())
            cursor = database.execute(query_of(path, tables, part))
            names = [column[0] for column in cursor.description]
            frame = fetch_all(path, names, cursor.fetchmany, max_unpacked)
    except (duckdb.Error, RuntimeError) as error:
        raise TableError(path, f"cannot be read: {reason(error)}") from None
    return checked(path, frame, share)
