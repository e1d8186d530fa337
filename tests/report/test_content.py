import json

import pytest

from tightgp.report import Content, render
from tightgp.report.content import Evidence, Scales, Slice, Trace
from tightgp.report.scored import Calibration, Histogram, Points


def test_json_there_and_back(content):
    text = content.to_json()
    assert Content.from_json(text) == content
    assert text.isascii()
    assert render(Content.from_json(text)) == render(content)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda c: c.pop("task"), "lacks 'task'"),
        (lambda c: c.update(more=1), "has unknown 'more'"),
        (lambda c: c.update(version=99), "version 99 where 1 is expected"),
        (lambda c: c.update(task="ranking"), "task must be one of"),
        (lambda c: c["training"].update(seconds="long"), r"file\.training\.seconds must be a number, got a string"),
        (lambda c: c["training"].update(num_steps=2.5), r"num_steps must be a whole number, got a number"),
        (lambda c: c["training"].update(num_steps=True), r"num_steps must be a whole number, got a bool"),
        (lambda c: c["training"].update(seconds=None), r"seconds must be a number, got null"),
        (lambda c: c["training"].update(seconds=10**400), "seconds must be a finite number"),
        (lambda c: c["training"]["traces"][0]["values"].pop(), r"traces\[0\]: steps \(60\), values \(59\)"),
        (lambda c: c["heldout"]["calibration"]["pit"]["edges"].pop(), r"pit: edges \(20\)"),
        (lambda c: c["heldout"]["calibration"]["low"].pop(), "must have the same length"),
        (lambda c: c["heldout"]["worst"]["rows"][1]["inputs"].pop(), "must have the same length"),
        (lambda c: c["slices"][0]["curves"][0]["low"].pop(), "must have the same length"),
        (lambda c: c["heldout"].update(scores={}), "scores must be an array, got an object"),
    ],
)
def test_what_is_wrong_is_named(contents, change, words):
    value = json.loads(contents["regression"].to_json())
    change(value)
    with pytest.raises(ValueError, match=words):
        Content.from_json(json.dumps(value), "file")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"version": NaN}', "[" * 100_000, '"version"'])
def test_other_text_is_refused(text):
    with pytest.raises(ValueError, match="the report's content"):
        Content.from_json(text)


def places(value, at=()):
    """The paths to every kind of value in a JSON tree: of arrays the first."""
    yield at
    items = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*at, key))


@pytest.mark.parametrize("new", [None, 0, -1.5, [], "x"])
def test_damage_is_refused_or_harmless(contents, new):
    """Any one value replaced by another gives a ValueError, or a content that still renders."""
    text = contents["no held-out rows"].to_json()
    refused = 0
    for path in list(places(json.loads(text)))[1:]:
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


@pytest.mark.parametrize(
    "make",
    [
        lambda: Histogram((0.0, 1.0), (1, 2)),
        lambda: Histogram((0.0,), ()),
        lambda: Histogram((0.0, 1.0, 0.5), (1, 2)),
        lambda: Points((), (), 1),
        lambda: Evidence(10, -3.0, None),
        lambda: Evidence(0, None, None),
        lambda: Scales(True, (), None, 0.5, 0.1, 0.1),
        lambda: Slice("a", "number", (), (), (), None, ()),
        lambda: Trace("objective", (1.0,), ()),
        lambda: Points((1.0,), (), 1),
        lambda: Calibration((0.5,), (0.5,), (0.4,), (), Histogram((0.0, 1.0), (1,))),
    ],
)
def test_what_no_page_can_show_is_refused(make):
    with pytest.raises(ValueError, match=r"length|one more|must|need"):
        make()
