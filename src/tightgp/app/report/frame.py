"""SVG: the frame of a chart, which is its plot area with axes and titles, and the marks drawn in it.

Texts and attributes are escaped. The page sets the colours.
"""

from collections.abc import Iterable, Sequence

from markupsafe import Markup, escape

from tightgp.app.report.axes import Axis
from tightgp.app.report.numbers import shortened

WIDTH, HEIGHT = 340.0, 236.0
_TOP, _RIGHT, _BOTTOM = 28.0, 12.0, 38.0
_LETTER_WIDTH = 6.3


class Frame:
    """A plot area. Marks are placed by values of the axes."""

    def __init__(self, x: Axis, y: Axis, x_title: str, y_title: str, height: float = HEIGHT):
        self.x, self.y, self.height = x, y, height
        self.left = max(30.0, 10.0 + _LETTER_WIDTH * max(map(len, y.labels), default=0))
        self.right, self.top, self.bottom = WIDTH - _RIGHT, _TOP, height - _BOTTOM
        self.at_x, self.at_y = x.scale(self.left, self.right), y.scale(self.bottom, self.top)
        self._x_title, self._y_title = f"{x_title} {x.factor}".strip(), f"{y_title} {y.factor}".strip()
        self._clipped: list[Markup] = []
        self._above: list[Markup] = []

    def draw(self, description: str) -> Markup:
        """The chart as an image, with a description for readers who cannot see it."""
        marks = element("g", *self._clipped, transform=f"translate({-self.left:.2f} {-self.top:.2f})")
        size = {"width": self.right - self.left, "height": self.bottom - self.top}
        plot_area = element("svg", marks, x=self.left, y=self.top, **size, overflow="hidden")
        parts, box = (self._grid(), plot_area, *self._above, self._texts()), f"0 0 {WIDTH:g} {self.height:g}"
        return element("svg", *parts, viewBox=box, role="img", aria_label=description, class_="chart")

    def line(self, xs: Sequence[float], ys: Sequence[float], style: str = "line") -> None:
        """A line through points."""
        self._clipped.append(element("path", d=self._path(xs, ys), class_=style))

    def band(self, xs: Sequence[float], low: Sequence[float], high: Sequence[float], style: str = "band") -> None:
        """The area between two lines."""
        outline = self._path([*xs, *reversed(xs)], [*high, *reversed(low)])
        self._clipped.append(element("path", d=f"{outline}Z", class_=style))

    def bar(self, low: float, high: float, value: float, tooltip: str) -> None:
        """A bar from zero to ``value`` between ``low`` and ``high``."""
        left, right, top = self.at_x(low), self.at_x(high), self.at_y(value)
        gap = min(0.6, (right - left) / 8)
        size = {"x": left + gap, "y": top, "width": right - left - 2 * gap, "height": max(0.0, self.bottom - top)}
        self._clipped.append(element("rect", element("title", tooltip), **size, class_="bar"))

    def dots(self, xs: Iterable[float], ys: Iterable[float], radius: float, style: str = "dot") -> None:
        """Equal dots."""
        circles = (element("circle", cx=self.at_x(x), cy=self.at_y(y), r=radius) for x, y in zip(xs, ys, strict=True))
        self._above.append(element("g", *circles, class_=style))

    def point(self, x: float, y: float, tooltip: str, radius: float = 3.4, curve: int = 0) -> None:
        """A point with a tooltip, in the shape that belongs to a curve's number."""
        self._above.append(marker(self.at_x(x), self.at_y(y), curve, tooltip, radius))

    def rug(self, xs: Iterable[float]) -> None:
        """Short strokes on the horizontal axis."""
        strokes = "".join(f"M{self.at_x(x):.2f} {self.bottom:g}v-5" for x in xs)
        self._clipped.append(element("path", d=strokes, class_="rug"))

    def note(self, words: str) -> None:
        """A few words inside the plot area, at the bottom right."""
        self._above.append(text(self.right, self.bottom - 6, words, "end", class_="note"))

    def _path(self, xs: Sequence[float], ys: Sequence[float]) -> str:
        """The ``d`` attribute of a path; browsers draw coordinates such as 1e12 wrongly, so those are moved."""
        places = [(self.at_x(x), min(max(self.at_y(y), -1e4), 1e4)) for x, y in zip(xs, ys, strict=True)]
        return "M" + "L".join(f"{_rounded(x)} {_rounded(y)}" for x, y in places)

    def _grid(self) -> Markup:
        rows = "".join(f"M{self.left:.2f} {self.at_y(t):.2f}H{self.right:g}" for t in self.y.ticks)
        ticks = "".join(f"M{self.at_x(t):.2f} {self.bottom:g}v4" for t in self.x.ticks)
        base = f"M{self.left:.2f} {self.bottom:g}H{self.right:g}"
        return element("g", element("path", d=rows, class_="grid"), element("path", d=base + ticks, class_="axis"))

    def _texts(self) -> Markup:
        middle, below = (self.left + self.right) / 2, self.height - 4
        parts = [text(middle, below, shortened(self._x_title, 50), "middle", class_="title")]
        parts.append(text(0, 12, shortened(self._y_title, 52), class_="title"))
        for tick, label in zip(self.y.ticks, self.y.labels, strict=True):
            parts.append(text(self.left - 6, self.at_y(tick) + 4, label, "end"))
        for tick, label in zip(self.x.ticks, self.x.labels, strict=True):
            half = _LETTER_WIDTH * len(label) / 2
            parts.append(text(min(max(self.at_x(tick), half), WIDTH - half), self.bottom + 16, label, "middle"))
        return element("g", *parts)


def marker(x: float, y: float, curve: int, tooltip: str = "", radius: float = 3.4) -> Markup:
    """The marker of a curve: a circle, square, triangle or diamond, so that colour alone does not tell them apart."""
    title = [element("title", tooltip)] if tooltip else []
    if curve == 0:
        return element("circle", *title, cx=x, cy=y, r=radius, class_="point c0")
    shape = ("m-3 -3h6v6h-6Z", "m0 -4l3.8 6.8h-7.6Z", "m0 -4.2l4.2 4.2l-4.2 4.2l-4.2 -4.2Z")[curve - 1]
    return element("path", *title, d=f"M{x:.2f} {y:.2f}{shape}", class_=f"point c{curve}")


def element(name: str, *children: str, **attributes) -> Markup:
    """An SVG element. Texts are escaped and numbers rounded; underscores in attributes become hyphens.

    >>> element("text", "a < b", x=1.234567, class_="title")
    Markup('<text x="1.23" class="title">a &lt; b</text>')
    """
    names = {key: key.rstrip("_").replace("_", "-") for key in attributes}
    written = "".join(f' {names[key]}="{escape(_rounded(value))}"' for key, value in attributes.items())
    return Markup(f"<{name}{written}>") + Markup("").join(children) + Markup(f"</{name}>")


def text(x: float, y: float, words: str, anchor: str = "start", **attributes) -> Markup:
    """Words at a place."""
    return element("text", words, x=x, y=y, text_anchor=anchor, **attributes)


def _rounded(value) -> str:
    if not isinstance(value, int | float):
        return str(value)
    return f"{value:.2f}".rstrip("0").rstrip(".")
