"""From the report's content to one HTML page that needs nothing else."""

import re
from pathlib import Path

from tightgp.app.report import charts, numbers, verdicts, words
from tightgp.app.report.content import Content
from tightgp.io.files import atomic_write

#: Characters that HTML cannot hold, and those that would reorder the text around them.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]")


def render(content: Content) -> str:
    """The page. It holds no script and loads nothing; all text from the data is escaped."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tightgp.app.report", ""),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shortened"] = numbers.shortened
    environment.globals.update(charts=charts, n=numbers, v=verdicts, w=words)
    return _FORBIDDEN.sub("\ufffd", environment.get_template("page.html.j2").render(c=content))


def write(content: Content, path: str | Path) -> Path:
    """Write the page to ``path``; an error leaves what was there."""
    path, page = Path(path), render(content)
    with atomic_write(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return path
