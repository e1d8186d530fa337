"""``python -m benchmarks.table_suite``: every method on every table, each in a fresh process.

Results are saved after each of them, and a run goes on with those that are missing; ``--seconds`` ends it early.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd

from benchmarks.running import ROOT, machine
from benchmarks.table_suite import drawing
from tightgp.io.files import atomic_write

OWN = "tightgp"
#: The methods, and the most training rows that each is given.
METHODS = {
    OWN: 100_000,
    "catboost": 100_000,
    "lightgbm": 100_000,
    "ngboost": 100_000,
    "sklearn_gp": 1_000,
    "gpboost": 10_000,
}
_WORKER = "benchmarks/table_suite/worker.py"


def ask(python: str, method: str, table: Path, timeout: float, cache: str | None) -> dict[str, Any]:
    """The answer of one worker. tightgp compiles everything anew unless ``cache`` names a folder for programs."""
    env = {**os.environ, "TIGHTGP_COMPILATION_CACHE": "1" if cache else "0"}
    if cache:
        env["JAX_COMPILATION_CACHE_DIR"] = cache
    if method != OWN:
        env.pop("PYTHONPATH", None)
    command = [python, _WORKER, method, str(table), repr(time.time())]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=ROOT, timeout=timeout)
    except subprocess.TimeoutExpired:
        return {"error": f"not done after {timeout:.0f} s"}
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        return {"error": lines[-1][-300:] if lines else f"ended with status {done.returncode}"}
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peers", help="Python of the peers' environment")
    parser.add_argument("--tables", type=Path, default=ROOT / ".tables", help="folder for the tables")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks/results/tables.json")
    parser.add_argument("--timeout", type=float, default=200.0, help="seconds for one method on one table")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start nothing new after this many seconds")
    parser.add_argument("--only", nargs="*", default=[], help="names of methods or tables")
    parser.add_argument("--again", action="store_true", help="measure also what is known")
    parser.add_argument("--cache", help="folder of compiled programs for tightgp; without it, it compiles everything")
    parser.add_argument("--draw", action="store_true", help="only draw docs/tables.md's table and figure")
    options = parser.parse_args()
    results = json.loads(options.out.read_text()) if options.out.exists() else {"machine": machine(), "tables": {}}
    if options.draw:
        drawing.write(results)
        return
    if options.peers:
        subprocess.run([options.peers, "-m", "benchmarks.table_suite.sets", str(options.tables)], check=True, cwd=ROOT)
    began = time.monotonic()
    for path in sorted(options.tables.glob("*.parquet"), key=lambda one: pd.read_parquet(one).shape[0]):
        shape = pd.read_parquet(path).shape
        here = results["tables"].setdefault(path.stem, {"rows": shape[0], "columns": shape[1] - 1, "methods": {}})
        for method, most in METHODS.items():
            named = {path.stem, method} & set(options.only) or not options.only
            if not named or 0.8 * shape[0] > most or (method in here["methods"] and not options.again):
                continue
            python = sys.executable if method == OWN else options.peers
            if not python or time.monotonic() - began > options.seconds:
                continue
            here["methods"][method] = ask(python, method, path, options.timeout, options.cache)
            print(path.stem, shape[0], method, json.dumps(here["methods"][method]), flush=True)
            with atomic_write(options.out) as temporary:
                temporary.write_text(json.dumps(results, indent=1) + "\n")
    drawing.write(results)


if __name__ == "__main__":
    main()
