"""The table and the figure of docs/tables.md, between its markers."""

from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
_BEGIN, _END = "<!-- tables -->", "<!-- end -->"
_NAMES = {
    "tightgp": "tightgp",
    "catboost": "CatBoost",
    "lightgbm": "LightGBM",
    "ngboost": "NGBoost",
    "sklearn_gp": "scikit-learn",
    "gpboost": "GPBoost",
}
_SCORES = {"rmse": ("RMSE", 1), "crps": ("CRPS", 1), "log_density": ("log density", -1)}


def write(results: dict[str, Any]) -> None:
    """Rewrite the page's tables and its figure from the results."""
    tables = {
        name: {m: one for m, one in found["methods"].items() if "error" not in one} | {"": found}
        for name, found in sorted(results["tables"].items(), key=lambda one: one[1]["rows"])
    }
    tables = {name: found for name, found in tables.items() if len(found) > 2}  # with two methods to compare
    page = ROOT / "docs" / "tables.md"
    text = page.read_text(encoding="utf-8")
    before, rest = text.split(_BEGIN)
    parts = [_ranks(tables), *(_table(tables, score) for score in _SCORES), _seconds(tables), _coverage(tables)]
    page.write_text(
        before + _BEGIN + "\n\n" + "\n\n".join(parts) + "\n\n" + _END + rest.split(_END)[1], encoding="utf-8"
    )
    _figure(tables, ROOT / "docs" / "figures" / "tables.png")


def _grid(header: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    return "\n".join([*lines, *("| " + " | ".join(row) + " |" for row in rows)])


def _best(found: dict[str, Any], score: str) -> float:
    sign = _SCORES[score][1]
    return sign * min(sign * one[score] for m, one in found.items() if m)


def _ranks(tables) -> str:
    """Median ranks, each among the methods that ran on a table."""
    rows = []
    for method, name in _NAMES.items():
        row, count = [name], sum(method in found for found in tables.values())
        for score, (_, sign) in _SCORES.items():
            ranks = [
                1 + sum(sign * other[score] < sign * found[method][score] for m, other in found.items() if m)
                for found in tables.values()
                if method in found
            ]
            wins = sum(rank == 1 for rank in ranks)
            row.append(f"{np.median(ranks):g} (best {wins})" if ranks else "")
        rows.append([*row, str(count)])
    return "Median rank, and how often best:\n\n" + _grid(["method", *(s[0] for s in _SCORES.values()), "tables"], rows)


def _table(tables, score: str) -> str:
    rows = []
    for name, found in tables.items():
        best = _best(found, score)
        cells = []
        for method in _NAMES:
            value = found.get(method, {}).get(score)
            text = "" if value is None else f"{value:.3f}"
            cells.append(f"**{text}**" if value is not None and value == best else text)
        rows.append([f"{name} ({found['']['rows']} × {found['']['columns']})", *cells])
    title = f"{_SCORES[score][0]}, in units of the targets' standard deviation:"
    return f"{title}\n\n" + _grid(["table", *_NAMES.values()], rows)


def _seconds(tables) -> str:
    rows = []
    for name, found in tables.items():
        cells = []
        for method in _NAMES:
            one = found.get(method)
            cells.append("" if one is None else f"{one['fit_cpu']:.1f} + {one['predict_cpu']:.2f}")
        rows.append([name, *cells])
    return "CPU seconds to fit, from the launch of the process, and to predict the held-out rows:\n\n" + _grid(
        ["table", *_NAMES.values()], rows
    )


def _coverage(tables) -> str:
    rows = []
    for name, found in tables.items():
        rows.append([name, *(f"{found[m]['coverage']:.1%}" if m in found else "" for m in _NAMES)])
    return "Held-out targets within the central 95 % intervals:\n\n" + _grid(["table", *_NAMES.values()], rows)


def _figure(tables, path: Path) -> None:
    """CRPS relative to the best, against CPU seconds of fit, a point for each method and table."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for method, name in _NAMES.items():
        found = [
            (one[method]["fit_cpu"], one[method]["crps"] / _best(one, "crps"))
            for one in tables.values()
            if method in one
        ]
        if found:
            seconds, worse = zip(*found, strict=True)
            size, alpha = (46, 0.95) if method == "tightgp" else (24, 0.7)
            axes.scatter(seconds, worse, s=size, alpha=alpha, label=name)
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="CPU seconds to fit, from the launch of the process",
        ylabel="CRPS / best CRPS",
    )
    axes.set_yticks([1, 1.1, 1.25, 1.5, 2], ["1", "1.1", "1.25", "1.5", "2"])
    axes.minorticks_off()
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, ncols=2, fontsize=9)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=150)
    plt.close(figure)
