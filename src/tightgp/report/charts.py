"""The report's charts as inline SVG, one function each, from the report's content."""

import math
from collections.abc import Sequence

from tightgp.report import axes
from tightgp.report.axes import Axis
from tightgp.report.content import PathStep, Slice, Trace
from tightgp.report.frame import HEIGHT, WIDTH, Frame
from tightgp.report.numbers import counted, number, percent
from tightgp.report.scored import Calibration, Histogram, Points, ReliabilityBin
from tightgp.report.svg import Svg, element, group, image, shortened, text, titled

#: A scatter draws no more points than this.
MOST_POINTS = 1500
_SHARES = Axis(0.0, 1.0, (0.0, 0.25, 0.5, 0.75, 1.0), tuple(percent(k / 4, 0) for k in range(5)))


def trace(one: Trace, title: str, step: str) -> Svg:
    """A number followed through training. Far-off first steps are cut, so that the rest can be read."""
    low, high, cut = _main_range(one.values)
    frame = Frame(axes.linear(min(one.steps), max(one.steps), tight=True), axes.padded(low, high), step, title)
    frame.line(one.steps, one.values)
    frame.dots(one.steps[-1:], one.values[-1:], 3)
    if cut:
        frame.note("first steps lie outside")
    return frame.draw(f"{title}: {number(one.values[0], 4)} at first, {number(one.values[-1], 4)} at the end")


def path(steps: Sequence[PathStep]) -> Svg:
    """The bound, and the upper bound where it is known, against the number of inducing points."""
    sizes, bounds = [math.log(step.num_inducing) for step in steps], [step.bound for step in steps]
    uppers = [step.upper for step in steps if step.upper is not None] if upper_in_reach(steps) else []
    y = axes.padded(min(bounds), max([*bounds, *uppers]))
    frame = Frame(axes.logarithmic([step.num_inducing for step in steps]), y, "inducing points", "log evidence, nats")
    if uppers:
        frame.band(sizes, bounds, uppers, "band second")
        frame.line(sizes, uppers, "line second")
    frame.line(sizes, bounds)
    frame.dots(sizes, bounds, 3)
    first, last = steps[0], steps[-1]
    return frame.draw(
        f"Bound on the log evidence: {number(first.bound, 5)} with {first.num_inducing} inducing points, "
        f"{number(last.bound, 5)} with {last.num_inducing}"
    )


def upper_in_reach(steps: Sequence[PathStep]) -> bool:
    """Whether the upper bounds are known, and so near that drawing them does not flatten the lower ones' growth."""
    bounds, uppers = [step.bound for step in steps], [step.upper for step in steps if step.upper is not None]
    return len(uppers) == len(steps) and max(uppers) - min(bounds) <= 4 * (max(bounds) - min(bounds))


def histogram(one: Histogram, x_title: str, label: str, expected: tuple[float, float] | None = None) -> Svg:
    """Counts in bins; ``expected`` is the range of counts that chance alone would give in each."""
    edges, counts = one.edges, one.counts
    most = max(max(counts), math.ceil(expected[1]) if expected else 0, 1)
    x = axes.linear(edges[0], edges[-1], tight=True)
    frame = Frame(x, axes.linear(0, most, 4), x_title, "rows")
    ends = [edges[0], edges[-1]]
    if expected:
        frame.band(ends, [expected[0]] * 2, [expected[1]] * 2, "chance")
    for low, high, count in zip(edges, edges[1:], counts, strict=False):
        frame.bar(low, high, count, f"{number(low)} to {number(high)}: {counted(count, 'row')}")
    for limit in expected or ():
        frame.line(ends, [limit, limit], "guide")
    return frame.draw(label)


def calibration(one: Calibration) -> Svg:
    """Observed against nominal coverage, with the range that chance allows."""
    frame = Frame(_SHARES, _SHARES, "nominal coverage of central intervals", "observed coverage")
    levels, observed = (0.0, *one.levels, 1.0), (0.0, *one.observed, 1.0)
    frame.band(levels, (0.0, *one.low, 1.0), (0.0, *one.high, 1.0), "chance")
    frame.line([0, 1], [0, 1], "guide")
    frame.line(levels, observed)
    for level, share in zip(one.levels, one.observed, strict=True):
        tip = f"{percent(level, 0)} intervals held {percent(share)}"
        frame.add(titled("circle", tip, cx=frame.at_x(level), cy=frame.at_y(share), r=2.6, class_="point"), clip=False)
    gap = max((abs(o - v) for v, o in zip(one.levels, one.observed, strict=True)), default=0.0)
    return frame.draw(f"Observed against nominal coverage; they differ by at most {100 * gap:.1f} percentage points")


def reliability(bins: Sequence[ReliabilityBin]) -> Svg:
    """How often what was said with some probability came true."""
    frame = Frame(_SHARES, _SHARES, "stated probability", "how often it came true")
    frame.line([0, 1], [0, 1], "guide")
    most = max((one.count for one in bins), default=1)
    for one in bins:
        frame.whisker(one.stated, one.low, one.high, "chance-line")
    frame.line([one.stated for one in bins], [one.observed for one in bins])
    for one in bins:
        tip = f"stated {percent(one.stated)}, came true in {percent(one.observed)} of {counted(one.count, 'row')}"
        radius = 2.2 + 4.0 * math.sqrt(one.count / most)
        place = {"cx": frame.at_x(one.stated), "cy": frame.at_y(one.observed), "r": radius}
        frame.add(titled("circle", tip, **place, class_="point"), clip=False)
    return frame.draw("Observed frequency against stated probability, in bins")


