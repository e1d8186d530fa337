"""From JSON to JSON: the same numbers and the same messages as the command line."""

import json

import numpy as np
import pandas as pd
import pytest

import tightgp as tgp
from tightgp.app.serving import answering as module
from tightgp.app.serving.answering import Answering, TooMuchError
from tightgp.app.tables.records import frame_of_json

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "x": RNG.normal(size=40),
        "city": RNG.choice(["Oslo", "Rome"], 40),
        "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(RNG.integers(0, 9, 40), "D"),
    }
)
Y = np.sin(FRAME["x"]) + (FRAME["city"] == "Oslo") + 0.1 * RNG.normal(size=40)
ROW = {"x": 0.5, "city": "Oslo", "day": "2024-01-03"}


@pytest.fixture(scope="module")
def answering():
    return Answering(tgp.SparseGPRegressor(max_iter=3).fit(FRAME, Y), max_rows=50)


def asked(answering, rows, **more):
    return answering.answer(json.dumps({"rows": rows, **more}).encode())


def test_answers_are_the_estimator_s(answering):
    rows = [{**row, "day": str(row["day"].date())} for row in FRAME[:6].to_dict("records")]
    answer = asked(answering, rows, level=0.8)
    mean, sd = answering.estimator.predict(FRAME[:6], return_std=True)
    got = pd.DataFrame(answer["predictions"])
    assert list(got) == ["mean", "sd", "lower80", "upper80"]
    np.testing.assert_allclose(got["mean"], mean, rtol=1e-12)
    np.testing.assert_allclose(got["sd"], sd, rtol=1e-12)
    assert answer["notes"] == []


def test_missing_cells_and_new_levels_are_noted(answering):
    (note,) = asked(answering, [{**ROW, "city": "Paris"}])["notes"]
    assert "Paris" in note
    (note,) = asked(answering, [ROW, {**ROW, "x": None}])["notes"]
    assert "missing cells in 'x' (1)" in note


def test_the_schema_says_what_is_wanted(answering):
    schema = answering.schema()
    assert [(one["name"], one["kind"]) for one in schema["columns"]] == [
        ("x", "number"),
        ("city", "category"),
        ("day", "time"),
    ]
    assert schema["columns"][1]["levels"] == ["Oslo", "Rome"]
    assert schema["max_rows"] == 50
    answering.warm_up()


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"", "the request is not JSON"),
        (b"\xff", "the request is not JSON"),
        (b"[1]", "the request must be an object"),
        (b"[" * 100_000, "the request is not JSON"),
        (b'{"rows": []}', "rows must be a list of objects"),
        (b'{"rows": [3]}', "rows must be a list of objects"),
        (b'{"rows": [{"x": NaN}]}', "the request has NaN, which is not JSON"),
        (b'{"rows": [{}], "lvel": 0.9}', "'lvel' is not part of a request"),
        (b'{"rows": [{}], "level": 2}', "level must be a probability"),
        (b'{"rows": [{}], "level": "high"}', "level must be one finite number"),
        (json.dumps({"rows": [ROW, {"x": 1.0, "city": "Oslo"}]}).encode(), "rows: row 2 lacks the column 'day'"),
        (json.dumps({"rows": [{**ROW, "x": [1.0]}]}).encode(), "column 'x' holds lists or objects"),
        (json.dumps({"rows": [{**ROW, "x": "tall"}]}).encode(), "'x'"),
        (json.dumps({"rows": [{**ROW, "x": 1.0}, {**ROW, "x": "tall"}]}).encode(), "x"),
    ],
)
def test_bad_requests_are_refused_in_one_line(answering, body, message):
    with pytest.raises(ValueError, match=message) as error:
        answering.answer(body)
    assert "\n" not in str(error.value)


def test_a_table_is_made_of_the_model_s_columns_alone(answering, monkeypatch):
    """Of other names, and of objects in cells, a table would have a column for each and a cell for each row."""
    read = []
    monkeypatch.setattr(module, "frame_of_json", lambda *given: read.append(given[1]) or frame_of_json(*given))
    rows = [{**ROW, f"other {i}": i, "nested": {str(i): 1}} for i in range(20)]
    assert asked(answering, rows)["predictions"] == asked(answering, [ROW] * 20)["predictions"]
    assert read[0] == read[1]
    with pytest.raises(ValueError, match="column 'x' holds lists or objects"):
        asked(answering, [{**ROW, "x": {str(i): 1}} for i in range(20)])
    assert len(read) == 2


def test_too_many_rows_are_refused(answering):
    with pytest.raises(TooMuchError, match="rows has 51 rows; at most 50"):
        asked(answering, [ROW] * 51)


def test_classes():
    answering = Answering(tgp.SparseGPClassifier(n_inducing=6, max_iter=3).fit(FRAME[["x"]], Y > 0.5), max_rows=5)
    (row,) = asked(answering, [{"x": 0.1}])["predictions"]
    assert list(row) == answering.schema()["outputs"] == ["prediction", "p(False)", "p(True)"]
    assert row["p(False)"] + row["p(True)"] == pytest.approx(1)
