"""Columns found by what the user calls them, and checks of the column to predict."""

import contextlib
import difflib
from typing import Any

import numpy as np

from tightgp.app.tables.errors import TableError, quoted
from tightgp.app.tables.rows import row_number


def find_column(frame, wanted: str, role: str = "target") -> Any:
    """The column with this name (spaces around it do not matter), or with this number from 0 (-1 is the last).

    Args:
        frame: a pandas DataFrame.
        wanted: name or number of the column.
        role: what the column is for, for the error message.
    """
    names = {str(name): name for name in frame.columns}
    wanted = str(wanted)
    if wanted in names:
        return names[wanted]
    stripped = [name for text, name in names.items() if text.strip() == wanted.strip()]
    if len(stripped) == 1:
        return stripped[0]
    with contextlib.suppress(ValueError, IndexError):
        return list(names.values())[int(wanted)]
    listed = ", ".join(map(repr, list(names)[:20])) + (", ..." if len(names) > 20 else "")
    folded = {text.strip().casefold(): text for text in reversed(names)}
    close = difflib.get_close_matches(wanted.strip().casefold(), folded, 1, 0.6)
    hint = f"; did you mean {folded[close[0]]!r}?" if close else ""
    raise TableError(None, f"{role}: there is no column {wanted!r}; the columns are {listed}{hint}")


def check_target(frame, name, path) -> Any:
    """The column to predict; refused where a cell is missing or infinite, or where all cells are equal.

    Rows may have been dropped from ``frame``: its index holds the positions in what `read_table` returned.
    """
    column = frame[name]
    target = f"target {quoted(str(name))}"
    if len(frame) < 2:
        raise TableError(path, f"has {len(frame)} row(s); training needs at least two")
    missing = column.isna().to_numpy(bool)
    if missing.any():
        row = row_number(frame, frame.index[np.argmax(missing)])
        count = f"{missing.sum()} of {len(frame)} rows"
        advice = "fill them in, or leave these rows out with --drop-missing-target"
        raise TableError(path, f"row {row}: {target} is missing, in all in {count}; {advice}")
    infinite = np.isinf(column.to_numpy(np.float64)) if column.dtype.kind == "f" else missing
    if infinite.any():
        row = row_number(frame, frame.index[np.argmax(infinite)])
        raise TableError(path, f"row {row}: {target} is infinite; remove the row or write a finite number")
    if column.nunique() == 1:
        raise TableError(path, f"{target} is {quoted(str(column.iloc[0]))} in every row: there is nothing to learn")
    return column
