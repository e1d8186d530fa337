"""Collapsed bound: time of value+gradient against the peers, and peak memory at a million rows.

Everything runs in fresh processes, one after the other, and the whole round is repeated, so that a change of the
machine's pace hits all alike. The limit is the arithmetic that the algorithm must do (maths 3.2, triangular and
symmetric halves counted as halves) at the rate of a plain matrix product measured in the same round.

    python -m benchmarks.collapsed --peers .venv-peers/bin/python
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from statistics import median

from rich import box
from rich.console import Console
from rich.table import Table

N, D, M = 10_000, 26, 1024
MEMORY_N, MEMORY_D, MEMORY_M = 1_000_000, 8, 256
#: Products of N·M² multiply-adds: A, S, K̄uf and T are halves, Ā is whole.
FLOPS = 2 * N * M * M * (0.5 + 0.5 + 1 + 0.5 + 0.5)


def run(python, *arguments) -> dict:
    """One worker in a fresh process; its last line is JSON."""
    env = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "1"}
    worker = Path(__file__).with_name("workers.py")
    done = subprocess.run([python, str(worker), *map(str, arguments)], capture_output=True, text=True, env=env)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, arguments))} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", help="python of the peers' environment; without it only tightgp runs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="write the results as JSON")
    arguments = parser.parse_args()
    console = Console()
    ours, names = sys.executable, ["matmul", "diagonal", "standard"]
    peers = ["gpytorch", "gpflow"] if arguments.peers else []
    times: dict[str, list[float]] = {name: [] for name in [*names, *peers]}
    for number in range(arguments.rounds):
        with console.status(f"round {number + 1} of {arguments.rounds}"):
            for name in names:
                times[name].append(run(ours, name, N, D, M)["seconds"])
            for name in peers:
                times[name].append(run(arguments.peers, name, N, D, M)["seconds"])
    with console.status("peak memory at a million rows"):
        memory = run(ours, "memory", MEMORY_N, MEMORY_D, MEMORY_M)

    rate = 2 * N * M * M / median(times["matmul"])
    base = median(times["diagonal"])
    out = Table(
        title=f"Collapsed value+gradient, N={N}, D={D}, M={M}, float64", title_justify="left", box=box.SIMPLE_HEAD
    )
    for column in ("", "seconds", "spread", "against tightgp"):
        out.add_column(column, justify="right" if column else "left")
    labels = {
        "diagonal": "tightgp, diagonal",
        "standard": "tightgp, standard",
        "gpytorch": "GPyTorch",
        "gpflow": "GPflow",
    }
    for name in [*names[1:], *peers]:
        t = times[name]
        out.add_row(labels[name], f"{median(t):.3f}", f"{min(t):.3f}–{max(t):.3f}", f"{median(t) / base:.2f}×")
    limit = FLOPS / rate
    out.add_row(f"limit ({rate / 1e9:.0f} GFLOP/s)", f"{limit:.3f}", "", f"{limit / base:.2f}×")
    console.print(out)
    console.print(
        f"Peak memory, N={MEMORY_N:,}, D={MEMORY_D}, M={MEMORY_M}, float64, value+gradient: "
        f"{memory['beyond_data_mb']:.0f} MB beyond the data ({memory['data_mb']:.0f} MB) and the imports; "
        f"{memory['seconds']:.1f} s an evaluation."
    )
    if arguments.out:
        record = {
            "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
            "versions": {name: version(name) for name in ("jax", "jaxlib", "equinox", "numpy", "scipy")},
            "shape": {"N": N, "D": D, "M": M, "dtype": "float64"},
            "seconds": times,
            "gflops": rate / 1e9,
            "limit_seconds": limit,
            "memory": {"N": MEMORY_N, "D": MEMORY_D, "M": MEMORY_M, **memory},
        }
        arguments.out.write_text(json.dumps(record, indent=1) + "\n")
        console.print(f"Results: {arguments.out}")


if __name__ == "__main__":
    main()
