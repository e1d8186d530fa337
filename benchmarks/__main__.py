"""The benchmark suite: tightgp against GPyTorch, GPflow and GPJax, all in one run, with ratios.

Every measurement runs in a fresh process. Each round goes through all libraries, so that a change in the machine's
speed affects all of them. A number is the median over the rounds of each process's best time.

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
    parser.add_argument("--peers", help="python with GPyTorch and GPflow, or one of them; without it only tightgp runs")
    parser.add_argument("--gpjax", help="python with GPJax, which needs a different NumPy from GPflow's")
    parser.add_argument(
        "--rows", default=",".join(ROWS), help=f"rows of the suite to run, with commas: {','.join(ROWS)}"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="tiny sizes and one round, to see that it works")
    parser.add_argument("--timeout", type=float, default=900.0, help="time limit of one process, in seconds")
    parser.add_argument("--out", type=Path, help="write the results as JSON to this file, after every measurement")
    parser.add_argument("--show", type=Path, help="print the tables of such a file and measure nothing")
    arguments = parser.parse_args()
    if arguments.show:
        tables.show(json.loads(arguments.show.read_text()), _console())
        return
    rows = tuple(arguments.rows.split(","))
    unknown = [row for row in rows if row not in ROWS]
    if unknown:
        parser.error(f"--rows: {unknown[0]!r} is not one of {', '.join(ROWS)}")
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
        console.print("Interrupted; these are the results so far.")
    tables.show(suite.record, console)
    console.print(
        f"{time.perf_counter() - began:.0f} s in all." + (f" Results: {arguments.out}" if arguments.out else "")
    )


def _console() -> Console:
    """A console whose lines are as wide as the tables need when output goes to a file."""
    return Console() if sys.stdout.isatty() else Console(width=150)


if __name__ == "__main__":
    main()
