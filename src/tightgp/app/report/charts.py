"""The report's charts as inline SVG, one function each."""

import math
from collections.abc import Sequence
from itertools import compress, pairwise

from markupsafe import Markup

from tightgp.app.report import axes
from tightgp.app.report.axes import SHARES, Axis
from tightgp.app.report.content import Coverage, PathStep, ReliabilityBin, Slice, Trace
from tightgp.app.report.frame import HEIGHT, Frame, element, marker
from tightgp.app.report.numbers import counted, number, percent, shortened
from tightgp.app.scores import binomial_range


def trace(one: Trace, title: str, step: str) -> Markup:
    """A number recorded during training. The first steps are cut off if they would flatten the rest."""
    low, high, cut = _main_range(one.values)
    x = axes.linear(min(one.steps), max(one.steps), tight=True)
    frame = Frame(x, axes.padded(low, high), step, title)
    frame.line(one.steps, one.values)
    frame.dots(one.steps[-1:], one.values[-1:], 3)
    if cut:
        frame.note("first steps not shown")
    return frame.draw(f"{title}: {number(one.values[0], 4)} at the start, {number(one.values[-1], 4)} at the end")


def path(steps: Sequence[PathStep]) -> Markup:
    """The bounds on the log evidence by the number of inducing points."""
    sizes, bounds = [math.log(step.num_inducing) for step in steps], [step.bound for step in steps]
    uppers = [step.upper for step in steps if step.upper is not None] if shows_upper(steps) else []
    x, y = axes.logarithmic([step.num_inducing for step in steps]), axes.padded(min(bounds), max([*bounds, *uppers]))
    frame = Frame(x, y, "inducing points", "log evidence, nats")
    if uppers:
        frame.band(sizes, bounds, uppers, "band second")
        frame.line(sizes, uppers, "line second")
    frame.line(sizes, bounds)
    frame.dots(sizes, bounds, 3)
    start, end = (f"{number(step.bound, 5)} with {step.num_inducing}" for step in (steps[0], steps[-1]))
    return frame.draw(f"Log evidence by inducing points: {start} inducing points, {end}")


def shows_upper(steps: Sequence[PathStep]) -> bool:
    """Whether all upper bounds are known, and close enough to be drawn without flattening the lower ones."""
    bounds, uppers = [step.bound for step in steps], [step.upper for step in steps if step.upper is not None]
    return len(uppers) == len(steps) and max(uppers) - min(bounds) <= 4 * (max(bounds) - min(bounds))


def histogram(counts: Sequence[int], x_title: str, description: str, uniform: bool = False) -> Markup:
    """Counts of rows in equal bins of [0, 1]; ``uniform`` adds the range of counts of a uniform variable."""
    rows, bins = max(1, sum(counts)), len(counts)
    low, high = (rows * share for share in binomial_range(rows, 1 / bins)) if uniform else (0.0, 0.0)
    frame = Frame(axes.linear(0.0, 1.0, tight=True), axes.linear(0, max(*counts, high, 1)), x_title, "rows")
    if uniform:
        frame.band([0, 1], [low, low], [high, high], "chance")
    for i, count in enumerate(counts):
        start, end = i / bins, (i + 1) / bins
        frame.bar(start, end, count, f"{number(start)} to {number(end)}: {counted(count, 'row')}")
    if uniform:
        frame.line([0, 1], [low, low], "guide")
        frame.line([0, 1], [high, high], "guide")
    return frame.draw(description)


def calibration(levels: Sequence[Coverage]) -> Markup:
    """Observed against stated coverage, with the range that chance alone explains."""
    frame = Frame(SHARES, SHARES, "stated coverage of intervals", "observed coverage")
    ends = (Coverage(0.0, 0.0, 0.0, 0.0), *levels, Coverage(1.0, 1.0, 1.0, 1.0))
    stated, observed = [one.level for one in ends], [one.observed for one in ends]
    frame.band(stated, [one.low for one in ends], [one.high for one in ends], "chance")
    frame.line([0, 1], [0, 1], "guide")
    frame.line(stated, observed)
    for one in levels:
        tooltip = f"{percent(one.level, 0)} intervals contain {percent(one.observed)} of the rows"
        frame.point(one.level, one.observed, tooltip, radius=2.6)
    gap = max(abs(one.observed - one.level) for one in levels)
    return frame.draw(f"Observed against stated coverage; they differ by at most {100 * gap:.1f} percentage points")