def scatter(points: Points, target: str) -> Svg:
    """Observed against predicted, with the line where they are the same."""
    step = math.ceil(len(points.predicted) / MOST_POINTS) or 1
    predicted, observed = points.predicted[::step], points.observed[::step]
    low, high = min(*predicted, *observed), max(*predicted, *observed)
    axis = axes.padded(low, high, 4)
    frame = Frame(axis, axis, f"predicted {target}", f"observed {target}", height=354)
    frame.line([axis.low, axis.high], [axis.low, axis.high], "guide")
    frame.dots(predicted, observed, 1.9, "dots" if len(predicted) > 150 else "dots few")
    return frame.draw(f"Observed against predicted {target}, {counted(len(predicted), 'held-out row')}")


def slices_axis(slices: Sequence[Slice], shares: bool) -> Axis:
    """One vertical axis for all slices, so that their effects compare."""
    if shares:
        return _SHARES
    values = [v for one in slices for curve in one.curves for v in (*curve.mean, *curve.low, *curve.high)]
    return axes.padded(min(values), max(values))


def slice_(one: Slice, y: Axis, y_title: str) -> Svg:
    """Predictions along one input."""
    label = f"{y_title} along {one.column}"
    if one.kind == "category":
        return _levels(one, y, y_title, label)
    x = (axes.time if one.kind == "time" else _tight)(min(one.at), max(one.at))
    frame = Frame(x, y, one.column, y_title)
    for number_, curve in enumerate(one.curves):
        if curve.low:
            frame.band(one.at, curve.low, curve.high)
        frame.line(one.at, curve.mean, _look(number_))
    frame.rug(v for v in one.rug if x.low <= v <= x.high)
    return frame.draw(label)


def bar(share: float) -> Svg:
    """A bar of a length between 0 and 1, for a cell of a table."""
    rect = element("rect", x=0, y=0, width=100 * share, height=10, class_="bar")
    return element("svg", rect, viewBox="0 0 100 10", preserveAspectRatio="none", class_="cell-bar", aria_hidden="true")


def swatch(number_: int) -> Svg:
    """A piece of a line, for a legend."""
    line = element("path", d="M0 5H26", class_=_look(number_))
    return element(
        "svg",
        line,
        _mark(number_, 13, 5),
        viewBox="0 0 26 10",
        width=26,
        height=10,
        class_="swatch",
        aria_hidden="true",
    )


def _levels(one: Slice, y: Axis, y_title: str, label: str) -> Svg:
    """Predictions at each level: words to the left, so that long ones can be read."""
    row, top, bottom = 20.0, 24.0, 38.0
    left = 14.0 + 6.3 * min(16, max(len(shortened(word, 16)) for word in one.labels))
    height = max(top + row * len(one.labels) + bottom, HEIGHT if len(one.labels) > 6 else 0.0)
    row = (height - top - bottom) / len(one.labels)
    place = y.place(left, WIDTH - 16)
    base = height - bottom
    grid = "".join(f"M{place(t):.2f} {top:g}V{base:g}" for t in y.ticks)
    parts = [element("path", d=grid, class_="grid")]
    for i, word in enumerate(one.labels):
        middle = top + row * (i + 0.5)
        parts.append(text(left - 8, middle + 4, shortened(word, 16), "end"))
        for k, curve in enumerate(one.curves):
            level = middle + (k - (len(one.curves) - 1) / 2) * min(3.0, row / 6)
            if curve.low:
                ends = f"M{place(curve.low[i]):.2f} {level:.2f}H{place(curve.high[i]):.2f}"
                parts.append(element("path", d=ends, class_="whisker"))
            tip = f"{word}: {_said(curve.mean[i], y)}"
            tip += f" ({_said(curve.low[i], y)} to {_said(curve.high[i], y)})" if curve.low else ""
            parts.append(_mark(k, place(curve.mean[i]), level, tip))
    for t, word in zip(y.ticks, y.words, strict=True):
        half = 3.2 * len(word)
        parts.append(text(min(place(t), WIDTH - half), base + 16, word, "middle"))
    factor = f" ({y.factor})" if y.factor else ""
    parts.append(text((left + WIDTH - 16) / 2, height - 4, shortened(y_title + factor, 44), "middle", class_="title"))
    parts.append(text(0, 12, shortened(one.column, 52), class_="title"))
    return image([group(parts)], WIDTH, height, label)


def _mark(number_: int, x: float, y: float, tip: str = "") -> Svg:
    """A point of one of several curves: a disc, a square, a triangle or a diamond, so that colour is not all."""
    title = [element("title", tip)] if tip else []
    look = f"point c{number_}"
    if number_ == 0:
        return element("circle", *title, cx=x, cy=y, r=3.4, class_=look)
    shapes = {1: "m-3 -3h6v6h-6Z", 2: "m0 -4l3.8 6.8h-7.6Z", 3: "m0 -4.2l4.2 4.2l-4.2 4.2l-4.2 -4.2Z"}
    return element("path", *title, d=f"M{x:.2f} {y:.2f}{shapes[(number_ - 1) % 3 + 1]}", class_=look)


def _said(value: float, y: Axis) -> str:
    return percent(value) if y is _SHARES else number(value)


def _look(number_: int) -> str:
    return f"line c{number_}"


def _tight(low: float, high: float) -> Axis:
    return axes.linear(low, high, tight=True)


def _main_range(values: Sequence[float]) -> tuple[float, float, bool]:
    """The range of all but far-off first values, and whether some of these are outside."""
    low, high = min(values), max(values)
    late = values[len(values) // 10 :] if len(values) >= 10 else values
    inner_low, inner_high = min(late), max(late)
    if inner_high > inner_low and high - low > 4 * (inner_high - inner_low):
        room = 0.5 * (inner_high - inner_low)
        return max(low, inner_low - room), min(high, inner_high + room), True
    return low, high, False
