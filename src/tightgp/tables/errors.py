"""The one error of tables."""

import os
from pathlib import Path
from typing import Any

import numpy as np


class TableError(ValueError):
    """A table that cannot be read, used or written: one line that names the file and, where known, row and column."""

    def __init__(self, path: Path | str | None, said: str):
        # Libraries quote the file's own lines; whatever they hold, the message is one line of printable text.
        words = " ".join((said if path is None else f"{path}: {said}").split())
        super().__init__("".join(c if c.isprintable() else "\ufffd" for c in words))


def reason(error: BaseException) -> str:
    """What an operating system, a library or a decoder says went wrong, in few words."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    said = " ".join(str(error).split()) or type(error).__name__
    return said if len(said) <= 200 else said[:200] + "..."


def shown(cell: str) -> str:
    """A cell of a file in quotes, shortened."""
    return repr(cell if len(cell) <= 40 else cell[:40] + "...")


def file_row(position, header: bool, blank) -> Any:
    """The rows of a text file, from 1, of rows of data; ``blank`` are the rows, in order, that are blank lines."""
    row = np.asarray(position) + (2 if header else 1)
    # The k-th blank line, from 0, moves those rows that have reached it when the k before it are counted.
    row = row + np.searchsorted(np.asarray(blank, int) - np.arange(len(blank)), row, side="right")
    return row if row.ndim else int(row)
