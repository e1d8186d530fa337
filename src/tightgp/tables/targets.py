"""The column to predict: found by what the user calls it, and checked."""

import difflib
from typing import Any

import numpy as np

from tightgp.tables.errors import TableError, file_row, shown


def row_number(frame, position) -> Any:
    """The row of the file, as a spreadsheet shows it, of a place (or an array of them) in what `read_table` gave.

    The header is row 1, blank lines count, and so do the rows before a share.
    """
    position = np.asarray(position) + frame.attrs.get("first", 0)
    return file_row(position, frame.attrs.get("header", True), frame.attrs.get("blank", ()))


def target_column(frame, target: str) -> Any:
    """The column that the user means: its name, its name but for spaces around it, or its number from 0 (-1: last)."""
    names = {str(name): name for name in frame.columns}
    target = str(target)
    if target in names:
        return names[target]
    stripped = [name for text, name in names.items() if text.strip() == target.strip()]
    if len(stripped) == 1:
        return stripped[0]
    columns = list(names.values())
    try:
        return columns[int(target)]
    except (ValueError, IndexError):
        pass
    listed = ", ".join(map(repr, list(names)[:20])) + (", ..." if len(names) > 20 else "")
    folded = {text.strip().casefold(): text for text in reversed(names)}
    close = difflib.get_close_matches(target.strip().casefold(), folded, 1, 0.6)
    hint = f"; did you mean {folded[close[0]]!r}?" if close else ""
    raise TableError(None, f"target {target!r} is no column; there are {listed}{hint}")


def check_target(frame, name, path) -> Any:
    """The column of targets, refused where a cell is missing or infinite, or where all are the same."""
    column = frame[name]
    where = f"target {shown(str(name))}"
    if len(frame) < 2:
        raise TableError(path, f"has {len(frame)} row(s); training needs two at least")
    missing = column.isna().to_numpy(bool)
    if missing.any():
        raise TableError(
            path,
            f"row {row_number(frame, int(np.argmax(missing)))}: {where} is missing there and in {missing.sum()} of "
            f"{len(frame)} rows in all; remove these rows or fill them in",
        )
    if column.dtype.kind == "f":
        infinite = np.isinf(column.to_numpy(np.float64))
        if infinite.any():
            row = row_number(frame, int(np.argmax(infinite)))
            raise TableError(path, f"row {row}: {where} is infinite; remove the row or write a finite number")
    if column.nunique() == 1:
        raise TableError(path, f"{where} is {shown(str(column.iloc[0]))} in every row, so there is nothing to learn")
    return column
