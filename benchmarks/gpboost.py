"""Compare GPBoost's Vecchia approximations with tightgp's Vecchia and blocks: time, and quality of predictions.

Both get the same rows and splits, Matérn-3/2 with one lengthscale, Gaussian noise, no mean, float64, the same stopping
rule (relative gain of the objective) and the same number of cores. Each run is a process of its own. Seconds are wall
time without imports; ours include k-means and all compilation, GPBoost's its search for neighbours. A run whose
result is in the file already is skipped.

    python -m benchmarks.gpboost --peers .venv-peers/bin/python
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table
from scipy import stats
from sklearn.metrics import root_mean_squared_error

from tightgp import datasets
from tightgp.app import scores
from tightgp.io.files import atomic_write

SETS = ["kin40k", "protein", "elevators"]
#: The times of the others are divided by that of the first one that was run.
METHODS = {
    "tight": "tightgp, Vecchia (no bound)",
    "pep": "tightgp, PITC 64 (no bound)",
    "half": "tightgp, Power EP ½ 64 (no bound)",
    "block": "tightgp, block 64",
    "vecchia": "GPBoost, Vecchia",
    "vif": "GPBoost, Vecchia + inducing points",
}
PEERS = ("vecchia", "vif")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", help="python of an environment with GPBoost; without it only tightgp runs")
    parser.add_argument("--sets", nargs="+", default=SETS)
    parser.add_argument("--sizes", nargs="+", default=["4000", "all"], help="most training rows, or all")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--seed", type=int, default=0, help="seed of the split, of k-means and of GPBoost's ordering")
    parser.add_argument("--test-rows", type=int, help="predict at most this many rows")
    parser.add_argument("--inducing", type=int, default=200)
    parser.add_argument(
        "--neighbours", type=int, default=64, help="nearest training rows of a prediction in tightgp; 0 for none"
    )
    parser.add_argument(
        "--peer-neighbours",
        type=int,
        default=30,
        help="neighbours in GPBoost's training; predictions use twice as many",
    )
    parser.add_argument("--steps", type=int, default=40, help="most steps of L-BFGS in tightgp")
    parser.add_argument("--peer-steps", type=int, default=1000, help="most steps in GPBoost")
    parser.add_argument("--tolerance", type=float, default=1e-6, help="relative gain under which training ends")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--timeout", type=float, default=3600.0, help="most seconds for one run")
    parser.add_argument("--again", action="store_true", help="run again what the file holds")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results") / "gpboost.json")
    a = parser.parse_args()
    console = Console()
    kept = json.loads(a.out.read_text())["results"] if a.out.exists() else []
    wanted: list[dict[str, Any]] = []
    for name in a.sets:
        try:
            whole = datasets.split(name, a.seed)
        except (ValueError, datasets.DatasetError) as wrong:
            raise SystemExit(str(wrong)) from None
        for rows in sizes(a.sizes, whole.train.num_data):
            # The seed shuffles each part, so its first rows are a random sample.
            train, test = whole.train.take(slice(rows)), whole.test.take(slice(a.test_rows))
            for method in a.methods:
                if method in PEERS and not a.peers:
                    continue
                settings = setting(a, name, method, train, test)
                wanted.append(settings)
                same = [record for record in kept if record["settings"] == settings]
                if same and "error" not in same[0] and not a.again:
                    continue
                python = a.peers if method in PEERS else sys.executable
                with console.status(f"{name}, {rows:,} rows, {METHODS[method]}"):
                    record = {"settings": settings, **run(python, settings, train, test, a.timeout)}
                if "error" in record:
                    reason = record["error"].strip().splitlines()[-1]
                    console.print(f"{name}, {rows:,} rows, {METHODS[method]} failed: {reason}", markup=False)
                kept = [other for other in kept if other["settings"] != settings] + [record]
                save(a.out, kept)
    shown = [record for settings in wanted for record in kept if record["settings"] == settings]
    console.print(table(shown, a))
    console.print(f"Results: {a.out}")


def sizes(wanted: list[str], count: int) -> list[int]:
    """Numbers of training rows, each once."""
    try:
        return list(dict.fromkeys(count if size == "all" else min(int(size), count) for size in wanted))
    except ValueError:
        raise SystemExit(f"--sizes takes numbers of rows and 'all', got {' '.join(wanted)}") from None


def setting(a: argparse.Namespace, name: str, method: str, train, test) -> dict[str, Any]:
    """The settings that identify a run; those that the method does not use are left out."""
    own = {"peer_neighbours": a.peer_neighbours} if method in PEERS else {"neighbours": a.neighbours}
    if method != "vecchia":
        own["inducing"] = a.inducing
    shared = {"rows": train.num_data, "test_rows": test.num_data, "seed": a.seed, "threads": a.threads}
    steps = a.peer_steps if method in PEERS else a.steps
    return {"set": name, "method": method, **shared, "steps": steps, "tolerance": a.tolerance, **own}


def run(python: str, settings: dict[str, Any], train, test, timeout: float) -> dict[str, Any]:
    """Run one worker in a fresh process, and score its predictions; or say why it failed."""
    count, own = str(settings["threads"]), settings["method"] not in PEERS
    # JAX has threads of its own, and more BLAS threads would slow them down. GPBoost does not use a GPU.
    env = {**os.environ, "OMP_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": "1" if own else count}
    env["JAX_PLATFORMS"] = "cpu"
    machine = f"{platform.machine()}, {settings['threads']} of {os.cpu_count()} cores"
    machine += f", Python {platform.python_version()}"
    worker = Path(__file__).with_name("gpboost_worker.py")
    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder, "data.npz"), Path(folder, "out.npz")
        np.savez(data, X=train.X, y=train.y, X_test=test.X)
        command = [python, "-P", str(worker), str(data), str(out), json.dumps(settings)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=timeout)
        except subprocess.TimeoutExpired:
            return {"error": f"took more than {timeout:g} seconds", "machine": machine}
        if done.returncode:
            return {"error": done.stderr[-2000:] or f"exit status {done.returncode}", "machine": machine}
        answer = json.loads(done.stdout.strip().splitlines()[-1])
        with np.load(out, allow_pickle=False) as arrays:
            mean, var = arrays["mean"], arrays["var"]
    if not (np.all(np.isfinite(mean)) and np.all(var > 0)):
        bad = int(np.sum(~(np.isfinite(mean) & (var > 0))))
        return {**answer, "error": f"{bad} of {len(mean)} predictions have no finite mean or no positive variance"} | {
            "machine": machine
        }
    return {**answer, **scored(test.y, mean, var), "machine": machine}


def scored(y, mean, var) -> dict[str, float]:
    sd = np.sqrt(var)
    half = stats.norm.ppf(0.975) * sd
    return {
        "log_density": float(np.mean(stats.norm.logpdf(y, mean, sd))),
        "rmse": root_mean_squared_error(y, mean),
        "coverage_95": scores.coverage(y, mean - half, mean + half),
        "width_95": float(2 * np.mean(half)),
    }


def save(path: Path, records: list[dict[str, Any]]) -> None:
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps({"results": records}, indent=1) + "\n")


def table(records: list[dict[str, Any]], a: argparse.Namespace) -> Table:
    """A line for each run, with times also as multiples of the first method's on the same rows."""
    machines = "; ".join(dict.fromkeys(record["machine"] for record in records))
    title = f"GPBoost and tightgp, Matérn-3/2, one lengthscale, split {a.seed}, {machines}"
    out = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    columns = ("fit s", "×", "predict s", "×", "log density", "RMSE", "in 95 %", "σ²", "ℓ", "steps")
    for column in ("set", "rows", "", *columns):
        out.add_column(column, justify="left" if column in ("set", "") else "right", no_wrap=True)
    base: dict[str, Any] = {}
    for record in records:
        s = record["settings"]
        first = (s["set"], s["rows"]) != base.get("rows")
        if first:
            out.add_section()
            base = {"rows": (s["set"], s["rows"])}
        head = [s["set"] if first else "", f"{s['rows']:,}" if first else "", METHODS[s["method"]]]
        if "error" in record:
            out.add_row(*head, "failed")
            continue
        base = base if "times" in base else base | {"times": (record["fit_seconds"], record["predict_seconds"])}
        cells = []
        for seconds, reference in zip((record["fit_seconds"], record["predict_seconds"]), base["times"], strict=True):
            cells += [f"{seconds:.2f}", f"{seconds / reference:.2f}"]
        cells += [f"{record['log_density']:.4f}", f"{record['rmse']:.4f}", f"{100 * record['coverage_95']:.1f}"]
        cells += [f"{record['noise_variance']:.4f}", f"{record['lengthscale']:.3f}"]
        out.add_row(*head, *cells, str(record["steps"]) + ("" if record["converged"] else " (not converged)"))
    return out


if __name__ == "__main__":
    main()
