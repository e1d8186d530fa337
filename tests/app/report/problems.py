"""Data for the report's tests, with names and labels that would break a careless page."""

import numpy as np
import pandas as pd

SCRIPT = "<script>document.title='ran'</script>"
IMAGE = '"><img src=x onerror="document.title=1">'
SOURCE = """it's "rooms" & <b>more</b>.csv"""


def frame(n, seed):
    rng = np.random.default_rng(seed)
    when = pd.Timestamp("2021-03-01") + pd.to_timedelta(rng.integers(0, 700, n), unit="D")
    X = pd.DataFrame(
        {
            "area": rng.gamma(9, 9, n),
            SCRIPT: rng.normal(size=n),
            "district": rng.choice(["north", "south", "old town", IMAGE], n, p=[0.4, 0.3, 0.2, 0.1]),
            "sold": when,
            "rooms": rng.integers(1, 5, n),
        }
    )
    X.loc[rng.uniform(size=n) < 0.03, "area"] = np.nan
    return X


def prices(n, seed):
    """A table and prices, a little noisy."""
    X = frame(n, seed)
    rng = np.random.default_rng(seed + 1)
    area = X["area"].fillna(81.0)
    y = 40 + 2.1 * area - 12 * X[SCRIPT] + 25 * (X["district"] == "old town") + 15 * rng.normal(size=n)
    return X, pd.Series(y.to_numpy(), name="price")


def visits(n, seed):
    X = frame(n, seed)
    rate = np.exp(1.2 + 0.004 * X["area"].fillna(81.0) - 0.3 * X[SCRIPT])
    return X, pd.Series(np.random.default_rng(seed + 1).poisson(rate), name="visits")


def labels(n, seed, classes):
    rng = np.random.default_rng(seed)
    numbers = rng.integers(0, len(classes), n)
    centres = 1.3 * np.random.default_rng(99).normal(size=(len(classes), 3))
    X = pd.DataFrame(centres[numbers] + rng.normal(size=(n, 3)), columns=["petal", SCRIPT, "sepal"])
    return X, pd.Series(np.array(classes, object)[numbers], name="species")
