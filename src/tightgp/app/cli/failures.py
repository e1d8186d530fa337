"""How a command fails: one line on standard error, and an exit code for each kind of failure.

Exit codes: 0 done, 1 a defect of tightgp, 2 wrong arguments or input, 3 numerical failure, 4 a file cannot be read or
written, 5 another process was lost, 130 interrupted.
"""

import functools
import os
import re
import sys
from collections.abc import Callable
from typing import Any

import typer

from tightgp.app.printing import printable

DEFECT, WRONG_INPUT, NUMERICAL, NO_FILE, LOST, INTERRUPTED = 1, 2, 3, 4, 5, 130
#: Exit codes of errors whose message is complete, by module and name; the first class that fits counts.
_CODES = {
    ("tightgp.numerics.linalg", "NumericalError"): NUMERICAL,
    ("tightgp.app.tables.errors", "TableFileError"): NO_FILE,
    ("tightgp.datasets", "DatasetError"): NO_FILE,
    ("builtins", "ValueError"): WRONG_INPUT,
}

#: What libraries say instead of raising MemoryError.
_OUT_OF_MEMORY = re.compile(
    r"RESOURCE_EXHAUSTED|bad_alloc|[Oo]ut of memory|[Cc]annot allocate memory|can't start new thread"
    r"|Failed to launch worker thread|failed to map segment"
)
_REMEDY = "use fewer rows or columns, fewer --inducing points, or --method minibatch, or close other programs"


class ProcessFailed(Exception):
    """The failure of one of several processes, with which all of them end."""

    def __init__(self, message: str, code: int):
        super().__init__(message)
        self.code = code


def exit_with_code(command: Callable[..., int | None]) -> Callable[..., None]:
    """A command whose failures are reported, and whose return value is the exit code.

    Defects keep their traceback; so does every failure if the environment variable TIGHTGP_TRACEBACK is set.
    """

    @functools.wraps(command)
    def run(**options):
        try:
            code = command(**options)
        except (Exception, KeyboardInterrupt) as error:
            message, code = describe(error)
            ends_others = isinstance(error, ProcessFailed | KeyboardInterrupt) or _is_lost(error)
            if (code == DEFECT or os.environ.get("TIGHTGP_TRACEBACK")) and not ends_others:
                raise
            if message:
                print("error: " + printable(" ".join(message.split())) + more_about(message), file=sys.stderr)
            distributed = sys.modules.get("tightgp.distributed")
            if distributed and (code == LOST or (code == INTERRUPTED and distributed.is_multiprocess())):
                distributed.exit_now(code)  # JAX would wait for the other processes
        if code:
            raise typer.Exit(code)

    return run


def describe(error: BaseException) -> tuple[str, int]:
    """The message for an error, and the exit code."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", INTERRUPTED
    if isinstance(error, ProcessFailed):
        return str(error), error.code
    if _is_lost(error):
        lost: Any = error
        advice = "" if lost.while_joining else "; start all of them again, with --resume to continue the fit"
        return f"{lost.problem}{advice}", LOST
    if is_out_of_memory(error):
        return f"out of memory{_how_much(error)}; {_REMEDY}", NUMERICAL
    if isinstance(error, OSError):
        named = error.filename and error.strerror
        return f"{error.filename}: {error.strerror}" if named else str(error), NO_FILE
    for (module, name), code in _CODES.items():
        if _is_a(error, module, name):
            return str(error), code
    return f"{type(error).__name__}: {error}", DEFECT


def more_about(message: str) -> str:
    """Where cause and cure of a message are said, in brackets; empty where they are nowhere."""
    from tightgp.app.cli.explaining import name_of

    name = name_of(message)
    return f" (more: tightgp explain {name})" if name else ""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error means that there is too little memory, in the words of whichever library."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError | ImportError | SystemError | OSError)
        and bool(_OUT_OF_MEMORY.search(str(error)))
    )


def _how_much(error: BaseException) -> str:
    """What could not be allocated, if the error says so."""
    found = re.search(r"(\d[\d.,]*)\s?([KMGT]i?B|bytes)\b", str(error))
    if not found:
        return ""
    exact = found[2] == "bytes" and found[1].isdigit()
    size = f"{int(found[1]) / 1e6:,.1f} MB" if exact else f"{found[1]} {found[2]}"
    return f": {size} could not be allocated"


def _is_a(error: BaseException, module: str, name: str) -> bool:
    """Whether an error is of a class of a module; if that has not been imported, nothing can have raised it."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(error, getattr(loaded, name))


def _is_lost(error: BaseException) -> bool:
    return _is_a(error, "tightgp.distributed", "LostProcess")
