"""Texts as numbers and dates: the estimators read what the command line reads, and refuse what it refuses."""

import numpy as np
import pandas as pd
import pytest

import tightgp as tgp
from tightgp.app.tables import inspect_table
from tightgp.estimators.encoding import Encoding
from tightgp.estimators.reading.texts import Reading, as_text, reading_of

DAYS = pd.date_range("2023-01-01", periods=300).strftime("%Y-%m-%d")

#: Columns of 300 texts.
COLUMNS = {
    "ISO dates": list(DAYS),
    "times with a Z": [f"{day}T10:30:00Z" for day in DAYS],
    "US dates": [f"{i % 12 + 1}/{i % 28 + 1}/2021" for i in range(300)],
    "months in words": [f"Apr {i % 30 + 1:02d}, 20{i % 20:02d}" for i in range(300)],
    "money": [f"${i * 7 + 1000:,}" for i in range(300)],
    "percent": [f"{i % 90}.5%" for i in range(300)],
    "decimal commas": [f"{i},{i % 90 + 10}" for i in range(300)],
    "levels": [f"level {i % 70}" for i in range(300)],
}


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_is_read_as_by_the_command_line(name):
    texts = pd.Series(COLUMNS[name], name="x", dtype=object)
    found, by_file = reading_of("x", texts), inspect_table(pd.DataFrame({"x": texts})).readings.get("x")
    assert found == by_file
    assert (found is None) == (name == "levels")


@pytest.mark.parametrize("kind", ["object", "str", "string"])
def test_missing_cells_stay_missing(kind):
    texts = pd.Series(["2024-01-31", None, "2024-02-03"] * 10, dtype=kind)
    read = reading_of("x", texts).apply(texts)[0]
    assert read.isna().tolist() == [False, True, False] * 10


def test_what_could_be_two_things_is_refused():
    frame = pd.DataFrame({"when": [f"0{i % 9 + 1}/0{i % 8 + 1}/2020" for i in range(30)]})
    with pytest.raises(ValueError, match=r"column 'when' has dates .* pandas.to_datetime\(..., format='%d/%m/%Y'\)"):
        Encoding.fit(frame)
    with pytest.raises(ValueError, match="column 'cost' has '1,250', which may have a decimal mark or thousands"):
        Encoding.fit(pd.DataFrame({"cost": [f"{i % 9 + 1},250" for i in range(30)]}))
    with pytest.raises(ValueError, match="not the same unit"):
        Encoding.fit(pd.DataFrame({"cost": [f"{'$€'[i % 2]}{i}.5" for i in range(30)]}))


def test_texts_of_digits_and_categories_stay_levels():
    assert reading_of("x", pd.Series(["1", "2", "10"])) is None
    assert reading_of("x", pd.Series(["2024-01-31", "2024-02-01"], dtype="category")) is None


def test_other_rows_are_read_alike_or_refused():
    frame = pd.DataFrame({"when": DAYS, "cost": COLUMNS["money"]})
    encoding, features = Encoding.fit_transform(frame)
    np.testing.assert_allclose(encoding.transform(frame), features)
    assert [column.kind for column in encoding.columns] == ["time", "number"]
    as_dates = frame.assign(when=pd.to_datetime(frame["when"]), cost=encoding.columns[1].as_read(frame["cost"]))
    np.testing.assert_allclose(encoding.transform(as_dates), features)
    with pytest.raises(ValueError, match=r"column 'when' was learnt as dates but row 2 .*: 'soon'"):
        encoding.transform(frame.assign(when=[*DAYS[:2], "soon", *DAYS[3:]]))
    with pytest.raises(ValueError, match=r"column 'cost' was learnt as numbers but row 0 .*: 'a lot'"):
        encoding.transform(frame.assign(cost="a lot"))


def test_a_regressor_fits_and_keeps_dates_as_texts(tmp_path, rng):
    """Hundreds of dates as texts, of which the regressor needs no conversion, nor after it was saved."""
    X = pd.DataFrame({"when": DAYS[:120], "cost": COLUMNS["money"][:120]})
    y = np.sin(np.arange(120) / 20) + 0.1 * rng.normal(size=120)
    model = tgp.SparseGPRegressor(target_transform="none").fit(X, y)
    assert model.score(X, y) > 0.8
    loaded = tgp.load(tgp.save(model, tmp_path / "m.safetensors") or tmp_path / "m.safetensors")
    np.testing.assert_allclose(loaded.predict(X[:5]), model.predict(X[:5]))


def test_a_reading_applies_to_columns_that_are_read_already():
    numbers = pd.Series([1.5, 2.5])
    assert Reading("amount", ("point",)).apply(numbers)[0] is numbers


def test_whole_numbers_as_text_whatever_their_size():
    for number, text in ((1e20, "100000000000000000000"), (-3.0, "-3")):
        found = as_text(pd.Series([number, 2.0, np.nan]))
        assert found.dropna().tolist() == [text, "2"]
        assert found.isna()[2]
