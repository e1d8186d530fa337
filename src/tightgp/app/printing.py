"""Tables of text for the terminal."""

from collections.abc import Iterable
from typing import Literal

from rich import box
from rich.table import Table


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
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False, title=title or None, title_justify="left")
    for i, column in enumerate(columns):
        justify: Literal["left", "right"] = "left" if i == 0 or column == wrap else "right"
        table.add_column(column, justify=justify, no_wrap=column != wrap)
    for row in rows:
        table.add_row(*row)
    return table
