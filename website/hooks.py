"""What MkDocs calls while it builds the site: outputs beside code, pages made from the program, links that hold."""

import json
import posixpath
import re
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

from website import command_line, equations, errors, migration, reference
from website.pages import DOCS, RESULTS, ROOT, blocks, key_of

#: Pages that the repository keeps elsewhere, and where the site has them.
ELSEWHERE = {"contributing.md": "CONTRIBUTING.md", "changelog.md": "CHANGELOG.md"}
_LINK = re.compile(r"(!?\[[^\]]*\])\(([^)\s#]+)(#[^)]*)?\)")
_MATHS = "maths.md"


def on_files(files: Files, config: Any) -> Files:
    """Add the pages that are made, the figures of examples, and MathJax."""
    pages = {
        **{name: (ROOT / source).read_text(encoding="utf-8") for name, source in ELSEWHERE.items()},
        **reference.pages(),
        "reference/command-line.md": command_line.page(),
        "reference/formulas.md": equations.page((DOCS / _MATHS).read_text(encoding="utf-8")),
        "troubleshooting.md": errors.page((DOCS / "troubleshooting.md").read_text(encoding="utf-8")),
    }
    for name, text in pages.items():
        if name in files.src_uris:
            files.remove(files.src_uris[name])
        files.append(File.generated(config, name, content=text))
    for figure in RESULTS.glob("*.png"):
        files.append(File.generated(config, f"examples/{figure.name}", abs_src_path=str(figure)))
    return files


def on_post_build(config: Any) -> None:
    """Put MathJax beside the pages: one file, which needs no fonts and no network."""
    found = find_spec("sphinx-mathjax-offline")
    if found is None or found.submodule_search_locations is None:
        raise SystemExit("the package sphinx-mathjax-offline is missing: make docs installs it")
    source = Path(found.submodule_search_locations[0]) / "static" / "mathjax" / "tex-svg.js"
    target = Path(config.site_dir) / "assets" / "mathjax" / "tex-svg.js"
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Outputs after their blocks, links between formulas and code, and links that leave docs/."""
    name = page.file.src_uri
    if name == _MATHS:
        markdown = equations.linked(markdown)
    if name.startswith("how-to/from-"):
        markdown = migration.side_by_side(markdown, name)
    else:
        markdown = _with_outputs(markdown, name)
    markdown = _with_math(markdown)
    return _LINK.sub(lambda match: _link(match, name, config, files), markdown)


def _link(match: re.Match, page: str, config: Any, files: Files) -> str:
    """A link within the site as it is; one to another file of the repository to where that is hosted."""
    text, target, anchor = match[1], match[2], match[3] or ""
    if re.match(r"[a-z]+:", target):
        return match[0]
    home = posixpath.dirname(f"docs/{page}") if page not in ELSEWHERE else ""
    path = posixpath.normpath(posixpath.join(home, target))
    inside = posixpath.relpath(path, "docs")
    if path in ELSEWHERE.values():
        inside = next(name for name, source in ELSEWHERE.items() if source == path)
    elif path == "README.md":
        inside = "index.md"
    if (file := files.src_uris.get(inside)) is not None and file.inclusion.is_included():
        return f"{text}({posixpath.relpath(inside, posixpath.dirname(page) or '.')}{anchor})"
    if not (ROOT / path).exists():
        return match[0]  # strict mode says that it leads nowhere
    kind = "tree" if (ROOT / path).is_dir() else "blob"
    return f"{text}({config.repo_url}/{kind}/main/{path}{anchor})"


def _with_outputs(markdown: str, name: str) -> str:
    """What each block printed and drew, after it. The page without its front matter has the same blocks."""
    page = DOCS / name
    found = blocks(markdown)
    if not page.exists() or not any(block.runs for block in found):
        return markdown
    stored = RESULTS / f"{key_of(page)}.json"
    if not stored.exists():
        raise SystemExit(f"{name} has code that has not run: python -m website.examples")
    result = json.loads(stored.read_text(encoding="utf-8"))
    here = "../" * name.count("/")
    parts, end = [], 0
    for block, output in zip(found, result["outputs"], strict=True):
        parts.append(markdown[end : block.start])
        if "hide" not in block.options:
            title = f' title="{block.options["title"]}"' if "title" in block.options else ""
            parts.append(_fence(block.language + title, block.code, block.indent))
        if output["text"].strip() and "quiet" not in block.options:
            parts.append("\n\n" + _fence("{ .text .output }", output["text"].rstrip() + "\n", block.indent))
        for figure in output["figures"]:
            parts.append(f"\n\n{block.indent}![{block.options['figure']}]({here}examples/{figure})")
        end = block.end
    tail = markdown[end:]
    if name.startswith("tutorials/"):
        tail += f"\n\n*The code of this page ran while the page was built, in {result['cpu']:.0f} s of CPU time.*\n"
    return "".join(parts) + tail


def _fence(info: str, code: str, indent: str) -> str:
    lines = [f"```{info}", *code.rstrip("\n").splitlines(), "```"]
    return "\n".join(indent + line if line else line for line in lines)


def _with_math(markdown: str) -> str:
    """Display formulas as blocks of their own, which is where Markdown looks for them."""
    return re.sub(r"(?m)^(\$\$.*?\$\$)$", r"\n\1\n", markdown, flags=re.DOTALL)
