"""Measure the worth of tighter bounds in training, and of neighbours in prediction, on the way to the exact GP.

Collapsed models from the same start: the standard, spherical and diagonal bound, blocks, blocks that are given earlier
neighbours (the bound, and Vecchia), and Power EP; Vecchia and Power EP are no bounds. Each predicts validation and test
rows from the inducing points alone and also from nearest training rows. The exact GP, where rows are few. Matérn-3/2,
float64, L-BFGS, inducing points by k-means; the paper's splits (64 % train, 16 % validate, 20 % test, standardised).

    python -m experiments.neighbours --rows 4000 --out experiments/results/neighbours.jsonl
    python -m experiments.neighbours --report experiments/results/neighbours.jsonl

Every training adds one line to the file as soon as it is done, and is not done again where its line is there already.
"""

import argparse
import json
import math
import os
import platform
import time
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich.console import Console

import tightgp as tgp
from experiments import neighbours_report
from experiments.held_out import FAILURES, error_text, prediction
from tightgp import datasets

SETS = ["pol", "bike", "elevators", "kin40k", "protein", "keggdirected", "keggundirected", "houseelectric"]
BOUNDS = ["standard", "diagonal", "block:64", "block:256", "neighbours:32:16@1", "vecchia:32:16@1", "pep:1:64"]
#: K-means looks at no more rows than these.
CANDIDATES = 100_000
#: Where the report's tables go.
PAGES = [Path("docs/neighbours.md"), Path("README.md")]
#: Shapes of data and bounds whose programs are compiled already.
_COMPILED: set[Any] = set()
#: Inducing points that were found already.
_INDUCING: dict[Any, np.ndarray] = {}
#: The paper trains on no more rows of Bike than these.
MOST_ROWS = {"bike": 10_600}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS, metavar="SET")
    parser.add_argument("--splits", type=int, default=3, help="seeds 0, 1, ...")
    parser.add_argument("--rows", type=int, help="train on at most this many rows; default all")
    parser.add_argument("--first-split", type=int, default=0, help="leave out the splits before this one")
    parser.add_argument("--test-rows", type=int, default=8000, help="predict at most this many rows")
    parser.add_argument(
        "--validation-rows", type=int, default=4000, help="predict at most this many validation rows; 0 for none"
    )
    parser.add_argument(
        "--no-test", action="store_true", help="predict validation rows only, as choices are made on them"
    )
    parser.add_argument(
        "--inducing", nargs="+", type=int, default=[256], help="numbers of inducing points, one after the other"
    )
    parser.add_argument(
        "--bounds",
        nargs="*",
        default=BOUNDS,
        help="standard, spherical, diagonal, block:SIZE, neighbours:COUNT:BLOCK, vecchia:COUNT:BLOCK, pep:ALPHA:BLOCK; "
        "@N after it searches blocks and neighbours again N times, with the lengthscales learnt",
    )
    parser.add_argument(
        "--neighbours",
        nargs="*",
        type=int,
        default=[16, 64, 128],
        help="numbers of neighbours to predict from, besides none",
    )
    parser.add_argument(
        "--only-chosen", action="store_true", help="predict only from as many neighbours as training rows choose"
    )
    parser.add_argument("--steps", type=int, default=200, help="most steps of L-BFGS")
    parser.add_argument("--tolerance", type=float, default=1e-7, help="relative gain under which training ends")
    parser.add_argument("--exact-limit", type=int, default=15_000, help="most rows for the exact GP; 0 leaves it out")
    parser.add_argument("--lengthscales", choices=["ard", "one"], default="ard")
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no training after this many seconds")
    parser.add_argument(
        "--no-warm-up", action="store_true", help="do not compile before training: a first training takes longer"
    )
    parser.add_argument("--out", type=Path, default=Path("experiments/results/neighbours.jsonl"), help="JSON lines")
    parser.add_argument(
        "--report", nargs="+", type=Path, metavar="FILE", help="train nothing: write the results in these files"
    )
    parser.add_argument("--pages", nargs="+", type=Path, default=PAGES, help="where the report's tables go")
    parser.add_argument("--figure", type=Path, default=Path("docs/figures/neighbours.png"), help="the report's picture")
    a = parser.parse_args()
    console = Console()
    if a.report:
        absent = [str(path) for path in a.report if not path.exists()]
        if absent:
            raise SystemExit(f"there is no {', '.join(absent)}")
        neighbours_report.write([record for path in a.report for record in stored(path)], a.pages, a.figure)
        console.print(f"Tables: {', '.join(map(str, a.pages))}. Picture: {a.figure}.")
        return
    try:
        for bound in a.bounds:
            structure(bound)
        run(a, console)
    except (ValueError, datasets.DatasetError) as wrong:
        raise SystemExit(str(wrong)) from None


