"""Progress is a bar on a terminal, which keeps its state until it is given another; elsewhere lines now and then."""

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


def test_elsewhere_a_line_says_now_and_then_how_far_it_is_and_how_much_is_left(monkeypatch):
    monkeypatch.setattr(progress.time, "monotonic", iter([0.0, 4.0, 60.0, 61.0, 72.0]).__next__)
    text = shown(monkeypatch, False, [(1, "early"), (4, "objective -41.2"), (5, "too soon"), (8,)])
    assert text.splitlines() == [
        "training: 4/10, objective -41.2, 1:00, at most 1:30 left",
        "training: 8/10, too soon, 1:12, at most 0:18 left",
    ]


def test_nothing_is_shown_where_it_is_not_wanted(monkeypatch):
    assert shown(monkeypatch, False, [(3, "half")]).strip() == ""
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    assert shown(monkeypatch, False, [(3, "half")], enabled=False).strip() == ""
    assert shown(monkeypatch, True, [(3, "half")], enabled=False).strip() == ""
