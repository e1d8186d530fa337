"""What builds the site: blocks that run, guides in two columns, formulas and code, links."""

import pytest

from website import equations, links, migration, pages, reference

PAGE = """# A page

```python title="tightgp" same="mean" within="1e-6"
mean = 1
```

```sh
not run
```

- in a list

    ```bash exit=2
    false
    ```
"""


def test_the_blocks_of_a_page_and_which_of_them_run():
    found = pages.blocks(PAGE)
    assert [(block.language, block.runs) for block in found] == [("python", True), ("sh", False), ("bash", True)]
    assert found[0].options == {"title": "tightgp", "same": "mean", "within": "1e-6"}
    assert (found[2].code, found[2].options) == ("false\n", {"exit": "2"})
    assert PAGE[found[1].start : found[1].end] == "```sh\nnot run\n```"


def test_every_page_with_code_has_a_name_of_its_own():
    found = pages.with_blocks()
    assert len({pages.key_of(page) for page in found}) == len(found) > 15
    assert pages.ROOT / "README.md" in found


def test_every_public_name_has_a_place_in_the_reference():
    found = reference.pages()
    assert "::: tightgp.export" in found["reference/files.md"]
    nav = (pages.ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert [name for name in found if f": {name}\n" not in nav] == []


def test_every_page_has_a_place_in_the_navigation():
    nav = (pages.ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    names = [page.relative_to(pages.DOCS) for page in pages.DOCS.rglob("*.md")]
    shown = [name for name in names if name.parts[0] not in ("reproduction", "reliability", "upstream")]
    assert [str(name) for name in shown if f"{name}\n" not in nav] == []


@pytest.mark.parametrize("guide", sorted((pages.DOCS / "how-to").glob("from-*.md")), ids=lambda path: path.stem)
def test_guides_show_the_same_task_twice(guide):
    found = migration.pairs(guide)
    assert len(found) >= 2
    for theirs, ours in found:
        assert theirs.options["title"] != "tightgp"
        assert ours.options["same"]
        assert float(ours.options["within"]) > 0
    shown = migration.side_by_side(guide.read_text(encoding="utf-8"), f"how-to/{guide.name}")
    assert shown.count('<div class="columns"') == shown.count("</div>") == len(found)


def test_formulas_and_the_functions_that_compute_them_are_linked_both_ways():
    text = "## 2. The bound\n\n$$F = 1 . \\tag{2.1}$$\n→ `bounds.collapsed.lower_bound`, by (2.1).\n"
    shown = equations.linked(text)
    assert '<span id="2.1"></span>' in shown
    assert "[(2.1)](#2.1)" in shown
    assert "reference/formulas.md#tightgp.bounds.collapsed.lower_bound" in shown
    assert equations.cited(text) == {"tightgp.bounds.collapsed.lower_bound": ["2.1"]}
    assert "[2.1](../maths.md#2.1)" in equations.page(text)


def test_the_maths_names_code_for_most_of_its_formulas():
    text = (pages.DOCS / "maths.md").read_text(encoding="utf-8")
    named = {formula for formulas in equations.cited(text).values() for formula in formulas}
    tags = set(equations._TAG.findall(text))
    assert len(tags) > 60
    assert len(tags & named) > 0.6 * len(tags)


def test_broken_links_and_things_from_the_network_are_found(tmp_path):
    (tmp_path / "a.html").write_text('<h1 id="top">A</h1><a href="b.html#there">b</a><a href="c.html">c</a>')
    (tmp_path / "b.html").write_text('<a href="a.html#top">a</a><script src="https://example.org/x.js"></script>')
    assert sorted(links.problems(tmp_path)) == [
        "a.html links to b.html#there, which has no such place",
        "a.html links to c.html, which does not exist",
        "b.html loads https://example.org/x.js from the network",
    ]
