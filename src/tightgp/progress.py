"""The progress of training, downloads, reading tables, and predictions: a bar in a terminal, lines elsewhere."""

import sys
import time
from typing import Any, BinaryIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

#: Seconds before the first line, and between lines, where standard error is no terminal.
LINE_SECONDS = 5.0


class ProgressBar:
    """A bar on standard error if that is a terminal or a notebook; elsewhere a line every few seconds.

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
        self._console = console = Console(file=sys.stderr)
        live = console.is_terminal or console.is_jupyter
        self._lines = enabled and not live
        self._total, self._title, self._state, self._in_bytes = total, title, state, in_bytes
        self._began = self._told = time.monotonic()
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            DownloadColumn() if in_bytes else MofNCompleteColumn(),
            TextColumn("{task.fields[state]}", markup=False),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not (enabled and live),
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
        self._state = self._state if state is None else state
        now = time.monotonic()
        if self._lines and now - self._told >= LINE_SECONDS:
            self._told = now
            self._console.print(self._line(completed, now - self._began), markup=False, highlight=False, soft_wrap=True)

    def wrap_file(self, file: Any) -> BinaryIO:
        """A file that moves the bar as it is read."""
        return self._bar.wrap_file(file, task_id=self._task)

    def _line(self, completed: float, seconds: float) -> str:
        """Steps done, state, time taken, and at most how much is left if it goes on like this."""
        done = f"{completed / 1e6:.1f}/{self._total / 1e6:.1f} MB" if self._in_bytes else f"{completed:g}/{self._total}"
        left = f", at most {_time(seconds * (self._total - completed) / completed)} left" if completed > 0 else ""
        state = f", {self._state}" if self._state else ""
        return f"{self._title}: {done}{state}, {_time(seconds)}{left}"


def _time(seconds: float) -> str:
    """Minutes and seconds.

    >>> from tightgp import progress
    >>> progress._time(75)
    '1:15'
    """
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"
