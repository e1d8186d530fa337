"""Targets of ordered levels, from the raw file to predictions and the report."""

import numpy as np
import pandas as pd
import pytest

from tests.app.cli.conftest import QUICK, run
from tightgp.app.cli.folder import FitFolder
from tightgp.app.cli.levels import offer_ordinal, order_of_texts, ordered_levels, ordinal_labels
from tightgp.app.cli.reporting import read_content
from tightgp.app.tables import TableError, read_table

MOODS = ["awful", "meh", "okay", "great"]
OPTIONS = ("-t", "mood", "--likelihood", "ordinal", "--as", "mood=" + "<".join(MOODS), *QUICK)


@pytest.fixture(scope="module")
def moods(tmp_path_factory):
    """Sixty rows with levels that only their writer can put in order."""
    rng = np.random.default_rng(0)
    x = rng.uniform(-2, 2, 60)
    level = np.digitize(x + 0.3 * rng.normal(size=60), [-1, 0, 1])
    path = tmp_path_factory.mktemp("moods") / "moods.csv"
    pd.DataFrame({"x": x, "city": rng.choice(["Oslo", "Rome"], 60), "mood": np.array(MOODS)[level]}).to_csv(
        path, index=False
    )
    return path


@pytest.fixture(scope="module")
def fitted(moods, tmp_path_factory):
    folder = tmp_path_factory.mktemp("fits") / "m"
    return folder, run("fit", moods, *OPTIONS, "-o", folder)


def test_from_the_raw_file_to_the_report_in_one_attempt(fitted):
    folder, ran = fitted
    assert ran.code == 0, ran.err
    assert "Target 'mood' is fitted as ordered levels, awful<meh<okay<great" in ran.err
    assert "levels off on average" in ran.out + ran.err
    assert "Level by level" in (folder / "report.html").read_text(encoding="utf-8")
    classes = read_content(FitFolder(folder)).heldout.classes
    assert list(classes.labels) == [one.label for one in classes.levels] == MOODS


def test_predictions_have_the_levels_in_order(fitted, moods, tmp_path):
    ran = run("predict", fitted[0], moods, "-o", tmp_path / "p.csv")
    assert ran.code == 0, ran.err
    found = read_table(tmp_path / "p.csv")
    assert list(found) == ["row", "prediction", *(f"p({mood})" for mood in MOODS)]
    np.testing.assert_allclose(found.iloc[:, 2:].sum(axis=1), 1, rtol=1e-9)


def test_the_bounds_are_compared(moods):
    ran = run("compare", moods, *OPTIONS, "--json")
    assert ran.code == 0, ran.err
    assert [set(one["scores"]) for one in ran.json["methods"]] == [{"log density", "accuracy"}] * 2


def test_an_unknown_order_is_refused_with_the_option_that_gives_it(moods, tmp_path):
    ran = run("fit", moods, "-t", "mood", "--likelihood", "ordinal", "-o", tmp_path / "m")
    assert ran.code == 2
    assert "has levels whose order is not known, such as" in ran.err
    assert "--as 'mood=LOWEST<...<HIGHEST'" in ran.err
    assert "tightgp explain likelihood" in ran.err


@pytest.mark.parametrize(
    ("values", "order"),
    [
        (["Poor", "Good", "Fair", "Good"], ("Poor", "Fair", "Good")),
        (pd.Categorical(["b", "a"], ["b", "a"], ordered=True), ("b", "a")),
        (pd.Categorical(["b", "a"]), ()),
        (["low", "Low", "high", "mid"], ()),
        (["red", "green", "blue"], ()),
        ([1, 2, 3], ()),
    ],
)
def test_orders_that_are_known(values, order):
    assert order_of_texts(pd.Series(values)) == order


def test_numbers_are_levels_unless_there_are_many():
    halves = pd.Series([1.5, 0.5, 1.0, 0.5])
    assert ordered_levels(halves, "stars", "t.csv") == [0.5, 1.0, 1.5]
    assert ordinal_labels(halves).tolist() == [1.5, 0.5, 1.0, 0.5]
    assert ordinal_labels(pd.Series([2.0, 1.0])).tolist() == [2, 1]
    with pytest.raises(TableError, match="holds 60 different numbers, too many for ordered levels"):
        ordered_levels(pd.Series(np.arange(60)), "age", "t.csv")


@pytest.mark.parametrize(
    ("likelihood", "values", "said"),
    [
        ("gaussian", [1, 2, 3, 4, 5] * 6, "The 5 whole numbers of 'y', from 1 to 5, may be levels"),
        ("gaussian", [0.5, 1.0, 1.5] * 9, ""),
        ("gaussian", [1, 2, 300] * 9, ""),
        ("gaussian", list(range(30)), ""),
        ("poisson", [0, 1, 2] * 9, ""),
        ("classes", ["low", "mid", "high"] * 9, "The classes of 'y' have an order, low<mid<high: --likelihood ordinal"),
        ("classes", ["red", "green", "blue"] * 9, ""),
    ],
)
def test_what_auto_offers(likelihood, values, said):
    found = offer_ordinal(likelihood, pd.Series(values), "y")
    assert found.startswith(said)
    assert bool(found) == bool(said)


def test_inspect_offers_it(tmp_path):
    path = tmp_path / "stars.csv"
    pd.DataFrame({"x": np.arange(60) / 7, "stars": 1 + np.arange(60) % 5}).to_csv(path, index=False)
    ran = run("inspect", path, "-t", "stars", "--json")
    assert ran.code == 0, ran.err
    assert "--likelihood ordinal" in ran.json["offer"]
