"""The tables of a run. A column is a library; a cell has its number, the ratio to tightgp's, and the range."""

from collections.abc import Callable, Iterator
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from benchmarks import summaries
from benchmarks.rows import BASE, COLUMNS, ROWS
from benchmarks.summaries import Record, Summary

TITLES = {
    "collapsed": "Collapsed bound, value and gradient of all parameters, float64",
    "svgp": "SVGP, one Adam step, full covariance of q(u), everything trained",
    "fit": "Whole fits of the collapsed bound by L-BFGS-B, float64",
    "predict": "Prediction, mean and variance, float64",
    "start": "Until the first answer",
    "memory": "Peak memory of a collapsed value and gradient, beyond imports and data",
    "scaling": "Scaling of a collapsed value and gradient, D = 8, float64",
}
#: Notes below the tables.
REMARKS = {
    "fit": (
        "Same start and options for all. Objectives of the standard bound differ by each library's own jitter and by "
        "where L-BFGS-B stopped; the diagonal bound is another objective, and higher.",
    ),
    "predict": ("Each library's posterior holds its factors; the limit is one triangular product for the variances.",),
}
UNITS = (("s", 1.0), ("ms", 1e3), ("µs", 1e6))


def show(record: Record, console: Console) -> None:
    """Print everything that a record holds."""
    console.print(heading(record))
    for row in ROWS:
        mine = [case for case in record["cases"] if case["row"] == row]
        if mine:
            console.print(table(record, row, mine))
            for note in [*REMARKS.get(row, ()), *notes(record, mine)]:
                console.print(f"[dim]{escape(note)}[/dim]", highlight=False, soft_wrap=True)
            console.print()


def heading(record: Record) -> str:
    """Machine, versions, rates."""
    m = record["machine"]
    lines = [f"{m['processor']}, {m['cores']} core(s); load before: {m['load_before']:.1f}; {record['when']}"]
    for library, about in record["libraries"].items():
        if library == "limit":
            continue
        words = ", ".join(f"{name} {number}" for name, number in about.get("versions", {}).items())
        device = f" on {about['device']}" if about.get("device") else ""
        lines.append(f"{library}: {about.get('missing') or words + device}")
    for dtype in ("float64", "float32"):
        pace = summaries.rate(record, dtype)
        if pace:
            lines.append(f"limit: arithmetic alone, at {pace / 1e9:,.0f} GFLOP/s of matrix products ({dtype})")
    return escape("\n".join(lines))


def table(record: Record, row: str, cases: list[Record]) -> Table:
    """One row of the suite."""
    columns = [name for name in COLUMNS if any(name in case["answers"] for case in cases)]
    limited = any(case["flops"] for case in cases)
    out = Table(title=TITLES[row], title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    out.add_column("", no_wrap=True)
    for name in columns:
        out.add_column(COLUMNS[name].title, justify="right")
    if limited:
        out.add_column("limit", justify="right")
    for case in cases:
        for label, take, kind in lines(row, case):
            cells = _cells(record, case, columns, take, kind)
            if limited:
                cells.append(_limit(record, case, take))
            out.add_row(label, *cells)
    if row == "scaling":
        for along in ("N", "M"):
            slopes = [summaries.exponent(*summaries.curve(record, along, name)) for name in columns]
            cells = ["" if slope is None else f"{slope:.2f}" for slope in slopes]
            out.add_row(f"exponent of {along}", *cells, *([""] if limited else []))
    return out


def lines(row: str, case: Record) -> Iterator[tuple[str, Callable[[Record], float | None], str]]:
    """The lines of a case: label, number in an answer, and its unit ("time", "megabytes", "count" or "nats")."""
    title = case["title"]
    if row == "fit":
        yield f"{title}: again", summaries.usual, "time"
        yield "  first in a process", summaries.named("first"), "time"
        yield "  evaluations", summaries.named("evaluations"), "count"
        yield "  objective reached, nats", summaries.named("objective"), "nats"
    elif row == "predict":
        yield title, summaries.best, "time"
        yield "  making the posterior", summaries.named("posterior"), "time"
    elif row == "start" and case["task"] == "collapsed":
        yield "compilation (first call less a later one)", summaries.compiling, "time"
    elif row == "memory":
        yield title, summaries.named("peak_mb"), "megabytes"
        yield "  the data", summaries.named("data_mb"), "plain megabytes"
    else:
        yield title, summaries.best, "time"


def _cells(record: Record, case: Record, columns: list[str], take, kind: str) -> list[str]:
    found = {name: summaries.summary(case, name, take) for name in columns}
    base = found.get(BASE)
    middles = [s.middle for s in found.values() if s is not None]
    unit = _unit(base.middle if base else min(middles, default=1.0))
    return [_cell(record, case, name, found[name], base, kind, unit) for name in columns]


def _cell(record: Record, case: Record, name: str, found: Summary | None, base: Summary | None, kind: str, unit) -> str:
    if found is None:
        why = summaries.failure(record, case, name, COLUMNS[name].library)
        return "" if why is None else "[dim]not installed[/dim]" if "not installed" in why else "failed"
    if kind == "count":
        return f"{found.middle:.0f}"
    if kind == "nats":
        return f"{found.middle:.4f}"
    if kind == "plain megabytes":
        return f"{found.middle:.0f} MB"
    suffix, factor = ("MB", 1.0) if kind == "megabytes" else unit
    ratio = "" if base is None or not base.middle else f"  {found.middle / base.middle:.2f}×"
    words = f"{_digits(factor * found.middle)} {suffix}{ratio}"
    if found.low == found.high:
        return words
    return f"{words}\n[dim]{_digits(factor * found.low)}–{_digits(factor * found.high)}[/dim]"


def _limit(record: Record, case: Record, take) -> str:
    seconds, base = summaries.limit(record, case), summaries.summary(case, BASE, take)
    if seconds is None or take is not summaries.best:
        return ""
    suffix, factor = _unit(base.middle if base else seconds)
    return f"{_digits(factor * seconds)} {suffix}" + (f"  {seconds / base.middle:.2f}×" if base else "")


def _unit(seconds: float) -> tuple[str, float]:
    return UNITS[0] if seconds >= 1 else UNITS[1] if seconds >= 1e-3 else UNITS[2]


def _digits(number: float) -> str:
    """A number with three digits and no exponent."""
    size = abs(number)
    return f"{number:.0f}" if size >= 100 else f"{number:.1f}" if size >= 10 else f"{number:.2f}"


def notes(record: Record, cases: list[Record]) -> Iterator[str]:
    """The fastest variants, and failures."""
    for case in cases:
        for column, ways in case["variants"].items():
            times = {name: value for name, value in ways.items() if isinstance(value, float)}
            if times:
                fastest = min(times, key=lambda name: times[name])
                others = ", ".join(
                    _other(name, value, times[fastest]) for name, value in ways.items() if name != fastest
                )
                yield f"{case['title']}, {COLUMNS[column].title}: {fastest} (tried: {others})"
    for case in cases:
        for column in case["answers"]:
            why: Any = summaries.failure(record, case, column, COLUMNS[column].library)
            if why and "not installed" not in why:
                yield f"{case['title']}, {COLUMNS[column].title} failed: {why}"


def _other(name: str, value: Any, fastest: float) -> str:
    if isinstance(value, float):
        return f"{name} {value / fastest:.2f}×"
    return f"{name}: {value.get('skipped') or value.get('error', 'no answer')}"
