"""SVG as text: elements whose attributes and texts are escaped."""

from collections.abc import Iterable

from markupsafe import Markup, escape


def element(name: str, *children: str, **attributes) -> Markup:
    """An SVG element. Texts are escaped and numbers rounded; underscores in attributes become hyphens.

    >>> element("text", "a < b", x=1.234567, class_="title")
    Markup('<text x="1.23" class="title">a &lt; b</text>')
    """
    written = "".join(f' {_attribute_name(key)}="{escape(_rounded(value))}"' for key, value in attributes.items())
    return Markup(f"<{name}{written}>") + Markup("").join(children) + Markup(f"</{name}>")


def text(x: float, y: float, words: str, anchor: str = "start", **attributes) -> Markup:
    """Words at a place."""
    return element("text", words, x=x, y=y, text_anchor=anchor, **attributes)


def polyline(points: Iterable[tuple[float, float]]) -> str:
    """The ``d`` attribute of a path through points.

    >>> polyline([(0, 1), (2.5, 3)])
    'M0 1L2.5 3'
    """
    return "M" + "L".join(f"{_rounded(x)} {_rounded(y)}" for x, y in points)


def shortened(text: str, most: int) -> str:
    """The text on one line, cut to at most ``most`` characters with an ellipsis.

    >>> shortened("a long name", 7)
    'a long…'
    """
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _attribute_name(key: str) -> str:
    return key if key == "viewBox" else key.rstrip("_").replace("_", "-")


def _rounded(value) -> str:
    if not isinstance(value, int | float):
        return str(value)
    return f"{value:.2f}".rstrip("0").rstrip(".")
