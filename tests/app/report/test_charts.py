"""Axes, numbers and charts, without looking at them."""

import math
from datetime import UTC, datetime
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tightgp.app.report import axes, charts, numbers
from tightgp.app.report.content import Coverage, Curve, PathStep, ReliabilityBin, Slice, Trace
from tightgp.app.report.frame import HEIGHT, WIDTH
from tightgp.app.report.svg import element, shortened

VALUES = st.floats(-1e12, 1e12, allow_subnormal=False)


def check_axis(axis, low, high):
    room = 1e-8 * (axis.high - axis.low)
    assert axis.low <= low + room
    assert axis.high >= high - room
    assert len(axis.labels) == len(axis.ticks)
    assert all(axis.low - room <= t <= axis.high + room for t in axis.ticks)
    assert all(a < b for a, b in pairwise(axis.ticks))


@given(VALUES, VALUES, st.booleans())
def test_axes_contain_their_range_and_have_a_few_different_ticks(one, other, tight):
    low, high = sorted([one, other])
    assume(high == low or high - low > 1e-6 * max(abs(low), abs(high)))
    for axis in (axes.linear(low, high, tight=tight), axes.padded(low, high)):
        check_axis(axis, low, high)
        assert 3 <= len(axis.ticks) <= 11
        assert len(set(axis.labels)) == len(axis.labels), "two ticks have the same label"
        assert max(map(len, axis.labels)) <= 12


@given(st.floats(-6e10, 2e11), st.floats(0.5, 2e11))
def test_time_axes_have_a_few_different_ticks(low, span):
    high = min(low + span, 2.4e11)
    axis = axes.time(low, high)
    check_axis(axis, low, high)
    assert 2 <= len(axis.ticks) <= 8
    assert len(set(axis.labels)) == len(axis.labels)


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        ("2021-02-10", "2023-01-01", ("Jul 2021", "Jan 2022", "Jul 2022", "Jan 2023")),
        ("1990-06-01", "2020-06-01", ("2000", "2010", "2020")),
        ("2021-03-02", "2021-03-09", ("03 Mar", "05 Mar", "07 Mar", "09 Mar")),
        ("2021-03-01 01:00", "2021-03-02 12:00", ("01 Mar 12:00", "02 Mar 00:00", "02 Mar 12:00")),
        ("2021-03-01 01:00", "2021-03-01 13:00", ("03:00", "06:00", "09:00", "12:00")),
        ("2021-03-01 01:00:00", "2021-03-01 01:00:04", tuple(f"01:00:0{k}" for k in range(5))),
    ],
)
def test_time_axes_have_ticks_at_round_times(low, high, labels):
    seconds = [datetime.fromisoformat(t).replace(tzinfo=UTC).timestamp() for t in (low, high)]
    assert axes.time(*seconds).labels == labels


def test_ticks_of_known_ranges():
    assert axes.linear(0, 10).labels == ("0", "2", "4", "6", "8", "10")
    assert axes.linear(-0.01, 0.011).labels == ("−0.010", "−0.005", "0.000", "0.005", "0.010", "0.015")
    assert axes.linear(0, 4.1e7).labels == ("0", "10", "20", "30", "40", "50")
    assert axes.linear(0, 4.1e7).factor == "(×\u200910⁶)"
    assert axes.logarithmic([16, 32, 64]).labels == ("16", "32", "64")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.0, "0"),
        (None, "–"),
        (1234.5678, "1,235"),
        (-0.000123456, "−0.000123"),
        (9.996, "10.00"),
        (1.5e-7, "1.50 × 10⁻⁷"),
        (-2e11, "−2.00 × 10¹¹"),
        (float("nan"), "nan"),
    ],
)
def test_numbers(value, words):
    assert numbers.number(value) == words


def test_intervals():
    assert numbers.interval(12.0, 15.0) == "12 to 15"
    assert numbers.interval(-3.14159, 2.0) == "−3.1 to 2.0"
    assert numbers.interval(1e-7, 2e-7) == "1.00 × 10⁻⁷ to 2.00 × 10⁻⁷"
    assert numbers.interval(2.0, 2.0) == "2.00 to 2.00"
    assert numbers.interval(None, 2.0) == "–"


def test_shares_and_durations():
    assert numbers.percent(1.0) == "100\u202f%"
    assert numbers.percent(0.0) == "0\u202f%"
    assert numbers.percent(0.9999) == ">99.9\u202f%"
    assert numbers.percent(0.0002) == "<0.1\u202f%"
    assert numbers.percent(None) == "–"
    assert numbers.percent(-0.25, 0) == "−25\u202f%"
    assert numbers.duration(None) == "–"
    assert numbers.duration(99.7) == "1\u202fmin 40\u202fs"
    assert numbers.duration(3600) == "1\u202fh 0\u202fmin"


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


def test_classes_have_markers_of_different_shapes():
    curves = tuple(Curve(f"class {k}", (0.1 * k, 0.2)) for k in range(4))
    one = Slice("district", "category", curves, None, labels=("a", "b"))
    tree = ElementTree.fromstring(charts.predictions(one, charts.shared_axis([one], True), "probability"))
    marks = [e for e in tree.iter() if (e.get("class") or "").startswith("point")]
    assert len(marks) == 8
    shapes = {e.get("class"): (e.get("d") or "circle").partition("m")[2] for e in marks}
    assert len(set(shapes.values())) == 4
    assert all(e.find("title").text for e in marks)
    assert len({charts.swatch(k) for k in range(4)}) == 4


def test_slices_share_an_axis():
    def one(low, high):
        return Slice("a", "number", (Curve("", (low, high)),), None, at=(0.0, 1.0))

    axis = charts.shared_axis([one(0.0, 1.0), one(50.0, 100.0)], False)
    assert axis.low <= 0
    assert axis.high >= 100
    assert charts.shared_axis([one(0.2, 0.4)], True).labels[-1] == "100\u202f%"


def test_elements_escape_texts_and_attributes():
    made = element("text", '<a>&"', class_='">', data_x=1.234567)
    assert made == '<text class="&#34;&gt;" data-x="1.23">&lt;a&gt;&amp;&#34;</text>'
    assert element("g", element("b", x=1.0)) == '<g><b x="1"></b></g>'


def test_shortened():
    assert shortened("abc", 3) == "abc"
    assert shortened("abcd", 3) == "ab…"
    assert shortened("a\n b", 9) == "a b"


def test_charts_have_one_size():
    trace = Trace("objective", (1.0, 2.0), (1.0, 2.0))
    assert f'viewBox="0 0 {WIDTH:g} {HEIGHT:g}"' in charts.trace(trace, "objective", "epoch")
