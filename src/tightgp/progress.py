"""The progress bar of training, downloads, reading tables, and predictions."""

import sys
from typing import Any, BinaryIO

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class ProgressBar:
    """A bar on standard error if that is a terminal or a notebook, and nothing elsewhere.

    Args:
        total: number of steps.
        enabled: False shows nothing.
        title: what is being done.
        state: shown beside the bar until the first `update`.
        in_bytes: whether steps are bytes, to be shown as MB or GB.

    >>> from tightgp.progress import ProgressBar
    >>> with ProgressBar(10, enabled=False, title="training") as bar:
    ...     bar.update(3, "objective -41.2")
    """

    def __init__(self, total: int, enabled: bool, title: str, state: str = "", in_bytes: bool = False):
        console = Console(file=sys.stderr)
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            DownloadColumn() if in_bytes else MofNCompleteColumn(),
            TextColumn("{task.fields[state]}", markup=False),
            TimeElapsedColumn(),
            console=console,
            disable=not (enabled and (console.is_terminal or console.is_jupyter)),
            transient=True,
        )
        self._task = self._bar.add_task(title, total=total, state=state)

    def __enter__(self):
        self._bar.start()
        return self

    def __exit__(self, *_):
        self._bar.stop()

    def update(self, completed: float, state: str | None = None) -> None:
        """Show how many steps are done, and a new state unless it is None."""
        fields: dict[str, Any] = {} if state is None else {"state": state}
        self._bar.update(self._task, completed=completed, **fields)

    def wrap_file(self, file: Any) -> BinaryIO:
        """A file that moves the bar as it is read."""
        return self._bar.wrap_file(file, task_id=self._task)
