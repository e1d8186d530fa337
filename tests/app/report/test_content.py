import json

import pytest

from tightgp.app.report import Content, render
from tightgp.app.report.content import VERSION, Classes, Curve, Evidence, Heldout, PathStep, Slice, Trace, Worst


def test_json_there_and_back(content):
    text = content.to_json()
    assert Content.from_json(text) == content
    assert text.isascii()
    assert "scalar" not in text, "all values are plain"
    assert render(Content.from_json(text)) == render(content)


def part(value, path):
    """The part of encoded content at ``path``: field names and positions."""
    for key in path:
        value = value["items"][key] if isinstance(key, int) else value["fields"][key]
    return value


@pytest.mark.parametrize(
    ("path", "change", "words"),
    [
        ([], lambda c: c["fields"].pop("task"), "does not have the fields"),
        ([], lambda c: c["fields"].update(more=1), "does not have the fields"),
        ([], lambda c: c["fields"].update(task="ranking"), "task must be one of"),
        ([], lambda c: c.update({"class": "app.Ranking"}), "app.Ranking"),
        (["training"], lambda c: c["fields"].update(seconds="long"), r"training\.seconds"),
        (["training"], lambda c: c["fields"].update(num_steps=2.5), r"training\.num_steps"),
        (["training"], lambda c: c["fields"].update(num_steps=True), r"training\.num_steps"),
        (["training"], lambda c: c["fields"].update(seconds=None), r"training\.seconds"),
        (["training"], lambda c: c["fields"].update(seconds=10**400), "numbers must be finite"),
        (["training"], lambda c: c["fields"].update(seconds=float("inf")), "numbers must be finite"),
        (["training", "traces", 0, "values"], lambda c: c["items"].pop(), "a value for each step"),
        (["heldout"], lambda c: c["fields"].update(scores={}), r"heldout\.scores"),
        (["heldout", "points", 0], lambda c: c["items"].pop(), r"heldout\.points"),
        (["slices", 0, "curves", 0, "low"], lambda c: c["items"].pop(), "a value for each of its points"),
    ],
)
def test_mistakes_are_named(contents, path, change, words):
    stored = json.loads(contents["regression"].to_json())
    change(part(stored["content"], path))
    with pytest.raises(ValueError, match=rf"^file cannot be read.*{words}"):
        Content.from_json(json.dumps(stored), "file")


def test_content_of_another_version_is_refused(contents):
    stored = json.loads(contents["regression"].to_json())
    with pytest.raises(ValueError, match=f'there is no "version": {VERSION}'):
        Content.from_json(json.dumps({**stored, "version": 99}))
    trace = part(stored["content"], ["training", "traces", 0])
    with pytest.raises(ValueError, match="must be a Content, got Trace"):
        Content.from_json(json.dumps({**stored, "content": trace}))


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"version": NaN}', "[" * 100_000, '"version"'])
def test_text_that_is_no_content_is_refused(text):
    with pytest.raises(ValueError, match="the report's content"):
        Content.from_json(text)


def paths(value, path=()):
    """The paths to all values in a JSON tree; of arrays only to the first."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, inner in items:
        yield from paths(inner, (*path, key))


@pytest.mark.parametrize("new", [None, 0, -1.5, [], "x"])
def test_damage_is_refused_or_harmless(contents, new):
    """Any one value replaced by another gives a ValueError, or a content that still renders."""
    text = contents["no held-out rows"].to_json()
    refused = 0
    for path in list(paths(json.loads(text)))[1:]:
        value = inner = json.loads(text)
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = new
        try:
            content = Content.from_json(json.dumps(value))
        except ValueError:
            refused += 1
            continue
        assert "<!doctype html>" in render(content), path
    assert refused > 20


NO_ROWS = Worst(None, True, (), ())


@pytest.mark.parametrize(
    "make",
    [
        lambda: Evidence(10, -3.0, None),
        lambda: Evidence(0, None, None),
        lambda: PathStep(0, -3.0, None, None),
        lambda: Slice("a", "number", (), None),
        lambda: Slice("a", "category", (Curve("", (1.0,)),), None, labels=("x", "y")),
        lambda: Trace("objective", (1.0,), ()),
        lambda: Trace("objective", (), ()),
        lambda: Heldout(0, (), NO_ROWS),
        lambda: Heldout(5, (), NO_ROWS),
        lambda: Classes(("a", "b"), ((1, 2),), "a", None, (), 0.5, 0.5, 0.1),
    ],
)
def test_content_that_no_page_can_show_is_refused(make):
    with pytest.raises(ValueError, match=r"must|need"):
        make()
