"""Where predictions fail: parts of single inputs in which errors are larger than chance explains."""

import numpy as np
import pandas as pd

from tightgp.app.report.regions import worst_regions
from tightgp.app.report.support import Support
from tightgp.app.report.table import Table
from tightgp.estimators.encoding import Encoding


def regions(frame, losses):
    table = Table.of("X", frame, Encoding.fit(frame).columns)
    return worst_regions(table, list(range(frame.shape[1])), losses, losses < 4)


def some_rows(rng):
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 100, 600), unit="D")
    place = rng.choice(["north", "south", "west"], 600)
    return pd.DataFrame({"size": rng.uniform(0, 10, 600), "place": place, "day": days})


def test_no_region_where_errors_are_alike(rng):
    assert regions(some_rows(rng), rng.chisquare(1, 600)) == ()
    assert regions(some_rows(rng), np.zeros(600)) == ()


def test_regions_are_found_and_named(rng):
    frame = some_rows(rng)
    losses = rng.chisquare(1, 600) * np.where(frame["place"] == "west", 9, 1) * np.where(frame["size"] > 8, 6, 1)
    found = regions(frame, losses)
    assert {one.column for one in found} == {"place", "size"}
    west = next(one for one in found if one.column == "place")
    mask = frame["place"] == "west"
    assert (west.part, west.num_rows) == ("west", mask.sum())
    np.testing.assert_allclose(west.ratio, losses[mask].mean() / losses.mean())
    np.testing.assert_allclose(west.inside, np.mean(losses[mask] < 4))
    size = next(one for one in found if one.column == "size")
    low, high = map(float, size.part.split(" to "))
    assert 7.5 < low < 8.5
    assert high > 9.8


def test_missing_cells_and_dates_are_parts(rng):
    frame = some_rows(rng)
    frame.loc[rng.uniform(size=600) < 0.1, "size"] = np.nan
    losses = rng.chisquare(1, 600) * np.where(frame["size"].isna(), 9, 1)
    assert regions(frame, losses)[0].part == "missing"
    losses = rng.chisquare(1, 600) * np.where(frame["day"] > "2024-03-20", 9, 1)
    first, last = map(pd.Timestamp, regions(frame, losses)[0].part.split(" to "))
    assert pd.Timestamp("2024-03-10") < first < last < pd.Timestamp("2024-04-20")


def test_one_large_error_is_no_region(rng):
    losses = rng.chisquare(1, 600)
    losses[0] = 1e4
    assert regions(some_rows(rng), losses) == ()


def test_inputs_that_go_together_are_not_known_apart(rng):
    a = rng.normal(size=500)
    support = Support.of(np.column_stack([a, a + 0.05 * rng.normal(size=500)]))
    assert support.holds(np.array([[0.0, 0.0], [1.5, 1.5]])).all()
    assert not support.holds(np.array([[-1.5, 1.5], [9.0, 9.0]])).any()
