"""What a command prints: results on standard output, everything else on standard error."""

import json
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from rich.console import Console
from rich.markup import escape

from tightgp.app.cli.options import option
from tightgp.app.printing import printable


@dataclass
class Terminal:
    """Prints the messages and the result of a command."""

    quiet: Annotated[bool, option("Print errors only.", "--quiet", "-q")] = False
    json: Annotated[bool, option("Print the result as one JSON object, and nothing else.", "--json")] = False

    def __post_init__(self):
        self.silent = self.quiet or self.json
        self._output = _console(quiet=self.silent)
        self._messages = _console(quiet=self.silent, stderr=True)

    def message(self, text: str) -> None:
        """Print a sentence about progress."""
        self._messages.print(printable(text), markup=False)

    def print(self, *parts) -> None:
        """Print parts of the result: texts or tables."""
        for part in parts:
            self._output.print(printable(part), markup=False) if isinstance(part, str) else self._output.print(part)

    def result(self, value: dict[str, Any]) -> None:
        """Print the complete result for scripts, with ``--json``."""
        if self.json:
            # JSON has no NaN and no infinities: they become null.
            print(json.dumps(json.loads(json.dumps(value), parse_constant=lambda _: None), indent=1))

    def spinner(self, text: str) -> AbstractContextManager:
        """Show, in a terminal, that work of unknown length goes on."""
        return self._messages.status(escape(printable(text)))

    @contextmanager
    def warnings_as_notes(self) -> Iterator[list[str]]:
        """Print each different warning once, afterwards, and collect them."""
        from tightgp.estimators.compilation import CACHE_WARNING

        notes: list[str] = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            warnings.filterwarnings("ignore", CACHE_WARNING)
            yield notes
        notes += dict.fromkeys(str(one.message) for one in caught)
        for note in notes:
            self.message(f"Note: {note}")


def _console(**options) -> Console:
    """A console that breaks lines between words in a terminal, and not at all in a file."""
    console = Console(highlight=False, **options)
    if not console.is_terminal:
        console.soft_wrap, console.width = True, 200
    return console
