"""Tables of text for the terminal."""

import re
from collections.abc import Iterable
from typing import Literal

from rich import box
from rich.table import Table

#: Characters that a terminal obeys instead of showing, and those that turn the order of a line around.
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """``text`` with a replacement character for each one that a terminal would obey; names in tables may hold any.

    >>> from tightgp.app.printing import printable
    >>> printable("red: \\x1b[31m") == "red: \\ufffd[31m"
    True
    """
    return _COMMANDS.sub("\ufffd", text)


def text_table(columns: Iterable[str], rows: Iterable[Iterable[str]], title: str = "", wrap: str = "") -> Table:
    """A table whose first column is aligned left and the others right.

    Args:
        columns: the header.
        rows: the cells of each row.
        title: printed above the table.
        wrap: the column that holds sentences, aligned left and wrapped.

    >>> from rich import print
    >>> from tightgp.app.printing import text_table
    >>> print(text_table(["bound", "nats"], [["standard", "-31.20"], ["diagonal", "-30.05"]]))
    <BLANKLINE>
     bound       nats
     ────────────────
     standard  -31.20
     diagonal  -30.05
    <BLANKLINE>
    """
    title = printable(title)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False, title=title or None, title_justify="left")
    for i, column in enumerate(columns):
        justify: Literal["left", "right"] = "left" if i == 0 or column == wrap else "right"
        table.add_column(printable(column), justify=justify, no_wrap=column != wrap)
    for row in rows:
        table.add_row(*map(printable, row))
    return table
