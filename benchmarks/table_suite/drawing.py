"""The table and the figure of docs/tables.md, between its markers."""

from pathlib import Path
from typing import Any

import numpy as np

from docs.figures import style

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
_COLOURS = (style.ORANGE, style.BLUE, style.GREEN, style.PINK, style.INK, style.SKY)
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
    """CRPS relative to the best, against CPU seconds of fit: a pale point for each table, the medians larger."""
    figure = style.canvas(style.WIDTH, 3.8)
    axes = figure.subplots()
    medians = []
    for method, colour in zip(_NAMES, _COLOURS, strict=True):
        ran = [one for one in tables.values() if method in one]
        if not ran:
            continue
        seconds = [one[method]["fit_cpu"] for one in ran]
        worse = [one[method]["crps"] / _best(one, "crps") for one in ran]
        middle = (float(np.median(seconds)), float(np.median(worse)))
        axes.plot(seconds, worse, "o", ms=3.5, alpha=0.35, color=colour)
        axes.plot(*middle, "o", ms=9, color=colour, mec="white", zorder=4)
        medians.append((middle[1], f"{_NAMES[method]}: {middle[1]:.2f}, {middle[0]:.0f} s", colour))
    axes.text(1.02, 1.0, "medians, the best first", transform=axes.transAxes, va="top", weight="bold", size=9)
    for number, (_, label, colour) in enumerate(sorted(medians), start=1):
        axes.text(1.02, 1 - 0.09 * number, f"● {label}", transform=axes.transAxes, va="top", color=colour, size=10)
    axes.set(xscale="log", yscale="log", xlabel="CPU seconds to fit, from the launch of the process")
    axes.set_ylabel("CRPS / best CRPS of the table")
    axes.set_yticks([1, 1.1, 1.25, 1.5, 2, 3, 4], ["1", "1.1", "1.25", "1.5", "2", "3", "4"])
    axes.set_xticks([1, 3, 10, 30], ["1 s", "3 s", "10 s", "30 s"])
    axes.minorticks_off()
    axes.grid()
    path.parent.mkdir(exist_ok=True)
    style.save(figure, path)
