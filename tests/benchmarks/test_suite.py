"""The suite's arithmetic and tables, from a made-up record: nothing is timed here."""

import io
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from benchmarks import picture, readme, summaries, tables
from benchmarks.rows import COLUMNS, ROWS, cases
from benchmarks.running import ask


def answer(seconds):
    return {
        "seconds": [2 * seconds, seconds, 3 * seconds],
        "first": 5 * seconds,
        "posterior": seconds,
        "objective": -12.5,
        "evaluations": 30,
        "peak_mb": 100.0,
        "data_mb": 10.0,
    }


@pytest.fixture(scope="module")
def record():
    """tightgp takes 1, 2 and 3 s in three rounds, GPyTorch twice as long; GPflow fails; GPJax is not there."""
    kept = []
    for case in cases(ROWS, True, "gpytorch"):
        answers = {"product": [{"seconds": [1.0], "flops_per_second": 1e9}]}
        if case.row != "rate":
            answers = {
                "diagonal": [answer(t) for t in (1.0, 2.0, 3.0)],
                "standard": [answer(1.0)],
                "mixed": [answer(1.0)],
                "gpytorch": [{**answer(t), "variant": "a"} for t in (2.0, 4.0, 6.0)],
                "gpflow": [{"error": "ValueError: [it] broke"}],
                "gpjax": [],
            }
        kept.append(
            {
                **case._asdict(),
                "answers": {name: answers[name] for name in case.columns},
                "variants": {"gpytorch": {"a": 2.0, "b": 3.0, "c": {"error": "no"}}} if case.row == "svgp" else {},
            }
        )
    libraries = {column.library: {"versions": {}, "device": "cpu"} for column in COLUMNS.values()}
    libraries["gpjax"] = {"missing": "not installed (No module named 'gpjax')"}
    machine = {"processor": "a processor", "cores": 2, "load_before": 0.0}
    return {"when": "now", "machine": machine, "settings": {}, "libraries": libraries, "cases": kept}


def case_of(record, row):
    return next(case for case in record["cases"] if case["row"] == row)


@given(st.floats(-3, 3), st.floats(1e-6, 1e3), st.sets(st.integers(1, 10_000), min_size=2, max_size=6))
def test_exponent_of_a_power_law(power, factor, sizes):
    sizes = [float(size) for size in sizes]
    assert summaries.exponent(sizes, [factor * size**power for size in sizes]) == pytest.approx(power, abs=1e-6)


def test_exponent_needs_two_sizes():
    assert summaries.exponent([4.0], [1.0]) is None


def test_summary_is_the_median_of_each_rounds_best(record):
    assert summaries.summary(case_of(record, "collapsed"), "diagonal") == (2.0, 1.0, 3.0)
    assert summaries.summary(case_of(record, "collapsed"), "gpflow") is None
    assert summaries.summary(case_of(record, "fit"), "diagonal", summaries.usual) == (4.0, 2.0, 6.0)
    assert summaries.summary(case_of(record, "start"), "diagonal", summaries.compiling) == (8.0, 4.0, 12.0)


def test_limit_is_the_arithmetic_at_the_measured_rate(record):
    case = case_of(record, "collapsed")
    n, m = case["sizes"]["n"], case["sizes"]["m"]
    assert summaries.limit(record, case) == pytest.approx(6 * n * m**2 / 1e9)
    assert summaries.limit(record, case_of(record, "fit")) is None


def test_tables_say_ratios_failures_and_what_is_missing(record):
    console = Console(file=io.StringIO(), width=200)
    tables.show(record, console)
    text = console.file.getvalue()
    assert "4.00 s  2.00×" in text
    assert "2.00–6.00" in text
    assert "not installed" in text
    assert "GPflow failed: ValueError: [it] broke" in text
    assert "GPyTorch: a (tried: b 1.50×, c: no)" in text
    assert all(tables.TITLES[row] in text for row in ROWS)


def test_every_case_names_known_columns_and_has_its_own_title():
    for quick in (True, False):
        found = cases(ROWS, quick, "gpflow")
        assert {case.row for case in found} == {"rate", *ROWS}
        assert all(set(case.columns) <= set(COLUMNS) for case in found)
        assert len({(case.row, case.title) for case in found}) == len(found)


def test_worker_that_is_not_there_and_one_that_breaks():
    assert "not installed" in ask(sys.executable, "nothing", "probe", {}, 60)["missing"]
    assert "error" in ask("/nowhere/python", "imports", "probe", {}, 60)
    assert "KeyError" in ask(sys.executable, "imports", "no task", {}, 60)["error"]


def test_picture(record, tmp_path):
    path = picture.picture([record], tmp_path / "speed.png")
    assert path.read_bytes().startswith(b"\x89PNG")
    assert picture.dot_lines(record)[0].seconds["gpytorch"] == 4.0


@pytest.mark.parametrize(("seconds", "words"), [(1e-6, "1 µs"), (1e-3, "1 ms"), (0.1, "100 ms"), (10.0, "10 s")])
def test_duration(seconds, words):
    assert picture.duration(seconds) == words


def test_the_readme_has_the_numbers_of_the_committed_run():
    root = Path(readme.__file__).parents[1]
    run = json.loads((root / "benchmarks" / "results" / "suite.json").read_text())
    assert readme.BEGIN + readme.table(run) + "\n" + readme.END in (root / "README.md").read_text(encoding="utf-8")
