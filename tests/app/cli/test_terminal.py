"""What commands print, and where."""

import json
import warnings

import pytest

from tightgp.app.cli.terminal import Terminal
from tightgp.app.printing import text_table


def test_results_and_messages_have_their_own_streams(capsys):
    terminal = Terminal()
    terminal.message("reading [a]")
    terminal.print("result [b]")
    terminal.result({"a": 1})
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("result [b]\n", "reading [a]\n")


def test_json_has_null_for_numbers_that_it_cannot_hold(capsys):
    terminal = Terminal(json=True)
    terminal.message("a message")
    terminal.print("a result")
    terminal.result({"a": float("nan"), "b": [1.5, float("inf")], "c": {"d": -float("inf")}})
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"a": None, "b": [1.5, None], "c": {"d": None}}
    assert "NaN" not in printed.out
    assert printed.err == ""


@pytest.mark.parametrize("quiet", [False, True])
def test_each_different_warning_is_printed_once(capsys, quiet):
    terminal = Terminal(quiet=quiet)
    with terminal.warnings_as_notes() as notes:
        for text in ("one", "two", "one"):
            warnings.warn(text, UserWarning, stacklevel=1)
    assert notes == ["one", "two"]
    assert capsys.readouterr().err == ("" if quiet else "Note: one\nNote: two\n")


def test_escapes_in_names_do_not_reach_the_terminal(capsys):
    terminal = Terminal()
    terminal.message("column \x1b[31mred\x1b[0m \x9b2J\x07 \u202eback")
    terminal.print("\x1b]0;title\x07", text_table(["\x1b[5ma", "b"], [["\x1b[31mred", "\u2066x"]], "\x1btitle"))
    said = "".join(capsys.readouterr())
    assert "red" in said
    assert not set(said) & set("\x1b\x9b\x07\u202e\u2066")
