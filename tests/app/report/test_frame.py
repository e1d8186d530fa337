"""The frame of charts and its marks."""

from xml.etree import ElementTree

from tightgp.app.report import charts
from tightgp.app.report.content import Curve, Slice, Trace
from tightgp.app.report.frame import HEIGHT, WIDTH, element


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


def test_charts_have_one_size():
    trace = Trace("objective", (1.0, 2.0), (1.0, 2.0))
    assert f'viewBox="0 0 {WIDTH:g} {HEIGHT:g}"' in charts.trace(trace, "objective", "epoch")


def test_elements_escape_texts_and_attributes():
    made = element("text", '<a>&"', class_='">', data_x=1.234567)
    assert made == '<text class="&#34;&gt;" data-x="1.23">&lt;a&gt;&amp;&#34;</text>'
    assert element("g", element("b", x=1.0)) == '<g><b x="1"></b></g>'
