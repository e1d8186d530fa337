"""How commands fail: one line and an exit code."""

import errno

import pytest
import typer

from tightgp.app.cli import failures
from tightgp.app.cli.failures import ProcessFailed, describe, exit_with_code
from tightgp.app.tables.errors import TableError, TableFileError
from tightgp.numerics.linalg import NumericalError


@pytest.mark.parametrize(
    ("error", "message", "code"),
    [
        (ValueError("wrong"), "wrong", 2),
        (TableError("t.csv", "is empty"), "t.csv: is empty", 2),
        (TableFileError("t.csv", "cannot be read"), "t.csv: cannot be read", 4),
        (FileNotFoundError(errno.ENOENT, "No such file", "a.csv"), "a.csv: No such file", 4),
        (NumericalError("no factor"), "no factor", 3),
        (MemoryError(), f"out of memory; {failures._REMEDY}", 3),
        (
            MemoryError("Unable to allocate 3.20 GiB for an array"),
            f"out of memory: 3.20 GiB could not be allocated; {failures._REMEDY}",
            3,
        ),
        (RuntimeError("can't start new thread"), f"out of memory; {failures._REMEDY}", 3),
        (ProcessFailed("process 1: wrong", 2), "process 1: wrong", 2),
        (KeyboardInterrupt(), "interrupted", 130),
        (KeyError("a"), "KeyError: 'a'", 1),
    ],
)
def test_each_kind_of_failure_has_its_exit_code(error, message, code):
    assert describe(error) == (message, code)


def raising(error):
    @exit_with_code
    def command():
        raise error

    return command


def test_a_failure_is_one_line(capsys, monkeypatch):
    monkeypatch.delenv("TIGHTGP_TRACEBACK", raising=False)
    with pytest.raises(typer.Exit) as caught:
        raising(ValueError("two\nlines"))()
    assert caught.value.exit_code == 2
    assert capsys.readouterr().err == "error: two lines\n"


def test_defects_and_asked_for_failures_keep_their_traceback(monkeypatch):
    monkeypatch.delenv("TIGHTGP_TRACEBACK", raising=False)
    with pytest.raises(KeyError):
        raising(KeyError("a"))()
    monkeypatch.setenv("TIGHTGP_TRACEBACK", "1")
    with pytest.raises(ValueError, match="wrong"):
        raising(ValueError("wrong"))()


def test_the_value_of_a_command_is_its_exit_code():
    assert exit_with_code(lambda: 0)() is None
    with pytest.raises(typer.Exit) as caught:
        exit_with_code(lambda: 130)()
    assert caught.value.exit_code == 130
