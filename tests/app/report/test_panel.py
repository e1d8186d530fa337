"""The surrogate in the page: close to the model, or left out; and the page's script computes what Python does."""

import json
import shutil
import subprocess
from dataclasses import asdict, replace
from importlib import resources

import numpy as np
import pandas as pd
import pytest

from tests.app.report import fakes, problems
from tightgp.app.report.panel import from_outputs, to_outputs
from tightgp.app.report.surrogate import make_panel
from tightgp.app.report.table import Table

NODE = shutil.which("node")


def values_of(panel, count, seed=0):
    """Random values of each input of a panel, as the page has them: numbers, or positions of labels."""
    rng = np.random.default_rng(seed)
    return [
        rng.integers(len(one.labels), size=count) if one.labels else rng.uniform(one.low, one.high, size=count)
        for one in panel.inputs
    ]


@pytest.mark.parametrize("kind", ["regression", "student", "counts", "binary", "classes"])
def test_it_is_as_close_as_it_says(contents, kind):
    panel = contents[kind].panel
    assert 0 < panel.agreement.centre <= panel.agreement.tolerance
    assert panel.agreement.num_rows >= 100
    assert len(json.dumps(asdict(panel))) < 200_000


def test_it_tells_what_the_model_tells(contents, priced):
    """Rows made from the panel's own values of inputs, predicted by the model and by the panel."""
    panel, (estimator, X, _, _) = contents["regression"].panel, priced
    values = values_of(panel, 60)
    frame = pd.concat([X.iloc[[0] * 60]], ignore_index=True)
    for one, v in zip(panel.inputs, values, strict=True):
        cells = np.array(one.labels, object)[v] if one.labels else v
        frame[one.name] = pd.to_datetime(cells, unit="s") if one.kind == "time" else cells
    features = panel.features(values)
    known = panel.is_known(features)
    assert 5 < known.sum() < 60, "values that do not go together are far from all training rows"
    mean, low, high = panel.predict(features)[known].T
    wanted = estimator.predict_distribution(frame[known])
    spread = np.std(estimator.predict(X))
    np.testing.assert_allclose(mean, wanted.mean, atol=0.05 * spread)
    np.testing.assert_allclose(np.stack([low, high]), wanted.interval(0.95), atol=0.05 * spread)


def test_a_model_too_rough_for_a_page_has_no_panel():
    X, y = problems.prices(200, 0)

    class Rough(fakes.FakeRegressor):
        def predict(self, X):
            return 300 * np.sin(1e4 * super().predict(X))

    estimator, notes = Rough().fit(X, y), []
    tables = [Table.of("X", one, estimator.encoding_.columns) for one in (X, problems.prices(100, 1)[0])]
    assert make_panel(estimator, *tables, notes) is None
    (note,) = notes
    assert "no “what if” panel" in note
    assert "is allowed" in note


def test_predictions_that_are_not_finite_have_no_panel():
    X, y = problems.prices(200, 0)

    class Infinite(fakes.FakeRegressor):
        def predict(self, X):
            return np.where(np.arange(len(X)) % 2 == 0, np.inf, super().predict(X))

    estimator, notes = Infinite().fit(X, y), []
    tables = [Table.of("X", one, estimator.encoding_.columns) for one in (X, problems.prices(100, 1)[0])]
    assert make_panel(estimator, *tables, notes) is None
    assert "not finite" in notes[0]


@pytest.mark.parametrize("link", ["identity", "log"])
def test_outputs_are_invertible(link):
    mean = np.array([1.0, 20.0, 300.0])
    shown = np.column_stack([mean, 0.5 * mean, 4 * mean])
    np.testing.assert_allclose(from_outputs(to_outputs(shown, link), link, True), shown)


def test_probabilities_add_up():
    told = from_outputs(np.array([[500.0, 0.0], [1.0, 1.0]]), "softmax", False)
    np.testing.assert_allclose(told, [[1, 0], [0.5, 0.5]], atol=1e-12)


@pytest.mark.skipif(NODE is None, reason="node is not on PATH")
@pytest.mark.parametrize("kind", ["regression", "counts", "classes"])
def test_the_script_computes_the_same(contents, kind, tmp_path):
    panel = contents[kind].panel
    values = values_of(panel, 25)
    script = resources.files("tightgp.app.report").joinpath("panel.js")
    (tmp_path / "panel.json").write_text(json.dumps(asdict(panel)))
    (tmp_path / "values.json").write_text(json.dumps(np.stack(values, axis=1).tolist()))
    ask = f"""const whatIf = require({json.dumps(str(script))}), fs = require("fs");
    const read = (name) => JSON.parse(fs.readFileSync({json.dumps(str(tmp_path))} + "/" + name));
    const panel = read("panel.json");
    console.log(JSON.stringify(read("values.json").map((one) => whatIf.evaluate(panel, one))));"""
    done = subprocess.run([NODE, "-e", ask], capture_output=True, text=True, timeout=60, check=True)
    found = json.loads(done.stdout)
    features = panel.features(values)
    np.testing.assert_allclose([one["shown"] for one in found], panel.predict(features), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal([one["known"] for one in found], panel.is_known(features))


def test_a_stretched_panel_is_the_same(contents):
    """What the browser sees of a support of equal rows: the radius is never zero."""
    panel = replace(contents["regression"].panel, radius=0.0)
    assert not panel.is_known(panel.features(values_of(panel, 5))).any()
