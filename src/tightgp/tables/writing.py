"""Writing: CSV, plain or compressed, or Parquet; the file is there whole, or not at all."""

import contextlib
import re
from pathlib import Path

from tightgp.files import written_whole
from tightgp.tables.errors import TableError, reason, shown
from tightgp.tables.reading import TEXT, split

#: Names that a reader would take for something else unless they are quoted.
_QUOTED_NAME = re.compile(r'.*[",;|\t\r\n].*|\s*[-+.,\d].*|\s.*|.*\s|', re.DOTALL)
_DAYS = {"s": 86_400.0, "ms": 86_400e3, "us": 86_400e6, "ns": 86_400e9}


def check_writable(path) -> None:
    """Refuse a place where `write_table` could not write: a folder, or a suffix that says no format."""
    path = Path(path)
    stem, compression = split(path)
    if path.is_dir():
        raise TableError(path, "is a folder; name a file in it")
    if stem not in (*TEXT, ".parquet") or (compression and stem == ".parquet"):
        raise TableError(path, "cannot be written; use the suffix .csv, .tsv or .txt (also with .gz, ...), or .parquet")


def write_table(frame, path) -> None:
    """Write a pandas DataFrame, without its index, as its path's suffix says: CSV (.tsv and .txt with tabs), Parquet.

    Numbers are written so that they read back exactly. In text, durations are days, and texts that look like
    numbers, dates or missing cells read back as these.
    """
    check_writable(path)
    path = Path(path)
    stem, compression = split(path)
    table = _arrow(frame, path)
    try:
        # A failed pq.write_table removes the path that it was given, whatever it is; a stream it leaves alone.
        with written_whole(path) as temporary, _opened(temporary, compression) as file:
            if stem == ".parquet":
                import pyarrow.parquet as pq

                pq.write_table(table, file)
            else:
                _write_text(table, file, "," if stem == ".csv" else "\t")
    # Arrow's own complaints about what a format cannot hold are ValueErrors and the like.
    except (OSError, ValueError, NotImplementedError) as error:
        raise TableError(path, f"cannot be written: {reason(error)}") from None


def _arrow(frame, path: Path):
    import pyarrow as pa

    columns = {}
    for i, name in enumerate(map(str, frame.columns)):
        if name in columns:
            raise TableError(path, f"two columns are called {shown(name)}; rename one before the table is written")
        try:
            columns[name] = pa.Array.from_pandas(frame.iloc[:, i])
            if pa.types.is_nested(columns[name].type):
                raise TypeError("its cells are lists or records")
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise TableError(path, f"column {shown(name)} cannot be written: {reason(error)}") from None
    return pa.table(columns)


def _write_text(table, file, delimiter: str) -> None:
    import pyarrow as pa
    import pyarrow.csv as csv

    table = pa.table([_text_ready(column, table.num_columns) for column in table.columns], table.column_names)
    header = delimiter.join(_name(name) for name in table.column_names) + "\n"
    body = csv.WriteOptions(include_header=False, delimiter=delimiter)
    file.write(header.encode("utf-8"))
    csv.write_csv(table, file, body)


def _opened(temporary: Path, compression: str):
    import pyarrow as pa

    # The temporary name has no suffix to tell the compression by.
    if compression == "xz":
        import lzma

        return lzma.open(temporary, "wb")
    return pa.output_stream(str(temporary), compression=compression or None)


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"' if _QUOTED_NAME.fullmatch(name) else name


def _text_ready(column, width: int):
    """A column as text can hold it: dates without needless fractions, durations in days, no blank lines."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    if pa.types.is_duration(kind):
        column = pc.divide(column.cast(pa.int64()).cast(pa.float64(), safe=False), _DAYS[kind.unit])
    elif pa.types.is_timestamp(kind):
        with contextlib.suppress(pa.ArrowInvalid):
            column = column.cast(pa.timestamp("s", kind.tz))
    if width == 1 and column.null_count:
        # A missing cell alone in its row would be a blank line.
        column = pc.fill_null(column.cast(pa.string()), "NA")
    return column
