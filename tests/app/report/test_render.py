"""The page without a browser: complete, well formed, escaped, and without references to other files."""

import base64
import hashlib
import itertools
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.app.report import problems
from tightgp.app.report import content as parts
from tightgp.app.report import render, write

SECTIONS = ("accuracy", "calibration", "inputs", "what-if", "evidence", "training", "worst", "use", "fitted")


def body(page):
    """The page's body as a tree, without its script; parsing fails unless it is well formed."""
    page = re.sub(r"<script>.*?</script>", "", page, flags=re.DOTALL)
    return ElementTree.fromstring(page[page.index("<body>") : page.index("</body>") + len("</body>")])


def text_of(tree):
    return " ".join(" ".join(tree.itertext()).split())


def test_sections(contents):
    for kind, content in contents.items():
        found = [section.get("id") for section in body(render(content)).iter("section")]
        assert found == [s for s in SECTIONS if content.heldout or s not in ("calibration", "what-if", "worst")], kind


def test_headings_are_in_order(content):
    levels = [int(e.tag[1]) for e in body(render(content)).iter() if e.tag in ("h1", "h2", "h3")]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels))


def test_charts_are_described(content):
    tree = body(render(content))
    charts = [e for e in tree.iter("svg") if e.get("class") == "chart"]
    assert len(charts) >= 4
    assert all(e.get("role") == "img" for e in charts)
    assert all(e.get("aria-label") for e in charts if e.get("data-chart") is None), "the script names its own chart"
    others = [e for e in tree.iter("svg") if e.get("class") in ("cell-bar", "swatch")]
    assert all(e.get("aria-hidden") == "true" for e in others)


def test_the_page_runs_and_loads_nothing(content):
    page = render(content)
    tree = body(page)
    scripts = re.findall(r"<script>(.*?)</script>", page, flags=re.DOTALL)
    allowed = re.findall(r"script-src 'sha256-([^']+)'", page)
    assert allowed == [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() for text in scripts]
    assert len(scripts) == (content.panel is not None)
    tags = {e.tag for e in tree.iter()}
    assert not tags & {
        "img",
        "link",
        "iframe",
        "object",
        "embed",
        "image",
        "use",
        "a",
        "form",
        "foreignObject",
    }
    attributes = {name for e in tree.iter() for name in e.attrib}
    assert not {name for name in attributes if name.startswith("on") or name.endswith(("src", "href"))}
    head = page[: page.index("<body>")]
    assert not re.search(r"url\(|@import|<link|<script|https?:", head)
    assert "default-src 'none'" in head
    assert "http:" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https:" not in page


@pytest.mark.parametrize("kind", ["regression", "counts", "binary", "classes"])
def test_text_from_data_is_escaped(contents, kind):
    page = render(contents[kind])
    text = text_of(body(page))
    assert problems.SCRIPT in text
    assert problems.SOURCE in text
    assert page.count("<script") == 1
    assert "<img" not in page
    assert "<b>more" not in page


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(min_size=1, max_size=30))
def test_any_name_makes_a_page(contents, name):
    content = contents["classes"]
    subject = replace(content.subject, target=name, source=name, encoding=(name,), training=name, parameters=name)
    subject = replace(subject, columns=(parts.Column(name, "number"),), settings=((name, name),))
    relevance = ((name, 1.0), (name, 0.5))
    slices = tuple(
        replace(s, column=name, curves=tuple(replace(c, label=name) for c in s.curves)) for s in content.slices
    )
    labels = replace(content.heldout.classes, labels=(name,) * 5, most_frequent=name)
    worst = replace(content.heldout.worst, columns=(name,) * 3)
    held = replace(content.heldout, classes=labels, worst=worst)
    content = replace(content, subject=subject, relevance=relevance, slices=slices, heldout=held, notes=(name,))
    page = render(content)
    body(page)
    page.encode("utf-8")


def test_styles_for_dark_screens_phones_and_paper(content):
    page = render(content)
    assert "@media (prefers-color-scheme: dark)" in page
    assert "@media print" in page
    assert 'name="viewport" content="width=device-width' in page
    used = set(re.findall(r"var\(--([a-z]+)\)", page)) - {"share"}
    for block in re.findall(r":root \{(.*?)\}", page, flags=re.DOTALL):
        assert used <= set(re.findall(r"--([a-z]+):", block)), "a colour is missing in one of the schemes"


def test_all_marks_have_a_style(contents):
    for content in contents.values():
        page = render(content)
        style = page[page.index("<style>") : page.index("</style>")]
        for element in body(page).iter("svg"):
            for mark in element.iter():
                if mark.tag in ("path", "circle", "rect") and mark.get("class"):
                    first = mark.get("class").split()[0]
                    assert re.search(rf"\.{re.escape(first)}[ .,{{]", style), first


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    high, low = sorted([luminance(one), luminance(other)], reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_contrast_in_every_scheme(contents):
    blocks = re.findall(r":root \{(.*?)\}", render(contents["binary"]), flags=re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        colour = dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6})", block))
        assert min(contrast(colour[name], colour["paper"]) for name in ("ink", "soft")) >= 4.5
        marks = ("accent", "second", "third", "fourth", "chance")
        assert min(contrast(colour[name], colour["paper"]) for name in marks) >= 3


def test_the_page_shows_the_numbers(contents):
    content = contents["regression"]
    text = text_of(body(render(content)))
    rmse = content.heldout.score("RMSE")
    assert f"{rmse.model:.1f}" in text
    assert "300 fitted, 200 held out (40 %)" in text
    assert "64 inducing points are enough" in text
    assert "A note." in text
    assert "noise_variance 0.1" in text
    assert "district (category, 4 levels)" in text
    assert "ticks inside the axis mark the training rows. All charts have the same scale." in text
    assert str(content.heldout.worst.rows[0].row) in text


def test_the_lead(contents):
    (lead,) = (e for e in body(render(contents["regression"])).iter("p") if e.get("class") == "lead")
    assert "".join(lead.itertext()) == (
        f"A sparse Gaussian process with 64 inducing points, fitted to 300 rows of {problems.SOURCE} with 5 input "
        "columns in 3.2\u202fs; 200 other rows were held out to test it."
    )


def test_the_page_without_held_out_rows(contents):
    text = text_of(body(render(contents["no held-out rows"])))
    assert "No rows were held out" in text
    assert "held out to test it" not in text
    assert "RMSE" not in text


def test_write_makes_one_file(contents, tmp_path):
    path = write(contents["counts"], tmp_path / "new" / "report.html")
    assert path.read_text(encoding="utf-8") == render(contents["counts"])
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]


def test_characters_that_html_cannot_hold_are_replaced(contents, tmp_path):
    content = contents["regression"]
    broken = replace(content, subject=replace(content.subject, source="caf\udce9.csv", target="\x00\u202eprice"))
    page = write(broken, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "caf\ufffd.csv" in text_of(body(page))


def test_the_page_without_optional_content(contents):
    content = contents["regression"]
    bare = replace(
        content,
        relevance=(),
        slices=(),
        fixed=(),
        scales=None,
        noise_sd=None,
        notes=(),
        evidence=parts.Evidence(300, None, None),
        training=replace(content.training, traces=()),
        heldout=replace(content.heldout, calibration=(), pit=(), points=()),
    )
    text = text_of(body(render(bare)))
    assert "no lengthscales" in text
    assert "Unclear whether enough" in text
