"""``python -m benchmarks.small_tables``: does a default fit of a small table ever collapse?

Synthetic tables of 50 to 500 rows and 2 to 20 columns, with signal from none to strong. Each default fit is compared
with noise alone, which it must not be below, and with the best of twenty exact GPs trained from random starts.
"""

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tightgp import SparseGPRegressor
from tightgp.data import Dataset
from tightgp.estimators import dense
from tightgp.estimators.exact import Exact
from tightgp.estimators.plan import for_regression
from tightgp.estimators.start import REST, noise_alone, search
from tightgp.io.files import atomic_write

ROWS, COLUMNS, SIGNALS = (50, 100, 200, 500), (2, 5, 10, 20), (0.0, 0.3, 1.0, 3.0)
KERNEL = "matern32"
_RESULTS = Path(__file__).with_name("results") / "small-tables.json"


class Outcome(NamedTuple):
    """Log evidences in total nats."""

    fitted: float
    noise: float
    best: float

    @property
    def collapsed(self) -> bool:
        """Whether the fit is below noise alone, by more than rounding."""
        return self.fitted < self.noise - 1e-5

    @property
    def far(self) -> bool:
        """Whether the fit is more than one nat below the best."""
        return self.fitted < self.best - 1


def table(n: int, d: int, signal: float, seed: int) -> Dataset:
    """A table whose target is smooth in up to three columns, with ``signal`` times the noise's standard deviation."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    used = min(d, int(rng.integers(1, 4)))
    f = np.sum(np.sin(rng.uniform(0.5, 3.0, used) * X[:, :used] + rng.uniform(0, 6, used)), axis=1)
    y = signal * (f - f.mean()) / f.std() + rng.normal(size=n)
    return Dataset((X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std())


def default_fit(data: Dataset) -> float:
    """The log evidence of the default fit."""
    settings = SparseGPRegressor().check_parameters()
    start = search(None, tuple(f"x{i}" for i in range(data.num_inputs)), data, settings)
    return Exact(start, for_regression(settings, data.num_data, exact=True), KERNEL).train(data, settings).objective


def best_of_random_starts(data: Dataset, starts: int, seed: int) -> float:
    """The best log evidence of exact GPs from random starts."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(starts):
        lengths = np.exp(rng.normal(np.log(np.sqrt(data.num_inputs)), 1.0, data.num_inputs))
        noise = rng.uniform(0.02, 0.98)
        start = dense.Hyperparameters(lengths, 1 - noise, noise)
        found.append(dense.train(start, KERNEL, data.X, data.targets, 200, REST).evidence)
    return max(found)


def outcome(n: int, d: int, signal: float, seed: int, starts: int = 20) -> Outcome:
    """One table."""
    data = table(n, d, signal, seed)
    return Outcome(default_fit(data), noise_alone(data.targets), best_of_random_starts(data, starts, seed))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=list(ROWS), choices=ROWS, help="numbers of rows")
    parser.add_argument("--seeds", type=int, default=3, help="tables of each shape and signal")
    parser.add_argument("--out", type=Path, default=_RESULTS, help="JSON file of the results")
    options = parser.parse_args()
    record: dict[str, Any] = {"when": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "tables": []}
    for case in itertools.product(options.rows, COLUMNS, SIGNALS, range(options.seeds)):
        one = outcome(*case)
        record["tables"].append(dict(zip(("rows", "columns", "signal", "seed"), case, strict=True)) | one._asdict())
        if one.collapsed or one.far:
            print(f"{case}: fitted {one.fitted:.2f}, noise alone {one.noise:.2f}, best {one.best:.2f}", flush=True)
        with atomic_write(options.out) as path:
            path.write_text(json.dumps(record, indent=1) + "\n")
    found = [Outcome(*(table[name] for name in Outcome._fields)) for table in record["tables"]]
    below, far = sum(one.collapsed for one in found), sum(one.far for one in found)
    print(f"{len(found)} tables: {below} below noise alone, {far} more than 1 nat below the best of twenty starts")


if __name__ == "__main__":
    main()
