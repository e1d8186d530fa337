"""Charts: marks are where their values belong."""

import math
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightgp.app.report import charts
from tightgp.app.report.content import Coverage, Curve, PathStep, ReliabilityBin, Slice, Trace


def coordinates(svg):
    """All coordinates of the marks of a chart."""
    for e in ElementTree.fromstring(svg).iter():
        for name in ("x", "y", "cx", "cy", "width", "height"):
            if e.get(name) is not None:
                yield float(e.get(name))


@given(st.lists(st.floats(-1e9, 1e9), min_size=2, max_size=30))
def test_coordinates_are_finite(values):
    steps = tuple(float(k) for k in range(1, len(values) + 1))
    chart = charts.trace(Trace("objective", steps, tuple(values)), "objective", "iteration")
    assert all(math.isfinite(p) for p in coordinates(chart))


def test_first_steps_that_would_flatten_the_rest_are_not_shown():
    late = tuple(-100 + 0.1 * k for k in range(45))
    trace = Trace("objective", tuple(map(float, range(50))), (-1e7, -1e6, -1e5, -1e4, -1e3, *late))
    chart = charts.trace(trace, "objective", "iteration")
    assert "first steps not shown" in chart
    assert "−10" in chart
    assert "first steps" not in charts.trace(Trace("o", tuple(map(float, range(45))), late), "o", "iteration")


def test_a_calibration_point_is_at_its_coverage():
    tree = ElementTree.fromstring(charts.calibration([Coverage(0.5, 0.75, 0.4, 0.6)]))
    (point,) = tree.iter("circle")
    assert point.find("title").text == "50\u202f% intervals contain 75.0\u202f% of the rows"
    inner = tree.find("svg")
    left, top, width, height = (float(inner.get(k)) for k in ("x", "y", "width", "height"))
    assert float(point.get("cx")) == pytest.approx(left + width / 2, abs=0.02)
    assert float(point.get("cy")) == pytest.approx(top + height / 4, abs=0.02)


def test_the_height_of_a_bar_is_its_count():
    tree = ElementTree.fromstring(charts.histogram((10, 40), "v", "description"))
    first, second = [float(e.get("height")) for e in tree.iter("rect")]
    assert second == pytest.approx(4 * first, rel=1e-3)


def test_points_with_right_predictions_are_on_the_diagonal():
    tree = ElementTree.fromstring(charts.scatter([(float(k), float(k)) for k in range(1000)], "y"))
    xs, ys = ([float(c.get(k)) for c in tree.iter("circle")] for k in ("cx", "cy"))
    assert len(xs) == 1000
    slopes = [(ys[-1] - ys[0]) / (xs[-1] - xs[0]), (ys[500] - ys[0]) / (xs[500] - xs[0])]
    assert slopes[0] == pytest.approx(slopes[1], rel=1e-2)


def test_the_band_between_the_bounds_is_drawn_only_if_it_is_narrow():
    known = [PathStep(8, -90.0, -50.0, 1.0), PathStep(16, -80.0, -60.0, 2.0)]
    assert "band" in charts.path(known)
    assert "band" not in charts.path([*known, PathStep(32, -75.0, None, None)])
    assert "band" not in charts.path([PathStep(8, -90.0, 900.0, 1.0), *known[1:]])


def test_reliability_dots_grow_with_their_rows():
    bins = [ReliabilityBin(0.1, 0.2, 0.0, 0.3, 10), ReliabilityBin(0.9, 0.9, 0.8, 1.0, 1000)]
    tree = ElementTree.fromstring(charts.reliability(bins))
    small, large = (float(e.get("r")) for e in tree.iter("circle"))
    assert small < large


@pytest.mark.parametrize("count", [2, 12])
def test_levels_of_a_category_are_drawn_below_each_other(count):
    labels = tuple(f"level {k} with a long name" for k in range(count))
    curve = Curve("", *(tuple(float(k + d) for k in range(count)) for d in (0, -1, 1)))
    one = Slice("district", "category", (curve,), 0.95, labels=labels)
    tree = ElementTree.fromstring(charts.predictions(one, charts.shared_axis([one], False), "price"))
    heights = [float(c.get("cy")) for c in tree.iter("circle")]
    assert len(heights) == count
    assert min(b - a for a, b in pairwise(heights)) >= 12
    box = [float(v) for v in tree.get("viewBox").split()]
    assert max(heights) < box[3]


def test_slices_share_an_axis():
    def one(low, high):
        return Slice("a", "number", (Curve("", (low, high)),), None, at=(0.0, 1.0))

    axis = charts.shared_axis([one(0.0, 1.0), one(50.0, 100.0)], False)
    assert axis.low <= 0
    assert axis.high >= 100
    assert charts.shared_axis([one(0.2, 0.4)], True).labels[-1] == "100\u202f%"
