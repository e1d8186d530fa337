"""From the report's content to one HTML page that needs nothing else."""

import base64
import hashlib
import json
import re
from dataclasses import asdict
from importlib import resources
from pathlib import Path

from markupsafe import Markup

from tightgp.app.report import charts, numbers, verdicts, words
from tightgp.app.report.content import Content
from tightgp.app.report.remedies import remedies
from tightgp.io.files import atomic_write

#: Characters that HTML cannot hold, and those that would reorder the text around them.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]")


def render(content: Content) -> str:
    """The page. It loads nothing, and all text from the data is escaped.

    Its one script is that of the "what if" panel, if there is one; the page's own rules allow this script and no other.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("tightgp.app.report", ""),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shortened"] = numbers.shortened
    environment.globals.update(remedies=remedies, charts=charts, n=numbers, v=verdicts, w=words)
    script = (
        "" if content.panel is None else resources.files("tightgp.app.report").joinpath("panel.js").read_text("utf-8")
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    data = "" if content.panel is None else json.dumps(asdict(content.panel), separators=(",", ":"))
    page = environment.get_template("page.html.j2").render(
        c=content, script=Markup(script), digest=digest, panel_data=data
    )
    return _FORBIDDEN.sub("\ufffd", page)


def write(content: Content, path: str | Path) -> Path:
    """Write the page to ``path``; an error leaves what was there."""
    path, page = Path(path), render(content)
    with atomic_write(path) as temporary:
        temporary.write_text(page, encoding="utf-8")
    return path
