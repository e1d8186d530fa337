"""Writing: CSV, plain or compressed, or Parquet. The file is complete, or not there at all."""

import contextlib
import lzma
import re
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from tightgp.app.tables.errors import TableError, TableFileError, quoted, reason
from tightgp.app.tables.reading import TEXT, format_of
from tightgp.io.files import atomic_write

#: Column names that a reader would misread unless they are quoted.
_QUOTED_NAME = re.compile(r'.*[",;|\t\r\n].*|\s*[-+.,\d].*|\s.*|.*\s|', re.DOTALL)
#: Texts that a spreadsheet takes for formulas, unless they are numbers.
_FORMULA, _NUMBER = r"^[=@\t\r]|^[-+].", r"^[-+]([0-9]+([.,][0-9]*)?|[.,][0-9]+)([eE][-+]?[0-9]+)?$"
_UNITS_A_DAY = {"s": 86_400.0, "ms": 86_400e3, "us": 86_400e6, "ns": 86_400e9}
_ARROW_COMPRESSION = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", "": None}


def check_writable(path) -> None:
    """Refuse a path that `write_table` could not write: a folder, or an unknown suffix."""
    path = Path(path)
    suffix, compression = format_of(path)
    if path.is_dir():
        raise TableError(path, "is a folder; name a file in it")
    if suffix not in (*TEXT, ".parquet") or (compression and suffix == ".parquet"):
        raise TableError(path, "cannot be written; use the suffix .csv, .tsv or .txt (also with .gz, ...), or .parquet")


def write_table(frame: pd.DataFrame, path, formulas: bool = True) -> None:
    """Write a pandas DataFrame, without its index, in the format of the suffix: CSV (.tsv and .txt with tabs), Parquet.

    Numbers are written so that they read back exactly. In text, durations are days, and texts that look like
    numbers, dates or missing cells read back as these. A spreadsheet runs texts that begin with ``=``, ``+``, ``-`` or
    ``@`` as formulas: with ``formulas=False`` these get an apostrophe before them, in text files, unless they are
    numbers.
    """
    check_writable(path)
    path = Path(path)
    suffix, compression = format_of(path)
    table = _to_arrow(frame, path)
    try:
        # A failed pq.write_table removes the path that it was given, whatever it is; a stream it leaves alone.
        with atomic_write(path) as temporary, _open(temporary, compression) as file:
            if suffix == ".parquet":
                import pyarrow.parquet as pq

                pq.write_table(table, file)
            else:
                table = table if formulas else _without_formulas(table)
                _write_text(table, file, "," if suffix == ".csv" else "\t")
    except OSError as error:
        raise TableFileError(path, f"cannot be written: {reason(error)}") from None
    # Arrow raises these for what a format cannot hold.
    except (ValueError, NotImplementedError) as error:
        raise TableError(path, f"cannot be written: {reason(error)}") from None


def _to_arrow(frame: pd.DataFrame, path: Path) -> pa.Table:
    columns = {}
    for i, name in enumerate(map(str, frame.columns)):
        if name in columns:
            raise TableError(path, f"two columns are called {quoted(name)}; rename one before the table is written")
        try:
            columns[name] = pa.Array.from_pandas(frame.iloc[:, i])
            if pa.types.is_nested(columns[name].type):
                raise TypeError("its cells are lists or records")
        except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
            raise TableError(path, f"column {quoted(name)} cannot be written: {reason(error)}") from None
    return pa.table(columns)


def _open(temporary: Path, compression: str):
    """A stream to a temporary file, whose name has no suffix to tell the compression by."""
    if compression == ".xz":
        return lzma.open(temporary, "wb")
    return pa.output_stream(str(temporary), compression=_ARROW_COMPRESSION[compression])


def _write_text(table, file, delimiter: str) -> None:
    names = [name.replace('"', '""') for name in table.column_names]
    names = [f'"{name}"' if _QUOTED_NAME.fullmatch(name) else name for name in names]
    file.write(f"{delimiter.join(names)}\n".encode())
    table = pa.table([_as_text(column, table.num_columns) for column in table.columns], table.column_names)
    csv.write_csv(table, file, csv.WriteOptions(include_header=False, delimiter=delimiter))


def _without_formulas(table):
    """The table with an apostrophe before the names and texts that a spreadsheet would run."""
    columns = []
    for column in table.columns:
        column = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            matches = pc.and_not(pc.match_substring_regex(column, _FORMULA), pc.match_substring_regex(column, _NUMBER))
            apostrophe, nothing = pa.scalar("'", column.type), pa.scalar("", column.type)
            marked = pc.binary_join_element_wise(apostrophe, column, nothing)
            column = pc.if_else(pc.fill_null(matches, False), marked, column)
        columns.append(column)
    return pa.table(columns, [f"'{name}" if re.search(_FORMULA, name) else name for name in table.column_names])


def _as_text(column, num_columns: int):
    """A column as text can hold it: dates without needless fractions, durations in days, no blank lines."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    if pa.types.is_duration(kind):
        column = pc.divide(column.cast(pa.int64()).cast(pa.float64(), safe=False), _UNITS_A_DAY[kind.unit])
    elif pa.types.is_timestamp(kind):
        with contextlib.suppress(pa.ArrowInvalid):
            column = column.cast(pa.timestamp("s", kind.tz))
    if num_columns == 1 and column.null_count:
        column = pc.fill_null(column.cast(pa.string()), "NA")  # an empty cell alone in its row would be a blank line
    return column
