"""A table of flights as people have it: from the file to a report in one attempt, and to predictions of other rows."""

import numpy as np
import pandas as pd

from tests.app.cli.conftest import run


def flights(count, seed=0):
    """Delays on arrival, with 99 airports, a tail number for every few rows, times as HHMM and cells missing."""
    rng = np.random.default_rng(seed)
    minutes = rng.integers(5 * 60, 23 * 60, count)
    distance = rng.integers(100, 2600, 99)
    airport = rng.integers(0, 99, count)
    late = np.round(rng.exponential(12, count) - 5)
    frame = pd.DataFrame(
        {
            "year": 2013,
            "month": rng.integers(1, 13, count),
            "day": rng.integers(1, 29, count),
            "sched_dep_time": minutes // 60 * 100 + minutes % 60,
            "dep_delay": late,
            "carrier": rng.choice(["AA", "B6", "DL", "EV", "UA"], count),
            "flight": rng.integers(1, 6000, count),
            "tailnum": [f"N{k}" for k in rng.integers(100, 100 + count // 4, count)],
            "origin": rng.choice(["EWR", "JFK", "LGA"], count),
            "dest": [f"A{k:02d}" for k in airport],
            "distance": distance[airport],
            "arr_delay": late + 6 * rng.normal(size=count) + 4 * (minutes > 17 * 60),
        }
    )
    hours = pd.Timestamp("2013-01-01") + pd.to_timedelta(rng.integers(0, 365 * 24, count), unit="h")
    frame["time_hour"] = hours.strftime("%Y-%m-%dT%H:00:00Z")
    frame.loc[rng.uniform(size=count) < 0.03, ["dep_delay", "arr_delay", "tailnum"]] = np.nan
    return frame


def test_from_the_file_to_a_report_and_predictions(tmp_path):
    flights(500).to_csv(tmp_path / "flights.csv", index=False)
    ran = run("fit", tmp_path / "flights.csv", "--target", "arr_delay", "--out", tmp_path / "m", "--max-iter", "20")
    assert ran.code == 0, ran.err
    assert "of 500 rows have no target and were left out" in ran.err
    assert "year: is '2013' in every row, left out" in ran.err
    assert len(ran.out.splitlines()) <= 12
    assert "boosted trees" in ran.out
    page = (tmp_path / "m" / "report.html").read_text(encoding="utf-8")
    assert "dest (category, 9" in page
    new = flights(20, seed=1).drop(columns="arr_delay").assign(dest="ZZZ")
    new.to_csv(tmp_path / "new.csv", index=False)
    ran = run("predict", tmp_path / "m", tmp_path / "new.csv", "--out", tmp_path / "p.csv")
    assert ran.code == 0, ran.err
    assert pd.read_csv(tmp_path / "p.csv")["mean"].notna().all()
