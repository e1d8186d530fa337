"""The documentation names files, modules and functions that exist."""

import importlib
import re
from pathlib import Path

import numpy as np
import pytest

import tightgp as tgp

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "tightgp"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PARTS = {path.stem for path in SOURCE.iterdir()} - {"__init__", "__main__"}
FILE = re.compile(r"[\w./-]+(\.py|\.md|\.j2|\.css|/)")
NAME = re.compile(r"(\w+(?:\.\w+)+)(\(.*\))?")


def quoted(page: Path) -> set[str]:
    """What stands between single backquotes, outside of code blocks."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    return set(re.findall(r"`([^`\n]+)`", text))


def exists(name: str) -> bool:
    """Whether a dotted name can be imported from tightgp, or is an attribute or a field of something that can."""
    parts, found = name.split("."), tgp
    for i, part in enumerate(parts):
        try:
            found = importlib.import_module(".".join(["tightgp", *parts[: i + 1]]))
        except ImportError:
            if part in getattr(found, "__annotations__", {}):
                return True
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
    return True


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_names_in_the_documentation_exist(page):
    wrong = []
    for code in sorted(quoted(page)):
        if FILE.fullmatch(code):
            if not any((folder / code).exists() for folder in (SOURCE, ROOT, page.parent)):
                wrong.append(code)
        elif match := NAME.fullmatch(code):
            name = match[1].removeprefix("tightgp.").removeprefix("tgp.")
            ours = name != match[1] or name.split(".")[0] in PARTS | set(tgp.__all__)
            if ours and not exists(name):
                wrong.append(code)
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_in_the_documentation_lead_somewhere(page):
    links = re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    assert [link for link in links if link and not (page.parent / link).exists()] == []


def python_of(page: Path) -> list[str]:
    """The blocks of Python on a page."""
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.mark.slow
def test_the_readme_s_python_runs(tmp_path, monkeypatch):
    """All of it, one block after the other, as a reader would paste it."""
    monkeypatch.chdir(tmp_path)
    blocks = python_of(ROOT / "README.md")
    assert len(blocks) >= 2
    names: dict = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    assert (tmp_path / "flats.safetensors").exists()
    assert np.all(np.asarray(names["var"]) > 0)