def reliability(bins: Sequence[ReliabilityBin]) -> Markup:
    """Observed frequency against predicted probability; larger points stand for more rows."""
    frame = Frame(SHARES, SHARES, "predicted probability", "observed frequency")
    frame.line([0, 1], [0, 1], "guide")
    for one in bins:
        frame.line([one.predicted, one.predicted], [one.low, one.high], "chance-line")
    frame.line([one.predicted for one in bins], [one.observed for one in bins])
    most = max(one.count for one in bins)
    for one in bins:
        tooltip = f"predicted {percent(one.predicted)}, observed {percent(one.observed)} of {counted(one.count, 'row')}"
        frame.point(one.predicted, one.observed, tooltip, radius=2.2 + 4.0 * math.sqrt(one.count / most))
    return frame.draw("Observed frequency against predicted probability, in bins")


def scatter(points: Sequence[tuple[float, float]], target: str) -> Markup:
    """Observed against predicted values, with the line where they are equal."""
    predicted, observed = zip(*points, strict=True)
    axis = axes.padded(min(*predicted, *observed), max(*predicted, *observed), 4)
    frame = Frame(axis, axis, f"predicted {target}", f"observed {target}", height=354)
    frame.line([axis.low, axis.high], [axis.low, axis.high], "guide")
    frame.dots(predicted, observed, 1.9, "dots" if len(points) > 150 else "dots few")
    return frame.draw(f"Observed against predicted {target}, {counted(len(points), 'held-out row')}")


def shared_axis(slices: Sequence[Slice], shares: bool) -> Axis:
    """One axis for the predictions of all slices, so that effects can be compared."""
    if shares:
        return SHARES
    values = [v for one in slices for curve in one.curves for v in curve.mean]
    for one in slices:
        known = one.known or (True,) * len(one.curves[0].mean)
        values += [v for curve in one.curves for ends in (curve.low, curve.high) for v in compress(ends, known)]
    return axes.padded(min(values), max(values))


def predictions(one: Slice, axis: Axis, title: str) -> Markup:
    """Predictions along one input: lines and bands, or points and whiskers for categories."""
    if one.kind == "category":
        return _levels(one, axis, title)
    low, high = min(one.at), max(one.at)
    x = axes.time(low, high) if one.kind == "time" else axes.linear(low, high, tight=True)
    frame = Frame(x, axis, one.column, title)
    for i, curve in enumerate(one.curves):
        for known, part in _runs(one.known or (True,) * len(one.at)):
            if curve.low and known:
                frame.band(one.at[part], curve.low[part], curve.high[part])
            frame.line(one.at[part], curve.mean[part], f"line c{i}" if known else "guide")
    frame.rug(value for value in one.rug if x.low <= value <= x.high)
    return frame.draw(f"{title} along {one.column}")


def _runs(known: Sequence[bool]) -> list[tuple[bool, slice]]:
    """Consecutive points that are known or not; a run that is not reaches into those beside it."""
    edges = [0, *(i for i in range(1, len(known)) if known[i] != known[i - 1]), len(known)]
    runs = [(known[start], start, stop) for start, stop in pairwise(edges)]
    return [(k, slice(start, stop) if k else slice(max(0, start - 1), stop + 1)) for k, start, stop in runs]


def swatch(i: int) -> Markup:
    """The line and marker of curve ``i``, for a legend."""
    parts = element("path", d="M0 5H26", class_=f"line c{i}"), marker(13, 5, i)
    return element("svg", *parts, viewBox="0 0 26 10", width=26, height=10, class_="swatch", aria_hidden="true")


def _levels(one: Slice, axis: Axis, title: str) -> Markup:
    """Predictions at each level of a category, one below the other."""
    count = len(one.labels)
    y = Axis(count - 0.5, -0.5, tuple(map(float, range(count))), tuple(shortened(label, 16) for label in one.labels))
    frame = Frame(axis, y, title, one.column, height=max(70.0 + 20.0 * count, HEIGHT if count > 6 else 0.0))
    said = percent if axis is SHARES else number
    for i, label in enumerate(one.labels):
        for k, curve in enumerate(one.curves):
            place = i + 0.15 * (k - (len(one.curves) - 1) / 2)
            tooltip = f"{label}: {said(curve.mean[i])}"
            known = not one.known or one.known[i]
            if curve.low and known:
                frame.line([curve.low[i], curve.high[i]], [place, place], "whisker")
                tooltip += f" ({said(curve.low[i])} to {said(curve.high[i])})"
            tooltip += "" if known else "; no training row is like this"
            frame.point(curve.mean[i], place, tooltip, curve=k)
    return frame.draw(f"{title} by {one.column}")


def _main_range(values: Sequence[float]) -> tuple[float, float, bool]:
    """The range of all values but the first if these lie far off, and whether some were left out."""
    low, high = min(values), max(values)
    late = values[len(values) // 10 :]
    late_range = max(late) - min(late)
    if not 0 < 4 * late_range < high - low:
        return low, high, False
    return max(low, min(late) - 0.5 * late_range), min(high, max(late) + 0.5 * late_range), True
