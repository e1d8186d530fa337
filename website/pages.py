"""Fenced code blocks of Markdown pages: which there are, and which of them run.

Blocks marked ``python`` and ``bash`` run when the site is built, page by page, one after the other, in an empty folder.
Others (``sh``, ``py``, ``yaml``, unmarked ones) are only shown: they need another machine, or show output. After the
language may stand ``hide`` (the site leaves the block out), ``title="..."``, ``exit="2"`` (the exit code of a command),
and ``figure="..."``, what a drawing shows.
"""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
#: Where outputs and figures are kept between builds.
RESULTS = ROOT / ".docs"
RUNS = ("python", "bash")
_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<info>[^\n`]*)\n(?P<code>.*?)^(?P=indent)``` *$", flags=re.DOTALL | re.MULTILINE
)


class Block(NamedTuple):
    """A code block: its language, options, code, and where it starts and ends in the page."""

    language: str
    options: dict[str, str]
    code: str
    start: int
    end: int
    indent: str

    @property
    def runs(self) -> bool:
        """Whether the block is executed when the site is built."""
        return self.language in RUNS


def blocks(text: str) -> list[Block]:
    """All fenced blocks of a page, in order."""
    found = []
    for match in _FENCE.finditer(text):
        language, *words = shlex.split(match["info"]) or [""]
        options = dict(word.split("=", 1) if "=" in word else (word, "") for word in words)
        indent = match["indent"]
        code = "".join(line.removeprefix(indent) for line in match["code"].splitlines(keepends=True))
        found.append(Block(language, options, code, match.start(), match.end(), indent))
    return found


def with_blocks() -> list[Path]:
    """The pages of the site and of the repository that have blocks to run, the longest first."""
    pages = [ROOT / "README.md", *DOCS.rglob("*.md")]
    found = {page: sum(block.runs for block in blocks(page.read_text(encoding="utf-8"))) for page in pages}
    return sorted((page for page, count in found.items() if count), key=lambda page: (-found[page], page))


def key_of(page: Path) -> str:
    """A page's name among the results: its path without suffix, with dashes."""
    return str(page.relative_to(ROOT).with_suffix("")).replace("/", "-")
