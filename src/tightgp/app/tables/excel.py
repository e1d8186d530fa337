"""Sheets of Excel workbooks as tables."""

from pathlib import Path

import pandas as pd

from tightgp.app.tables.columns import MISSING, check_names
from tightgp.app.tables.errors import TableError, quoted, refuse_broken
from tightgp.app.tables.limits import UNPACKED_GB, check_archive, check_unpacked
from tightgp.app.tables.rows import share_of

#: What a cell takes in memory at least.
_CELL_BYTES = 8


def read_excel(
    path: Path, share: tuple[int, int], part: str | None = None, max_unpacked: float = UNPACKED_GB
) -> pd.DataFrame:
    """The frame of a sheet, the first by default: its first row has the names. Formulas give their last results."""
    try:
        import openpyxl
    except ImportError:
        raise TableError(path, "needs openpyxl: run `pip install 'tightgp[excel]'`, or save the sheet as CSV") from None
    with refuse_broken(path, "is not a complete Excel workbook"):
        check_archive(path, max_unpacked)
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            if part is not None and part not in book.sheetnames:
                raise TableError(path, f"has no sheet {part!r}; its sheets are {', '.join(book.sheetnames[:20])}")
            cells, size = [], 0
            for row in book[part or book.sheetnames[0]].iter_rows(values_only=True):
                cells.append(list(row))
                # A cell far to the right or far down makes all before it.
                size += _CELL_BYTES * len(row)
                check_unpacked(path, size, max_unpacked)
        finally:
            book.close()
    blank = tuple(i for i, row in enumerate(cells, 1) if not _filled(row))
    rows = [row for row in cells if _filled(row)]
    if not rows:
        raise TableError(path, f"sheet {part or 'one'} is empty; it needs a row of column names, and rows")
    width = max(i + 1 for row in rows for i, cell in enumerate(row) if cell is not None)
    names = ["" if name is None else str(name) for name in rows[0][:width]]
    if len(names) > 1 and not names[0].strip():
        names[0] = "unnamed"
    check_names(path, names)
    frame = pd.DataFrame([[_cell(cell) for cell in row[:width]] for row in rows[1:]], columns=names).infer_objects()
    for name in frame:
        kinds = {type(cell) for cell in frame[name].dropna()} if frame[name].dtype == object else set()
        if str in kinds and len(kinds) > 1:
            frame[name] = frame[name].map(str, na_action="ignore")
        elif len(kinds) > 1:
            problem = f"column {quoted(str(name))} mixes {' and '.join(sorted(kind.__name__ for kind in kinds))}"
            raise TableError(path, f"{problem}; make all of its cells one kind")
    chosen = share_of(len(frame), share)
    frame = frame.iloc[chosen].reset_index(drop=True)
    frame.attrs.update(header=True, first=chosen.start, blank=blank)
    return frame


def _filled(row) -> bool:
    return any(cell is not None and cell != "" for cell in row)


def _cell(cell):
    """A cell; words for a missing one, and Excel's errors, are missing."""
    if isinstance(cell, str) and (
        cell.strip() in MISSING or cell in ("#DIV/0!", "#VALUE!", "#REF!", "#NUM!", "#NAME?")
    ):
        return None
    return cell