def structure(bound: str) -> str | tgp.Structure:
    """The bound of a name on the command line."""
    bound = bound.partition("@")[0]
    name, *numbers = bound.split(":")
    try:
        if name == "block":
            return tgp.Block(int(numbers[0]))
        if name == "pep":
            return tgp.PowerEP(float(numbers[0]), block=int(numbers[1]))
        if name in ("neighbours", "vecchia"):
            make = tgp.Neighbours if name == "neighbours" else tgp.Vecchia
            return make(int(numbers[0]), block=int(numbers[1]))
    except (IndexError, ValueError) as wrong:
        raise ValueError(f"--bounds: {bound!r} does not say what its numbers are ({wrong}); see --help") from None
    if bound not in ("standard", "spherical", "diagonal"):
        raise ValueError(f"--bounds: there is no {bound!r}; see --help")
    return bound


def run(a: argparse.Namespace, console: Console) -> None:
    """Train what the file does not hold yet, split by split."""
    began, done = time.perf_counter(), stored(a.out)
    for seed in range(a.first_split, a.splits):
        for name in a.sets:
            parts = datasets.split(name, seed)
            # The seed shuffles each part, so its first rows are a random sample.
            train = parts.train.take(slice(a.rows or MOST_ROWS.get(name)))
            validation, test = parts.validation.take(slice(a.validation_rows)), parts.test.take(slice(a.test_rows))
            held_out = {} if a.no_test else {"predictions": test}
            held_out |= {"validation": validation} if a.validation_rows else {}
            exact = [("exact", None)] if train.num_data <= a.exact_limit else []
            for bound, inducing in [*((bound, count) for count in a.inducing for bound in a.bounds), *exact]:
                key = settings(a, name, seed, train, test, bound, inducing)
                if any(holds(a, line, key) for line in done):
                    continue
                if time.perf_counter() - began > a.seconds:
                    console.print(f"{a.seconds:g} seconds have passed; the rest is left for another run")
                    return
                Z = None if inducing is None else inducing_points(train, inducing, seed)
                line = key | attempt(a, bound, train, held_out, Z)
                append(a.out, line)
                console.print(
                    f"split {seed}, {name}, {bound}, M = {inducing}: {summary(line)}", highlight=False, soft_wrap=True
                )


def inducing_points(train, count: int, seed: int) -> np.ndarray:
    """By k-means, which is not done again for another bound."""
    key = train.X.shape, count, seed, float(train.y[0])
    if key not in _INDUCING:
        _INDUCING[key] = tgp.inducing.kmeans(train.X[:CANDIDATES], count, seed=seed)
    return _INDUCING[key]


def settings(
    a: argparse.Namespace, name: str, seed: int, train, test, bound: str, inducing: int | None
) -> dict[str, Any]:
    """The settings that identify a training; the exact GP has no inducing points."""
    return {
        "set": name,
        "split": seed,
        "rows": train.num_data,
        "test_rows": test.num_data,
        "inputs": train.num_inputs,
        "inducing": inducing,
        "bound": bound,
        "lengthscales": a.lengthscales,
        "steps": a.steps,
        "tolerance": a.tolerance,
    }


def holds(a: argparse.Namespace, line: dict[str, Any], key: dict[str, Any]) -> bool:
    """Whether a line is the training of ``key`` with predictions from all neighbours wanted (the exact GP has one)."""
    if {name: line.get(name) for name in key} != key:
        return False
    made = {prediction["neighbours"] for prediction in line.get("validation" if a.no_test else "predictions", [])}
    wanted = {line.get("chosen_neighbours")} if a.only_chosen else set(a.neighbours)
    return "error" in line or key["bound"] == "exact" or made >= wanted


