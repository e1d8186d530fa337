"""The errors of tables, and how they quote files and libraries."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NO_ROWS = "has column names but no rows; it needs at least one row of data"


class TableError(ValueError):
    """A table that cannot be used: one line that names the file and, where known, row and column."""

    def __init__(self, path: Path | str | None, problem: str):
        # Libraries quote the file's own lines; whatever they hold, the message is one line of printable text.
        words = " ".join((problem if path is None else f"{path}: {problem}").split())
        super().__init__("".join(c if c.isprintable() else "\ufffd" for c in words))


class TableFileError(TableError):
    """A file that the operating system could not read or write."""


def reason(error: BaseException) -> str:
    """The message of an operating system, a library or a decoder, shortened."""
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    message = " ".join(str(error).split()) or type(error).__name__
    return message if len(message) <= 200 else message[:200] + "..."


@contextmanager
def refuse_broken(path: Path | str, problem: str) -> Iterator[None]:
    """Raise a `TableError` for whatever a library raises; none documents what a broken file can make it raise."""
    try:
        yield
    except (MemoryError, TableError):
        raise
    except Exception as error:
        if "worker thread" in str(error):
            raise MemoryError("no memory for another thread") from None
        raise TableError(path, f"{problem}: {reason(error)}") from None


def quoted(cell: str) -> str:
    """A cell of a file in quotes, shortened."""
    return repr(cell if len(cell) <= 40 else cell[:40] + "...")
