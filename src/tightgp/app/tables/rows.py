"""Which rows of a file a frame holds, and their numbers as a spreadsheet shows them.

``frame.attrs`` remembers what the numbers depend on: whether there is a ``header``, which rows are ``blank`` lines, and
the position of the ``first`` row of a share.
"""

from typing import Any

import numpy as np


def share_of(count: int, share: tuple[int, int]) -> slice:
    """The i-th of n parts of ``count`` rows for ``share = (i, n)``, cut as by ``numpy.array_split``.

    >>> from tightgp.app.tables.rows import share_of
    >>> [share_of(5, (i, 2)) for i in range(2)]
    [slice(0, 3, None), slice(3, 5, None)]
    """
    index, parts = share
    if not 0 <= index < parts:
        raise ValueError(f"share must be (i, n) with 0 <= i < n, got ({index}, {parts})")
    size, larger = divmod(count, parts)
    start, stop = (i * size + min(i, larger) for i in (index, index + 1))
    return slice(start, stop)


def row_number(frame, position) -> Any:
    """The row of the file at a position, or an array of positions, in what `read_table` returned.

    Rows are counted as in a spreadsheet: the header is row 1, and blank lines count.
    """
    position = np.asarray(position) + frame.attrs.get("first", 0)
    return file_row(position, frame.attrs.get("header", True), frame.attrs.get("blank", ()))


def file_row(position, header: bool, blank) -> Any:
    """The row of the file for a position among its rows of data; ``blank`` lists the rows that are blank lines."""
    row = np.asarray(position) + (2 if header else 1)
    # Blank line k, counted from 0, shifts the rows that reach it once the k blank lines before it are counted.
    row = row + np.searchsorted(np.asarray(blank, int) - np.arange(len(blank)), row, side="right")
    return row if row.ndim else int(row)
