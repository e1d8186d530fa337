"""Check every link and every asset of the built site: each leads somewhere, and nothing is loaded from the network.

python -m website.links site
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Attributes by which a page loads something, rather than link to it.
_LOADS = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src"), ("video", "src")}


class Page(HTMLParser):
    """The anchors, links and assets of one page."""

    def __init__(self, text: str):
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors |= {values[name] for name in ("id", "name") if values.get(name)}
        for name, value in attrs:
            if value and (tag, name) in _LOADS and values.get("rel") not in ("canonical", "next", "prev"):
                self.loads.append(value)
            elif value and tag == "a" and name == "href":
                self.links.append(value)


def problems(site: Path) -> list[str]:
    """A line for each link that leads nowhere and for each thing loaded from the network."""
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site)
        found += [f"{name} loads {url} from the network" for url in page.loads if urlsplit(url).netloc]
        for url in [*page.links, *page.loads]:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc or name.name == "404.html":
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target = target / "index.html"
            if not target.exists():
                found.append(f"{name} links to {url}, which does not exist")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{name} links to {url}, which has no such place")
    for style in site.rglob("*.css"):
        if "url(http" in (text := style.read_text(encoding="utf-8")) or "@import" in text:
            found.append(f"{style.relative_to(site)} loads something from the network")
    return found


def main() -> None:
    """Print the problems of a site; exit with 1 if there are any."""
    site = Path(sys.argv[1] if len(sys.argv) > 1 else "site").resolve()
    found = sorted(set(problems(site)))
    print("\n".join(found) or f"{len(list(site.rglob('*.html')))} pages, every link leads somewhere")
    if found:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
