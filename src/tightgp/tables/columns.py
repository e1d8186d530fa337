"""Columns of a table in memory: their names, their types, and numbers that a stray cell made text."""

from pathlib import Path

import numpy as np

from tightgp.tables.errors import TableError, shown

#: Cells that say nothing, in any column.
MISSING = ["", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan", "-NaN", "-nan", "null", "NULL", "None"]
#: Cells that say nothing among numbers.
MISSING_NUMBERS = ["?", "-"]
#: A column of text in which so many cells are numbers was meant to be numbers.
MOSTLY = 0.9
_NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"
_COMMA = _NUMBER.replace(r"\.", ",")
_WHOLE = r"^\s*[-+]?\d+\s*$"
_THOUSANDS = r"^\s*[-+]?[1-9]\d{0,2},\d{3}\s*$"


def unique(path: Path, names: list[str]) -> list[str]:
    """The names of the columns, refused where one is empty or comes twice."""
    if hollow := [i for i, name in enumerate(names, 1) if not name.strip()]:
        raise TableError(path, f"column {hollow[0]} of {len(names)} has no name in the header; name it or remove it")
    seen: set[str] = set()
    for i, name in enumerate(names, 1):
        if name in seen:
            raise TableError(path, f"two columns are called {shown(name)}, the second is column {i}; rename one")
        seen.add(name)
    return names


def frame_of(table):
    """An Arrow table as a pandas frame: dates as times, times of day as durations, decimals as floats."""
    import pyarrow as pa

    for i, field in enumerate(table.schema):
        column, kind = table.column(i), field.type
        if pa.types.is_decimal(kind):
            table = table.set_column(i, field.name, column.cast(pa.float64()))
        elif pa.types.is_time(kind):
            whole = column.cast(pa.int32() if pa.types.is_time32(kind) else pa.int64()).cast(pa.int64())
            table = table.set_column(i, field.name, whole.cast(pa.duration(kind.unit)))
        elif pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind):
            table = table.set_column(i, field.name, column.cast(pa.string()))
    return table.to_pandas(pa.system_memory_pool(), date_as_object=False, ignore_metadata=True)


def numbers_of_text(path: Path, table, delimiter: str, row):
    """The table with its columns of text turned to numbers where only a "?" or decimal commas made them text.

    A column that is numbers but for a few cells is refused, for it would silently be categories otherwise; ``row``
    says in which row of the file a cell is.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    for i, field in enumerate(table.schema):
        if not pa.types.is_string(field.type):
            continue
        column = table.column(i)
        counted = pc.value_counts(column.drop_null())
        texts, counts = counted.field("values"), counted.field("counts").to_numpy()
        empty = pc.is_in(pc.utf8_trim_whitespace(texts), pa.array(MISSING_NUMBERS)).to_numpy(zero_copy_only=False)
        points, commas = (_matches(texts, pattern) & ~empty for pattern in (_NUMBER, _COMMA))
        comma = bool(np.sum(counts[commas]) > np.sum(counts[points]))
        fine = commas if comma else points
        good, all_cells = int(np.sum(counts[fine])), int(np.sum(counts[~empty]))
        if not good or good < MOSTLY * all_cells:
            continue
        if comma and delimiter != ";" and np.all(_matches(texts, _THOUSANDS)[fine & ~_matches(texts, _WHOLE)]):
            strays, said = fine & ~points, "may be a decimal or a number of thousands; write numbers as 1234.5"
            _refuse(path, field.name, column, texts.filter(pa.array(strays)), row, said)
        if good < all_cells:
            said = f"is no number, but {good} of the column's {all_cells} cells are; write numbers as 1234.5"
            said += ", leave the cell empty if it is missing, or drop the column if it is categories"
            _refuse(path, field.name, column, texts.filter(pa.array(~fine & ~empty)), row, said)
        table = table.set_column(i, field.name, _cast(column, comma))
    return table


def _matches(texts, pattern: str) -> np.ndarray:
    import pyarrow.compute as pc

    return pc.match_substring_regex(texts, pattern).to_numpy(zero_copy_only=False).astype(bool)


def _cast(column, comma: bool):
    import pyarrow as pa
    import pyarrow.compute as pc

    column = pc.replace_substring_regex(pc.utf8_trim_whitespace(column), r"^\+", "")
    column = pc.if_else(pc.is_in(column, pa.array(MISSING_NUMBERS)), pa.scalar(None, pa.string()), column)
    return (pc.replace_substring(column, ",", ".") if comma else column).cast(pa.float64())


def _refuse(path: Path, name: str, column, strays, row, said: str):
    import pyarrow.compute as pc

    at = pc.fill_null(pc.is_in(column, strays), False).to_numpy()
    first = int(np.argmax(at))
    raise TableError(path, f"row {row(first)}, column {shown(name)}: {shown(column[first].as_py())} {said}")
