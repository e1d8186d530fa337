"""Formulas of docs/maths.md and the code that computes them, linked both ways."""

import importlib
import re
from functools import cache
from typing import Any

_TAG = re.compile(r"\\tag\{([\d.a-z]+)\}")
_DISPLAY = re.compile(r"(?ms)^\$\$.*?\$\$$")
_QUOTED = re.compile(r"(?<!`)`([A-Za-z_][\w.]*\.[\w.]+)`(?!`)")
_HEADING = re.compile(r"^(#+) ((\d+(?:\.\d+)?)\.? .*)$")
_PARAGRAPH = re.compile(r"(?m)^\*\*(?P<tag>\d+\.\d+[a-z]?)\. ")
_NUMBER = re.compile(r"\((\d+\.\d+[a-z]?)\)")


@cache
def _found(name: str) -> tuple[str, Any] | None:
    """The full name of what a quoted name of docs/maths.md means, if it is a function or class of tightgp."""
    parts = name.removeprefix("tightgp.").split(".")
    for prefix in ("tightgp", "tightgp.models", "tightgp.bounds.structures"):
        for split in range(len(parts), -1, -1):
            module = ".".join([prefix, *parts[:split]])
            try:
                value: Any = importlib.import_module(module)
            except ImportError:
                continue
            rest = parts[split:]
            try:
                for part in rest:
                    value = getattr(value, part)
            except AttributeError:
                break
            home = getattr(value, "__module__", None)
            if rest and isinstance(home, str) and home.startswith("tightgp") and hasattr(value, "__qualname__"):
                return f"{home}.{value.__qualname__}", value
            break
    return None


def linked(markdown: str) -> str:
    """The page with an anchor at each formula and each heading's number, and links to the code and between formulas."""
    numbered = set(_TAG.findall(markdown))
    markdown = _PARAGRAPH.sub(lambda m: (m["tag"] not in numbered) * f'<span id="{m["tag"]}"></span>' + m[0], markdown)
    anchors = numbered | set(_PARAGRAPH.findall(markdown)) | set(re.findall(r'<span id="([\d.a-z]+)">', markdown))

    def anchored(match: re.Match) -> str:
        return "".join(f'<span id="{tag}"></span>' for tag in _TAG.findall(match[0])) + f"\n\n{match[0]}\n"

    def code(match: re.Match) -> str:
        found = _found(match[1])
        return f"[`{match[1]}`](reference/formulas.md#{found[0]})" if found else match[0]

    def formula(match: re.Match) -> str:
        return f"[({match[1]})](#{match[1]})" if match[1] in anchors else match[0]

    parts, end = [], 0
    for match in _DISPLAY.finditer(markdown):
        parts += [_NUMBER.sub(formula, _QUOTED.sub(code, markdown[end : match.start()])), anchored(match)]
        end = match.end()
    parts.append(_NUMBER.sub(formula, _QUOTED.sub(code, markdown[end:])))
    lines = "".join(parts).splitlines()
    for i, line in enumerate(lines):
        if (match := _HEADING.match(line)) and match[3] not in anchors:
            lines[i] = f"{line} {{ #{match[3]} }}"
    return "\n".join(lines)


def cited(markdown: str) -> dict[str, list[str]]:
    """For each function that the page names, the formulas or sections it is named after, in order."""
    places: dict[str, list[str]] = {}
    current = ""
    for line in re.split(r"\n(?=\n|#)|(?<=\$\$)\n", markdown):
        if heading := _HEADING.match(line.strip().splitlines()[0] if line.strip() else ""):
            current = heading[3]
        if tags := _TAG.findall(line) or _PARAGRAPH.findall(line):
            current = tags[-1]
        for name in _QUOTED.findall(line):
            found = _found(name)
            if found and current and current not in places.setdefault(found[0], []):
                places[found[0]].append(current)
    return {name: where for name, where in places.items() if where}


def page(markdown: str) -> str:
    """The page of the code of the formulas: every function that docs/maths.md names, with its source."""
    intro = (
        "# The code of the formulas\n\n"
        "Each function that [the maths](../maths.md) names, with its source and the formulas where it is named. "
        "Most are internal: what is meant for users has its own pages.\n"
    )
    found = cited(markdown)
    packages: dict[str, list[str]] = {}
    for name in found:
        packages.setdefault(name.split(".")[1], []).append(name)
    parts = [intro]
    for package, names in packages.items():
        parts.append(f"## {package}\n")
        for name in sorted(names):
            formulas = ", ".join(f"[{where}](../maths.md#{where})" for where in found[name])
            parts.append(
                f"::: {name}\n    options:\n      show_source: true\n      members: false\n      heading_level: 3\n"
                f"      show_root_full_path: true\n\nFormulas: {formulas}\n"
            )
    return "\n".join(parts)
