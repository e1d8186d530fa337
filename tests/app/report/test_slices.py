"""Predictions along one input."""

import numpy as np
import pandas as pd
import pytest

from tests.app.report import fakes, problems
from tightgp.app.report import gather, render


def test_slices_vary_one_column_and_fix_the_others(priced, contents):
    estimator, X, _y, _ = priced
    found = {one.column: one for one in contents["regression"].slices}
    assert list(found) == ["area", problems.SCRIPT, "district", "sold", "rooms"]
    area = found["area"]
    assert area.at[0] == pytest.approx(X["area"].quantile(0.01))
    assert area.at[-1] == pytest.approx(X["area"].quantile(0.99))
    fixed = dict(contents["regression"].fixed)
    assert fixed["district"] == X["district"].mode()[0]
    row = X.iloc[[0] * 2].copy()
    row["area"] = [area.at[0], area.at[-1]]
    row[problems.SCRIPT] = X[problems.SCRIPT].sort_values().iloc[149]
    row["district"] = X["district"].mode()[0]
    row["sold"] = X["sold"].sort_values().iloc[149]
    row["rooms"] = int(X["rooms"].sort_values().iloc[149])
    np.testing.assert_allclose(estimator.predict(row), [area.curves[0].mean[0], area.curves[0].mean[-1]])
    assert found["district"].kind == found["rooms"].kind == "category"
    assert found["district"].labels == tuple(sorted(X["district"].unique()))
    assert found["rooms"].labels == ("1", "2", "3", "4")
    assert found["sold"].kind == "time"
    assert found["sold"].at[0] == pytest.approx(
        X["sold"].astype("datetime64[s]").astype("int64").quantile(0.01), rel=1e-6
    )


def test_slices_of_all_kinds_of_columns(rng):
    n = 60
    X = pd.DataFrame(
        {
            "lag": pd.to_timedelta(rng.uniform(0, 9, n), unit="D"),
            "flag": rng.uniform(size=n) < 0.5,
            "count": pd.array(rng.integers(0, 40, n), "Int64"),
            "when": pd.Series(pd.date_range("2022-01-01", periods=n, freq="h", tz="Europe/Paris")),
            "month": pd.Series(pd.period_range("2001-01", periods=n, freq="M")),
            "kind": pd.Categorical(rng.choice(["x", "y"], n)),
            "unused": pd.date_range("2022-01-01", periods=n).date,
        }
    )
    X.loc[3, "count"] = pd.NA
    y = X["lag"].dt.total_seconds() / 86400 + 0.1 * rng.normal(size=n)
    found = gather(fakes.FakeRegressor().fit(X, y), X, y, heldout=(X, y))
    kinds = {one.column: one.kind for one in found.slices}
    numbers, times = {"lag (days)": "number", "count": "number"}, {"when": "time", "month": "time"}
    assert kinds == {**numbers, **times, "flag": "category", "kind": "category"}, "the six most relevant columns"
    lag = found.slices[0]
    assert lag.at[0] == pytest.approx((X["lag"] / pd.Timedelta("1D")).quantile(0.01))
    assert lag.curves[0].mean[-1] - lag.curves[0].mean[0] == pytest.approx(lag.at[-1] - lag.at[0], rel=0.1)
    render(found)