def attempt(a: argparse.Namespace, bound: str, train, held_out, Z) -> dict[str, Any]:
    """Train and predict; or say why it failed."""
    machine = f"{jax.devices()[0].device_kind}, JAX {jax.__version__}, Python {platform.python_version()}"
    try:
        return training(a, bound, train, held_out, Z) | {"machine": machine}
    except FAILURES as failed:
        return {"error": error_text(failed), "machine": machine}


def training(a: argparse.Namespace, bound: str, train, held_out, Z) -> dict[str, Any]:
    start = max(1.0, 0.5 * math.sqrt(train.num_inputs))
    kernel = tgp.kernels.Matern32(1.0, np.full(train.num_inputs, start) if a.lengthscales == "ard" else start)
    model: Any = tgp.ExactGP(kernel, 0.1) if bound == "exact" else tgp.SGPR(kernel, Z, 0.1, bound=structure(bound))
    refresh = int(bound.partition("@")[2] or 0)
    options: Any = {"tolerance": a.tolerance, "refresh": refresh, "progress": False}
    first = None
    if not a.no_warm_up and (compiled := (train.X.shape, bound, np.shape(Z))) not in _COMPILED:
        began = time.perf_counter()  # a few steps before training, so that compilation is timed apart
        tgp.fit(model, train.take(slice(None)), "lbfgs", steps=2, **options)
        first = time.perf_counter() - began
        _COMPILED.add(compiled)
    result = tgp.fit(model, train, "lbfgs", steps=a.steps // (refresh + 1), **options)
    if result.interrupted:
        raise KeyboardInterrupt
    post = result.model.posterior(train)
    chosen = None
    if bound != "exact" and a.neighbours:
        chosen = post.with_best_neighbours(a.neighbours, seed=0).neighbours
    ways = [None] if bound == "exact" else [0, chosen] if a.only_chosen else [0, *a.neighbours]
    return {
        "chosen_neighbours": chosen,  # by training rows alone
        "is_bound": bound == "exact" or result.model.bound.is_bound,
        "inducing_used": None if bound == "exact" else len(Z),
        "objective_per_row": result.objective / train.num_data,
        "noise_variance": float(result.model.noise_variance),
        "variance": float(result.model.kernel.variance),
        "lengthscale": np.atleast_1d(result.model.kernel.lengthscale).tolist(),
        "warm_up_seconds": first,
        "train_seconds": result.seconds,
        "evaluations": result.evaluations,
        "rejected": result.rejected,
        "converged": result.converged,
        "message": result.message,
        "peak_device_bytes": (jax.devices()[0].memory_stats() or {}).get("peak_bytes_in_use"),
    } | {part: [prediction(post, rows, count) for count in ways] for part, rows in held_out.items()}


def summary(line: dict[str, Any]) -> str:
    if "error" in line:
        return f"failed, {line['error'].splitlines()[0]}"
    made = [
        (p["neighbours"] or "global", p.get("log_density")) for p in line.get("predictions", line.get("validation"))
    ]
    found = [f"{'failed' if density is None else f'{density:.3f}'} ({way})" for way, density in made]
    return f"{', '.join(found)}; {line['train_seconds']:.1f} s, {line['message']}"


def stored(path: Path) -> list[dict[str, Any]]:
    """The lines of a file, without a last one that was cut off."""
    lines = []
    for text in path.read_text().splitlines() if path.exists() else []:
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError:
            continue
    return lines


def append(path: Path, line: dict[str, Any]) -> None:
    """Append a line and flush it to disk; a last line that was cut off is replaced."""
    path.parent.mkdir(parents=True, exist_ok=True)
    whole = not path.exists() or path.stat().st_size == 0 or path.read_bytes().endswith(b"\n")
    with path.open("a") as file:
        file.write(("" if whole else "\n") + json.dumps(line) + "\n")
        file.flush()
        os.fsync(file.fileno())


if __name__ == "__main__":
    main()
