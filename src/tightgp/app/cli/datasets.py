"""``tightgp datasets``: which there are, where they are, what they hold."""

from typing import Any

from tightgp import datasets
from tightgp.app.cli.terminal import Terminal
from tightgp.app.printing import text_table


def list_all(terminal: Terminal) -> None:
    """List all data sets, and which are on this machine."""
    found = [_describe(name) for name in datasets.names()]
    rows = []
    for one in found:
        here = "yes" if one["path"] else "to fetch" if one["downloads"] else "by hand"
        rows.append((one["name"], f"{one['rows']:,}", str(one["inputs"]), here, one["about"]))
    terminal.print(text_table(("name", "rows", "inputs", "here", "about"), rows, wrap="about"))
    terminal.result({"datasets": found})


def fetch(names: list[str], terminal: Terminal) -> None:
    """Download data sets that are not on this machine."""
    for name in names:
        datasets.describe(name)
    paths = {}
    for name in names:
        paths[name] = str(datasets.fetch(name, progress=not terminal.silent))
        terminal.print(f"{name}: {paths[name]}")
    terminal.result({"paths": paths})


def show(name: str, terminal: Terminal) -> None:
    """Show where a data set comes from and the range of its columns."""
    source, path = datasets.describe(name), datasets.locate(name)
    terminal.print(str(source))
    if path is None:
        terminal.print("It is not on this machine" + (f": tightgp datasets fetch {name}" if source.downloads else "."))
        terminal.result(_describe(name))
        return
    with terminal.spinner(f"reading {path}"):
        data = datasets.load(name)
    ranges = {}
    for column, values in [*zip(data.columns, data.X.T, strict=True), (f"{data.target} (target)", data.y)]:
        ranges[column] = {"least": float(values.min()), "mean": float(values.mean()), "largest": float(values.max())}
    rows = [(column, *(f"{value:.4g}" for value in one.values())) for column, one in ranges.items()]
    terminal.print(f"here: {path}", text_table(("column", "least", "mean", "largest"), rows))
    terminal.result({**_describe(name), "columns": ranges})


def _describe(name: str) -> dict[str, Any]:
    source, path = datasets.describe(name), datasets.locate(name)
    facts = {"name": name, "rows": source.rows, "inputs": len(source.inputs), "about": source.about}
    return {**facts, "path": None if path is None else str(path), "downloads": source.downloads}
