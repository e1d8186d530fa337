"""The benchmark suite: tightgp against GPyTorch, GPflow and GPJax, all in one run, with ratios.

Every measurement has a fresh process, and the rounds go through all libraries in turn, so that a change of the
machine's pace hits all alike. Numbers are medians over the rounds of each process's best.

    python -m benchmarks --peers .venv-peers/bin/python --gpjax .venv-gpjax/bin/python --out results.json
"""

import argparse
import json
import sys
import time
from pathlib import Path

from rich.console import Console

from benchmarks import tables
from benchmarks.rows import ROWS, cases
from benchmarks.running import Suite
from benchmarks.workers.common import SEED


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", help="python with GPyTorch and GPflow, or one of them; without it tightgp is alone")
    parser.add_argument("--gpjax", help="python with GPJax, which needs another NumPy than GPflow")
    parser.add_argument("--rows", default=",".join(ROWS), help=f"which, with commas: {','.join(ROWS)}")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="tiny sizes and one round, to see that everything runs")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds that one process may take")
    parser.add_argument("--out", type=Path, help="write the results as JSON, after every measurement")
    parser.add_argument("--show", type=Path, help="print the tables of such a file, and measure nothing")
    arguments = parser.parse_args()
    if arguments.show:
        tables.show(json.loads(arguments.show.read_text()), _console())
        return
    rows = tuple(arguments.rows.split(","))
    unknown = [row for row in rows if row not in ROWS]
    if unknown:
        parser.error(f"--rows: {unknown[0]!r} is none of {', '.join(ROWS)}")
    if arguments.rounds < 1:
        parser.error(f"--rounds must be at least 1, got {arguments.rounds}")
    rounds = 1 if arguments.quick else arguments.rounds

    console, began = _console(), time.perf_counter()
    peers = arguments.peers
    pythons = {"tightgp": sys.executable, "limit": sys.executable, "gpytorch": peers, "gpflow": peers}
    pythons["gpjax"] = arguments.gpjax or peers
    settings = {"rounds": rounds, "quick": arguments.quick, "rows": rows, "seed": SEED, "timeout": arguments.timeout}
    suite = Suite(pythons, settings, arguments.out)
    with console.status("what is installed"):
        libraries = suite.probe()
    if "missing" in libraries["tightgp"]:
        raise SystemExit(f"tightgp cannot be imported: {libraries['tightgp']['missing']}")
    peer = "gpytorch" if "missing" in libraries["gpflow"] else "gpflow"
    try:
        suite.run(cases(rows, arguments.quick, peer), rounds, console)
    except KeyboardInterrupt:
        console.print("Interrupted; this is what there was.")
    tables.show(suite.record, console)
    console.print(
        f"{time.perf_counter() - began:.0f} s in all." + (f" Results: {arguments.out}" if arguments.out else "")
    )


def _console() -> Console:
    """In a file lines are as wide as the tables need."""
    return Console() if sys.stdout.isatty() else Console(width=150)


if __name__ == "__main__":
    main()
