"""The progress bar, and the end of it."""

import sys

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


class ProgressBar:
    """A bar on standard error where that is a terminal (or a notebook), and nothing elsewhere."""

    def __init__(self, steps: int, enabled: bool, unit: str):
        console = Console(file=sys.stderr)
        visible = enabled and (console.is_terminal or console.is_jupyter)
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            console=console,
            disable=not visible,
            transient=True,
        )
        self._task = self._bar.add_task(unit, total=steps, state="compiling")

    def __enter__(self):
        self._bar.start()
        return self

    def __exit__(self, *_):
        self._bar.stop()

    def update(self, completed: float, state: str) -> None:
        """Show how far it is."""
        self._bar.update(self._task, completed=completed, state=state)
