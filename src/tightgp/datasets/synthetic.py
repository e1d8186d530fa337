"""Synthetic data for demonstrations and tests."""

from typing import TYPE_CHECKING

import numpy as np

from tightgp import checks
from tightgp.data.dataset import Dataset

if TYPE_CHECKING:
    import pandas as pd


def wiggly(num_data: int = 50, seed: int = 0, noise_sd: float = 0.28) -> Dataset:
    """Draw inputs uniformly from [0, 6], and a smooth function of them with Gaussian noise.

    >>> tgp.datasets.wiggly(50, seed=1).num_data
    50
    """
    checks.count("num_data", num_data)
    rng = np.random.default_rng(checks.seed("seed", seed))
    x = rng.uniform(0, 6, num_data)
    f = np.sin(2.2 * x) + 0.6 * np.cos(4.1 * x + 0.4) - 0.25 * (x - 3)
    return Dataset(x[:, None], f + noise_sd * rng.normal(size=num_data))


def count_rate(x):
    """The Poisson rate of `counts` at ``x``: ``3.5 + 3 sin x``."""
    return 3.5 + 3 * np.sin(x)


def counts(num_data: int = 50, seed: int = 0) -> Dataset:
    """Draw the paper's Poisson example: counts on a grid over [-10, 10] with the rate `count_rate`.

    >>> tgp.datasets.counts(5, seed=0).X[:, 0]
    array([-10.,  -5.,   0.,   5.,  10.])
    """
    checks.count("num_data", num_data)
    x = np.linspace(-10, 10, num_data)
    return Dataset(x[:, None], np.random.default_rng(checks.seed("seed", seed)).poisson(count_rate(x)))


def classes(num_data: int = 200, num_classes: int = 2, seed: int = 0, noise_sd: float = 0.2) -> Dataset:
    """Draw points on the arms of a spiral in the plane; the arm is the class. Each of the labels 0, 1, ... occurs.

    ``noise_sd`` is the standard deviation of a point's angle about its arm, in radians.

    >>> np.bincount(tgp.datasets.classes(60, num_classes=3).y.astype(int))
    array([20, 20, 20])
    """
    checks.count("num_classes", num_classes, least=2)
    checks.count("num_data", num_data, least=num_classes, hint="each class needs a row")
    rng = np.random.default_rng(checks.seed("seed", seed))
    labels = rng.permutation(np.arange(num_data) % num_classes)
    radius = rng.uniform(0.3, 2.0, num_data)
    angle = 2 * np.pi * labels / num_classes + 1.3 * radius + noise_sd * rng.normal(size=num_data)
    return Dataset(radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]), labels.astype(float))


def mixed_table(num_rows: int = 200, seed: int = 0, missing: float = 0.05) -> "pd.DataFrame":
    """Draw a table of flats: numbers, text and dates with missing cells. The last column, ``rent``, is the target.

    The rent is a function of area, rooms, district and the start of the lease, with noise. ``missing`` is the share of
    missing cells in each column but the rent, at least one cell unless it is zero.

    >>> list(tgp.datasets.mixed_table(100, seed=0).columns)
    ['area', 'rooms', 'district', 'since', 'rent']
    """
    import pandas as pd

    checks.count("num_rows", num_rows)
    checks.share("missing", missing)
    rng = np.random.default_rng(checks.seed("seed", seed))
    districts = {"Altstadt": 5.0, "Harbour": 3.0, "Westend": 1.0, "Neuville": 0.0}
    area = rng.gamma(8.0, 9.0, num_rows).round(1)
    rooms = np.clip(np.rint(area / 25 + rng.normal(0, 0.6, num_rows)), 1, 7)
    district = rng.choice(list(districts), num_rows, p=[0.2, 0.3, 0.3, 0.2])
    days = rng.integers(0, 3650, num_rows)
    price = 9.0 + np.array([districts[name] for name in district]) + 2e-3 * days + np.sin(2 * np.pi * days / 365.25)
    rent = area * price + 20 * rooms + 25 * rng.normal(size=num_rows)
    frame = pd.DataFrame(
        {
            "area": area,
            "rooms": rooms,
            "district": district.tolist(),
            "since": pd.to_datetime(np.datetime64("2014-01-01", "s") + days.astype("timedelta64[D]")),
            "rent": rent.round(2),
        }
    )
    empty = max(1, round(missing * num_rows)) if missing else 0
    for column in frame.columns[:-1]:
        frame.loc[rng.choice(num_rows, min(empty, num_rows), replace=False), column] = None
    return frame
