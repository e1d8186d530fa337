"""Minibatch SVGP: time of one Adam step at M = batch = 1024, against GPyTorch in the same run.

A step is what training does with a batch: the bound of a Gaussian SVGP with a full whitened q(u), its gradient in
every parameter, and Adam's update. Everything runs in fresh processes, one after the other, and the round is
repeated, so that a change of the machine's pace hits all alike.

    python -m benchmarks.svgp --peers .venv-peers/bin/python
"""

import argparse
import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from statistics import median

from rich import box
from rich.console import Console
from rich.table import Table

from benchmarks.collapsed import run

D, M, BATCH = 8, 1024, 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", help="python of an environment with GPyTorch; without it only tightgp runs")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="write the results as JSON")
    arguments = parser.parse_args()
    console = Console()
    ours = ["matmul", "diagonal", "standard"]
    times: dict[str, dict[str, list[float]]] = {}
    device = ""
    for dtype in ("float64", "float32"):
        times[dtype] = {name: [] for name in [*ours, *(["gpytorch"] if arguments.peers else [])]}
        for number in range(arguments.rounds):
            with console.status(f"{dtype}, round {number + 1} of {arguments.rounds}"):
                for name, seconds in times[dtype].items():
                    python = arguments.peers if name == "gpytorch" else sys.executable
                    answer = run(python, f"svgp-{name}", BATCH, D, M, dtype)
                    seconds.append(answer["seconds"])
                    device = answer.get("device", device)
    out = Table(title=f"SVGP step, M = batch = {M}, D = {D}, on {device}", title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("", "precision", "ms", "spread", "against tightgp"):
        out.add_column(column, justify="right" if column not in ("", "precision") else "left")
    labels = {"diagonal": "tightgp, diagonal", "standard": "tightgp, standard", "gpytorch": "GPyTorch, standard"}
    for dtype, rows in times.items():
        base = median(rows["diagonal"])
        for name, label in labels.items():
            if name in rows:
                t = rows[name]
                spread = f"{1e3 * min(t):.2f}–{1e3 * max(t):.2f}"
                out.add_row(label, dtype, f"{1e3 * median(t):.2f}", spread, f"{median(t) / base:.2f}×")
        rate = 2 * BATCH * M * M / median(rows["matmul"])
        out.add_row(f"a product M×M at {rate / 1e9:.0f} GFLOP/s", dtype, f"{1e3 * median(rows['matmul']):.2f}", "", "")
    console.print(out)
    if arguments.out:
        record = {
            "machine": f"{device}; {platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
            "shape": {"M": M, "batch": BATCH, "D": D},
            "seconds": times,
        }
        arguments.out.write_text(json.dumps(record, indent=1) + "\n")
        console.print(f"Results: {arguments.out}")


if __name__ == "__main__":
    try:
        main()
    except subprocess.SubprocessError as error:
        raise SystemExit(str(error)) from None
