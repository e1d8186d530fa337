"""SVG as text: elements whose attributes and words are escaped, and a type that a template takes as it is."""

import re
from html import escape

#: What HTML and XML cannot hold, and what would reorder the text around it.
_UNFIT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069\ufffe\uffff]")


class Svg(str):
    """Text that is markup already."""

    __slots__ = ()

    def __html__(self) -> str:
        return str(self)


def clean(text: str) -> str:
    """``text`` without characters that no page can hold."""
    return _UNFIT.sub("\ufffd", text)


def shortened(text: str, most: int) -> str:
    """At most so many characters of a text, with an ellipsis where some are left out."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def element(name: str, *children: str, **attributes) -> Svg:
    """One element. Underscores in attributes stand for hyphens, a trailing one for nothing; numbers are rounded.

    Children that are not markup are escaped.
    """
    shown = "".join(f' {_key(key)}="{_value(value)}"' for key, value in attributes.items() if value is not None)
    inner = "".join(child if isinstance(child, Svg) else escape(clean(child)) for child in children)
    return Svg(f"<{name}{shown}>{inner}</{name}>" if inner else f"<{name}{shown}/>")


def group(parts, **attributes) -> Svg:
    """Some elements together."""
    return element("g", *parts, **attributes)


def text(x: float, y: float, words: str, anchor: str = "start", **attributes) -> Svg:
    """Words at a place."""
    return element("text", words, x=x, y=y, text_anchor=anchor, **attributes)


def titled(name: str, tooltip: str, **attributes) -> Svg:
    """An element that says something when pointed at."""
    return element(name, element("title", tooltip), **attributes)


def image(parts, width: float, height: float, label: str) -> Svg:
    """A whole drawing with a description for those who cannot see it."""
    return element("svg", *parts, viewBox=f"0 0 {width:g} {height:g}", role="img", aria_label=label, class_="chart")


def polyline(points) -> str:
    """The ``d`` of a path through points; a gap where a coordinate is None."""
    parts, pen = [], "M"
    for x, y in points:
        if x is None or y is None:
            pen = "M"
            continue
        parts.append(f"{pen}{_round(x)} {_round(y)}")
        pen = "L"
    return "".join(parts)


def _key(key: str) -> str:
    return key.rstrip("_").replace("_", "-") if key != "viewBox" else key


def _value(value) -> str:
    return _round(value) if isinstance(value, int | float) else escape(clean(str(value)))


def _round(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") or "0"
