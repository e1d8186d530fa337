"""What a person or a script sees: results on standard output, everything else on standard error, failures in a line.

Exit codes: 0 done, 1 a defect of tightgp, 2 wrong arguments or input, 3 numerical failure, 4 a file cannot be read or
written, 5 another process was lost, 130 interrupted.
"""

import functools
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tightgp import distributed

#: JAX's warning of a kept program that another process is just writing; it is compiled then.
UNREADABLE = "Error (reading|writing) persistent compilation cache"
DEFECT, WRONG_INPUT, NUMERICAL, NO_FILE, LOST, INTERRUPTED = 1, 2, 3, 4, 5, 130


class Failed(Exception):
    """A failure of one of several processes, as all of them report it: by one exit code, and a line of the first's."""

    def __init__(self, said: str, code: int):
        super().__init__(said)
        self.code = code


class Terminal:
    """Says things to a person, or nothing where ``quiet``; with ``as_json`` the result alone, as one JSON object."""

    def __init__(self, quiet: bool = False, as_json: bool = False):
        self.as_json = as_json
        self.quiet = quiet or as_json
        self.out = _console(quiet=self.quiet)
        self.err = _console(quiet=self.quiet, stderr=True)

    def say(self, text: str) -> None:
        """A sentence on the way."""
        self.err.print(text, markup=False)

    def show(self, *things) -> None:
        """A part of the result: text, or a table."""
        for thing in things:
            self.out.print(thing, markup=False) if isinstance(thing, str) else self.out.print(thing)

    def result(self, value: dict[str, Any]) -> None:
        """All of the result, for scripts."""
        if self.as_json:
            print(json.dumps(_plain(value), indent=1, allow_nan=False))

    @contextmanager
    def busy(self, doing: str) -> Iterator[None]:
        """Show that something goes on whose length is not known."""
        if self.quiet or not self.err.is_terminal:
            yield
        else:
            with self.err.status(escape(doing)):
                yield

    @contextmanager
    def steps(self, doing: str, total: int) -> Iterator[Callable[[int], None]]:
        """A bar; call what is given with the number done."""
        bar = Progress(
            TextColumn(escape(doing)),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.err,
            disable=self.quiet or not self.err.is_terminal,
            transient=True,
        )
        with bar:
            task = bar.add_task(doing, total=total)
            yield lambda done: bar.update(task, completed=done)

    @contextmanager
    def telling_warnings(self) -> Iterator[list[str]]:
        """What is warned of inside is said once, afterwards, and collected."""
        said: list[str] = []
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("ignore")
            warnings.simplefilter("always", UserWarning)
            warnings.filterwarnings("ignore", UNREADABLE)
            yield said
        for text in dict.fromkeys(str(one.message) for one in caught):
            said.append(text)
            self.say(f"Note: {text}")


def _console(**how) -> Console:
    """Lines are broken between words in a terminal, and not at all in a file."""
    console = Console(highlight=False, **how)
    if not console.is_terminal:
        console.soft_wrap, console.width = True, 200
    return console


def _plain(value):
    """``value`` as strict JSON knows it: what is no number is null."""
    if isinstance(value, dict):
        return {str(key): _plain(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and value not in (float("inf"), float("-inf")):
        return None if value != value else value
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def reported(command: Callable) -> Callable:
    """A command whose failures are one line on standard error and an exit code that means something."""

    @functools.wraps(command)
    def run(*arguments, **options):
        try:
            return command(*arguments, **options)
        except KeyboardInterrupt:
            _say("interrupted")
            if distributed.several():
                distributed.leave(INTERRUPTED)
            raise typer.Exit(INTERRUPTED) from None
        except Exception as error:
            said, code = described(error)
            wanted = code == DEFECT or os.environ.get("TIGHTGP_TRACEBACK")
            if wanted and code != LOST and not isinstance(error, Failed):
                raise
            if said:
                _say(said)
            if code == LOST:
                distributed.leave(code)
            raise typer.Exit(code) from None

    return run


def described(error: Exception) -> tuple[str, int]:
    """What to say of an error, in a line, and the exit code; that of a defect says that nothing is known of it."""
    from jax.errors import JaxRuntimeError

    from tightgp.diagnosis import NumericalError

    if isinstance(error, Failed):
        return str(error), error.code
    if isinstance(error, distributed.LostProcess):
        lost = str(error).split("; ")[0]  # what follows is said to those who call `fit`
        if "could not join" in lost:
            return lost, LOST
        return f"{lost}; start all of them again, with --resume to go on from where training stood", LOST
    if isinstance(error, NumericalError):
        return str(error), NUMERICAL
    if isinstance(error, ValueError):
        return str(error), NO_FILE if isinstance(error.__context__, OSError) else WRONG_INPUT
    if isinstance(error, OSError):
        named = error.filename and error.strerror
        return f"{error.filename}: {error.strerror}" if named else str(error), NO_FILE
    if isinstance(error, MemoryError) or (isinstance(error, JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)):
        return "out of memory; use fewer --inducing points, or --method minibatch", NUMERICAL
    return f"{type(error).__name__}: {error}", DEFECT


def _say(said: str) -> None:
    print("error: " + " ".join(said.split()), file=sys.stderr)
