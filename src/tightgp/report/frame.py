"""The frame of a chart: a plot area with its axes, and the marks that are drawn in it. Colours are the page's."""

from collections.abc import Iterable, Sequence

from tightgp.report.axes import Axis
from tightgp.report.svg import Svg, element, group, image, polyline, shortened, text

WIDTH, HEIGHT = 340.0, 236.0
_TOP, _RIGHT, _BOTTOM = 28.0, 12.0, 38.0
_LETTER = 6.3


class Frame:
    """A plot area of a drawing. Marks take values of the axes, and are cut off where they leave it."""

    def __init__(
        self, x: Axis, y: Axis, x_title: str, y_title: str, *, height: float = HEIGHT, bottom: float = _BOTTOM
    ):
        self.x, self.y, self.height = x, y, height
        self.left = max(30.0, 10.0 + _LETTER * max((len(word) for word in y.words), default=0))
        self.right, self.top, self.bottom = WIDTH - _RIGHT, _TOP, height - bottom
        self.at_x, self.at_y = x.place(self.left, self.right), y.place(self.bottom, self.top)
        self._titles = (f"{x_title} {_bracketed(x.factor)}".strip(), f"{y_title} {_bracketed(y.factor)}".strip())
        self._marks: list[Svg] = []
        self._above: list[Svg] = []

    def draw(self, label: str) -> Svg:
        """The whole chart, described by ``label``."""
        return image([self._grid(), self._plot(), *self._above, self._words()], WIDTH, self.height, label)

    def add(self, mark: Svg, clip: bool = True) -> None:
        """A mark, in the drawing's own places."""
        (self._marks if clip else self._above).append(mark)

    def line(self, xs: Sequence[float], ys: Sequence[float], look: str = "line") -> None:
        """A line through points."""
        path = polyline((self.at_x(x), self._limited(y)) for x, y in zip(xs, ys, strict=True))
        self.add(element("path", d=path, class_=look))

    def band(self, xs: Sequence[float], low: Sequence[float], high: Sequence[float], look: str = "band") -> None:
        """The area between two lines."""
        there = [(self.at_x(x), self._limited(y)) for x, y in zip(xs, high, strict=True)]
        back = [(self.at_x(x), self._limited(y)) for x, y in zip(xs, low, strict=True)]
        self.add(element("path", d=polyline(there + back[::-1]) + "Z", class_=look))

    def dots(self, xs: Iterable[float], ys: Iterable[float], radius: float, look: str = "dot") -> None:
        """Points."""
        circles = (element("circle", cx=self.at_x(x), cy=self.at_y(y), r=radius) for x, y in zip(xs, ys, strict=True))
        self._above.append(group(circles, class_=look))

    def bar(self, low: float, high: float, value: float, tooltip: str, look: str = "bar") -> None:
        """A bar from zero to ``value`` over ``low`` to ``high``, with a hair of room beside it."""
        left, right, top = self.at_x(low), self.at_x(high), self.at_y(value)
        room = min(0.6, (right - left) / 8)
        size = {"x": left + room, "y": top, "width": right - left - 2 * room, "height": max(0.0, self.bottom - top)}
        self.add(element("rect", element("title", tooltip), **size, class_=look))

    def whisker(self, x: float, low: float, high: float, look: str = "whisker") -> None:
        """A vertical line from one value to another."""
        self.add(element("path", d=f"M{self.at_x(x):.2f} {self.at_y(low):.2f}V{self.at_y(high):.2f}", class_=look))

    def rug(self, xs: Iterable[float]) -> None:
        """Short strokes on the axis where data are."""
        strokes = "".join(f"M{self.at_x(x):.2f} {self.bottom:g}v-5" for x in xs)
        self.add(element("path", d=strokes, class_="rug"))

    def note(self, words: str) -> None:
        """A few words inside the plot, at the bottom right."""
        self._above.append(text(self.right, self.bottom - 6, words, "end", class_="note"))

    def _limited(self, y: float) -> float:
        """A place not absurdly far outside: coordinates of 1e12 are drawn wrongly."""
        return min(max(self.at_y(y), -1e4), 1e4)

    def _plot(self) -> Svg:
        width, height = self.right - self.left, self.bottom - self.top
        inside = group(self._marks, transform=f"translate({-self.left:.2f} {-self.top:.2f})")
        place = {"x": self.left, "y": self.top, "width": width, "height": height}
        return element("svg", inside, **place, overflow="hidden")

    def _grid(self) -> Svg:
        rows = "".join(f"M{self.left:.2f} {self.at_y(t):.2f}H{self.right:g}" for t in self.y.ticks)
        ticks = "".join(f"M{self.at_x(t):.2f} {self.bottom:g}v4" for t in self.x.ticks)
        base = f"M{self.left:.2f} {self.bottom:g}H{self.right:g}"
        return group([element("path", d=rows, class_="grid"), element("path", d=base + ticks, class_="axis")])

    def _words(self) -> Svg:
        parts = [
            text(self.left - 6, self.at_y(t) + 4, w, "end") for t, w in zip(self.y.ticks, self.y.words, strict=True)
        ]
        for tick, word in zip(self.x.ticks, self.x.words, strict=True):
            half = _LETTER * len(word) / 2
            place = min(max(self.at_x(tick), half), WIDTH - half)
            parts.append(text(place, self.bottom + 16, word, "middle"))
        below, above = self._titles
        parts.append(
            text((self.left + self.right) / 2, self.height - 4, shortened(below, 50), "middle", class_="title")
        )
        parts.append(text(0, 12, shortened(above, 52), class_="title"))
        return group(parts)


def _bracketed(factor: str) -> str:
    return f"({factor})" if factor else ""
