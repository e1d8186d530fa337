"""Train the collapsed bound on a million rows: HouseElectric's 1.31 million, all of them in every evaluation.

L-BFGS on the diagonal bound, Matérn-3/2 with a lengthscale for each input, inducing points by k-means on a part of the
rows. Time and memory are measured: peak memory of the device, and of the process without mapped files. With
``--mapped`` the rows are written to disk first and read from there, chunk by chunk, in every evaluation.

    python -m experiments.million --inducing 1024 --steps 60 --out FILE.json
    python -m experiments.million --inducing 256 --steps 15 --mapped /tmp/rows --out FILE.json
"""

import argparse
import json
import platform
import threading
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

import tightgp as tgp
from tightgp.training.objective import Objective

#: Inducing points are chosen among this many rows.
CANDIDATES = 100_000
PARTS = (8, 4, 2, 1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="houseelectric", help="another data set by name")
    parser.add_argument("--inducing", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=60, help="most steps of L-BFGS")
    parser.add_argument("--seed", type=int, default=0, help="seed of the split and of the first inducing points")
    parser.add_argument("--mapped", type=Path, help="write the rows to files in this folder, and read them from there")
    parser.add_argument("--precision", choices=["full", "mixed"], default="full")
    parser.add_argument("--test-rows", type=int, default=100_000)
    parser.add_argument("--out", type=Path, help="write the results as JSON")
    a = parser.parse_args()
    console = Console()
    try:
        parts = tgp.datasets.split(a.set, a.seed)
    except (ValueError, tgp.datasets.DatasetError) as wrong:
        raise SystemExit(str(wrong)) from None
    train, test = parts.train, parts.test.take(slice(a.test_rows))
    chosen = np.random.default_rng(a.seed).choice(train.num_data, min(CANDIDATES, train.num_data), replace=False)
    with console.status("inducing points"):
        Z = tgp.inducing.kmeans(np.asarray(train.X)[chosen], a.inducing, seed=a.seed, max_iter=10)
    if a.mapped is not None:
        train = mapped(train, a.mapped)
        del parts
    kernel = tgp.kernels.Matern32(1.0, np.ones(train.num_inputs))
    model = tgp.SGPR(kernel, Z, 0.1, precision=a.precision)
    record: dict[str, Any] = {
        "set": a.set,
        "rows": train.num_data,
        "inputs": train.num_inputs,
        "inducing": a.inducing,
        "seed": a.seed,
        "precision": a.precision,
        "mapped": a.mapped is not None,
        "device": jax.devices()[0].device_kind,
        "versions": {"python": platform.python_version(), "jax": jax.__version__, "tightgp": tgp.__version__},
    }
    record["evaluations"] = [evaluation(model, train, part, console) for part in PARTS]
    slopes = np.polyfit(*np.log([[r["rows"], r["seconds"]] for r in record["evaluations"]]).T, 1)
    record["exponent"] = float(slopes[0])
    with PeakMemory() as peak:
        result = tgp.fit(model, train, steps=a.steps)
    post = result.model.posterior(train)
    density = np.asarray(post.log_density(np.asarray(test.X), np.asarray(test.y)))
    error = np.asarray(post.predict_f(np.asarray(test.X))[0]) - np.asarray(test.y)
    record["fit"] = {
        "seconds": result.seconds,
        "evaluations": result.evaluations,
        "steps": result.steps,
        "objective": result.objective,
        "message": result.message,
        "test_log_density": float(np.mean(density)),
        "test_rmse": float(np.sqrt(np.mean(error**2))),
        "test_rows": test.num_data,
        **peak.megabytes(),
    }
    show(record, console)
    if a.out:
        a.out.write_text(json.dumps(record, indent=1) + "\n")
        console.print(f"Results: {a.out}")


def mapped(data: tgp.Dataset, folder: Path) -> tgp.Dataset:
    """Write the rows to files, and map them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("X", "y"):
        np.save(folder / f"{name}.npy", np.asarray(getattr(data, name)))
    return tgp.Dataset(*(np.load(folder / f"{name}.npy", mmap_mode="r") for name in ("X", "y")))


def evaluation(model, data: tgp.Dataset, part: int, console: Console) -> dict[str, Any]:
    """Value and gradient on the first ``part`` rows: time and peak memory."""
    n = data.num_data // part
    with console.status(f"{n:,} rows"):
        problem = Objective(*model.prepare(tgp.Dataset(data.X[:n], data.y[:n])))
        start = problem.to_vector(problem.start)
        jax.block_until_ready(problem.at_vector(start))
        with PeakMemory() as peak:
            began = time.perf_counter()
            jax.block_until_ready(problem.at_vector(start))
            seconds = time.perf_counter() - began
    return {"rows": n, "data_mb": 8 * n * (data.num_inputs + 1) / 2**20, "seconds": seconds, **peak.megabytes()}


class PeakMemory:
    """Peak memory while the context is open: of the process without mapped files, and of the device."""

    def __enter__(self):
        self._most, self._done = anonymous(), threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._done.set()
        self._thread.join()

    def _watch(self):
        while not self._done.wait(0.02):
            self._most = max(self._most, anonymous())

    def megabytes(self) -> dict[str, float]:
        """The peaks."""
        stats = jax.local_devices()[0].memory_stats() or {}
        device = {"device_mb": stats["peak_bytes_in_use"] / 2**20} if "peak_bytes_in_use" in stats else {}
        return {"process_mb": self._most, **device}


def anonymous() -> float:
    """Memory of the process without mapped files, in megabytes."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) / 1024


def show(record: dict[str, Any], console: Console) -> None:
    where = "mapped from disk" if record["mapped"] else "in memory"
    title = f"{record['set']}, M = {record['inducing']}, {record['precision']} precision, {where}, {record['device']}"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("rows", "value+gradient, s", "data, MB", "process, MB", "device, MB"):
        table.add_column(column, justify="right")
    for r in record["evaluations"]:
        device = f"{r['device_mb']:,.0f}" if "device_mb" in r else ""
        table.add_row(
            f"{r['rows']:,}", f"{r['seconds']:.3f}", f"{r['data_mb']:,.0f}", f"{r['process_mb']:,.0f}", device
        )
    console.print(table)
    console.print(f"Time grows as N^{record['exponent']:.2f}.")
    f = record["fit"]
    console.print(
        f"Fit: {f['objective']:,.0f} nats, {f['steps']} steps, {f['evaluations']} evaluations, {f['seconds']:.1f} s; "
        f"test log density {f['test_log_density']:.4f}, RMSE {f['test_rmse']:.4f}; "
        f"at most {f['process_mb']:,.0f} MB of the process's own memory"
        + (f", {f['device_mb']:,.0f} MB of the device's" if "device_mb" in f else "")
    )


if __name__ == "__main__":
    main()
