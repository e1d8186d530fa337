"""Columns of a table in memory: their names, their types, and numbers that a stray cell made text."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from tightgp.app.tables.errors import TableError, quoted

#: Words for a missing cell, in any column.
MISSING = ["", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-NaN", "-nan", "null", "NULL", "None"]
#: Words for a missing cell in a column of numbers.
MISSING_NUMBERS = ["?", "-"]
#: A column of text is meant to be numbers if this share of its cells are.
MOSTLY = 0.9
_NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
_COMMA_NUMBER = _NUMBER.replace(r"\.", ",")
_WHOLE = r"^\s*[-+]?\d+\s*$"
_THOUSANDS = r"^\s*[-+]?[1-9]\d{0,2},\d{3}\s*$"


def check_names(path: Path | str, names: list[str]) -> None:
    """Refuse column names that are empty or occur twice."""
    seen: set[str] = set()
    for i, name in enumerate(names, 1):
        if not name.strip():
            raise TableError(path, f"column {i} of {len(names)} has no name in the header; name it or remove it")
        if name in seen:
            raise TableError(path, f"two columns are called {quoted(name)}, the second is column {i}; rename one")
        seen.add(name)


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """An Arrow table as a pandas frame: dates as times, times of day as durations, decimals as floats."""
    for i, field in enumerate(table.schema):
        kind, casts = field.type, []
        if pa.types.is_decimal(kind):
            casts = [pa.float64()]
        elif pa.types.is_time(kind):
            casts = [pa.int32() if pa.types.is_time32(kind) else pa.int64(), pa.int64(), pa.duration(kind.unit)]
        elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
            casts = [pa.string()]
        for cast in casts:
            table = table.set_column(i, field.name, table.column(i).cast(cast))
    return table.to_pandas(pa.system_memory_pool(), date_as_object=False, ignore_metadata=True)


def parse_numbers(
    path: Path, table: pa.Table, delimiter: str, row_of: Callable[[int], int], strict: bool = True
) -> pa.Table:
    """An Arrow table whose text columns are numbers where only "?" or decimal commas made them text.

    A column in which only a few cells are not numbers is refused: it would become categories silently. Unless
    ``strict``, it stays text. ``row_of`` gives the row of the file for a position in the table.
    """

    def matches(texts, pattern: str) -> np.ndarray:
        return pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False).astype(bool)

    for i, field in enumerate(table.schema):
        if not pa.types.is_string(field.type):
            continue
        column = table.column(i)
        counted = pc.value_counts(column.drop_null())
        texts, counts = counted.field("values"), counted.field("counts").to_numpy()
        missing = pc.is_in(pc.utf8_trim_whitespace(texts), pa.array(MISSING_NUMBERS)).to_numpy(zero_copy_only=False)
        points, commas = (matches(texts, pattern) & ~missing for pattern in (_NUMBER, _COMMA_NUMBER))
        decimal_comma = bool(counts[commas].sum() > counts[points].sum())
        numeric = commas if decimal_comma else points
        num_numeric, num_cells = int(counts[numeric].sum()), int(counts[~missing].sum())
        if not num_numeric or num_numeric < MOSTLY * num_cells:
            continue
        fractions = numeric & ~matches(texts, _WHOLE)
        if decimal_comma and delimiter != ";" and np.all(matches(texts, _THOUSANDS)[fractions]):
            refused, problem = fractions, "may be a decimal or a number of thousands; write numbers as 1234.5"
        else:
            refused = ~numeric & ~missing
            problem = (
                f"is not a number, but {num_numeric} of the column's {num_cells} cells are; write numbers as 1234.5"
            )
            problem += ", leave the cell empty if it is missing, or drop the column if it is categories"
        if np.any(refused) and not strict:
            continue
        if np.any(refused):
            strays = pc.is_in(column, texts.filter(pa.array(refused)))
            first = int(np.argmax(pc.fill_null(strays, False).to_numpy()))
            cell = quoted(column[first].as_py())
            raise TableError(path, f"row {row_of(first)}, column {quoted(field.name)}: {cell} {problem}")
        column = pc.replace_substring_regex(pc.utf8_trim_whitespace(column), r"^\+", "")
        column = pc.if_else(pc.is_in(column, pa.array(MISSING_NUMBERS)), pa.scalar(None, pa.string()), column)
        column = pc.replace_substring(column, ",", ".") if decimal_comma else column
        table = table.set_column(i, field.name, column.cast(pa.float64()))
    return table
