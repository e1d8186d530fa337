"""``tightgp datasets``: which there are, where they are, what they hold."""

from typing import Any

from rich import box
from rich.table import Table

from tightgp import datasets
from tightgp.cli.terminal import Terminal


def listed(terminal: Terminal) -> None:
    """A table of all data sets."""
    table = Table(box=box.SIMPLE_HEAD)
    for column, side in (("name", "left"), ("rows", "right"), ("inputs", "right"), ("here", "left"), ("about", "left")):
        table.add_column(column, justify=side, no_wrap=column != "about")  # type: ignore[arg-type]
    rows = [_described(name) for name in datasets.names()]
    for row in rows:
        here = "yes" if row["path"] else ("to fetch" if row["downloads"] else "by hand")
        table.add_row(row["name"], f"{row['rows']:,}", str(row["inputs"]), here, row["about"])
    terminal.show(table)
    terminal.result({"datasets": rows})


def _described(name: str) -> dict[str, Any]:
    source, path = datasets.describe(name), datasets.locate(name)
    return {
        "name": name,
        "rows": source.rows,
        "inputs": len(source.inputs),
        "about": source.about,
        "path": None if path is None else str(path),
        "downloads": source.downloads,
    }


def fetch(names: list[str], terminal: Terminal) -> None:
    """Download what is not here yet."""
    for name in names:
        datasets.describe(name)
    found = {}
    for name in names:
        found[name] = str(datasets.fetch(name, progress=not terminal.quiet))
        terminal.show(f"{name}: {found[name]}")
    terminal.result({"paths": found})


def show(name: str, terminal: Terminal) -> None:
    """Where a data set comes from and, where it is here, what its columns look like."""
    source, path = datasets.describe(name), datasets.locate(name)
    terminal.show(str(source))
    if path is None:
        terminal.show("It is not here yet: tightgp datasets fetch " + name if source.downloads else "It is not here.")
        terminal.result(_described(name))
        return
    with terminal.busy(f"reading {path}"):
        loaded = datasets.load(name)
    table = Table(box=box.SIMPLE_HEAD)
    for column in ("column", "least", "mean", "largest"):
        table.add_column(column, justify="left" if column == "column" else "right")
    columns = [(name, loaded.X[:, i]) for i, name in enumerate(loaded.columns)] + [
        (f"{loaded.target} (target)", loaded.y)
    ]
    for column, values in columns:
        table.add_row(column, f"{values.min():.4g}", f"{values.mean():.4g}", f"{values.max():.4g}")
    terminal.show(f"here: {path}", table)
    numbers = {n: {"least": float(v.min()), "mean": float(v.mean()), "largest": float(v.max())} for n, v in columns}
    terminal.result({**_described(name), "columns": numbers})
