"""The progress bar shows on a terminal only, and keeps its state until it is given another."""

import io

from rich.console import Console

from tightgp import progress


def shown(monkeypatch, is_terminal, steps, enabled=True):
    """What a bar writes for these updates."""
    text = io.StringIO()
    monkeypatch.setattr(progress, "Console", lambda file: Console(file=text, force_terminal=is_terminal, width=100))
    with progress.ProgressBar(10, enabled, "training", "compiling") as bar:
        for step in steps:
            bar.update(*step)
    return text.getvalue()


def test_a_terminal_shows_title_state_and_steps(monkeypatch):
    text = shown(monkeypatch, True, [])
    assert "training" in text
    assert "compiling" in text
    text = shown(monkeypatch, True, [(3, "objective -41.2"), (3.5,)])
    last = text[text.rindex("training") :]
    assert "objective -41.2" in last
    assert "3/10" in last


def test_nothing_is_shown_elsewhere_or_where_it_is_not_wanted(monkeypatch):
    assert shown(monkeypatch, False, [(3, "half")]).strip() == ""
    assert shown(monkeypatch, True, [(3, "half")], enabled=False).strip() == ""
