"""Docstrings made ready for Markdown, as mkdocstrings reads them."""

import re
from typing import Any

import griffe


class Docstrings(griffe.Extension):
    """Docstrings as Markdown: examples in fences, and "maths 2.1" as a link to the formula."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        if not obj.is_alias and obj.docstring is not None:
            obj.docstring.value = ready(obj.docstring.value)


def ready(text: str) -> str:
    """A docstring whose examples are fenced and whose formulas are linked."""
    text = re.sub(r"(?m)(?:^>>> .*\n?)(?:^(?!\s*$).*\n?)*", lambda m: f"```pycon\n{m[0].rstrip()}\n```\n", text)
    return re.sub(r"\bmaths (?=§?\d)((?:(?:, |,? and )?§?\d+(?:\.\d+[a-z]?)?)+)", _formulas, text)


def _formulas(match: re.Match) -> str:
    linked = re.sub(r"§?(\d+(?:\.\d+[a-z]?)?)", lambda m: f"[{m[0]}](../maths.md#{m[1]})", match[1])
    return f"maths {linked}"
