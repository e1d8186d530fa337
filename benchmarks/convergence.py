"""Compare how far L-BFGS gets in a number of steps: tightgp and GPflow, the same standard bound, the same start.

SGPR with Matérn-3/2 and a lengthscale for each input, on some rows of real sets. GPflow uses SciPy's L-BFGS-B with a
memory of 20 steps. tightgp's L-BFGS remembers more steps and moves other coordinates. Both bounds are the same number
at the same parameters (`benchmarks.parity`). Each side runs in a process of its own. Seconds include compilation, but
not the evaluations that only record GPflow's progress.

    python -m benchmarks.convergence --peers .venv-peers/bin/python    # needs TIGHTGP_DATA
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

import tightgp as tgp
from benchmarks.running import machine, one_side
from tightgp import datasets
from tightgp.io.files import atomic_write

SETS = ("pol", "bike", "elevators", "kin40k", "protein", "keggdirected", "keggundirected")
SIDES = ("tightgp", "gpflow")


def own(path: str, settings: dict[str, Any]) -> dict[str, Any]:
    """tightgp's side: the bound after each step, and the seconds in all."""
    with np.load(path, allow_pickle=False) as case:
        kernel = tgp.kernels.Matern32(float(case["variance"]), case["lengthscale"])
        jitter = settings["jitter"] / float(case["variance"])
        model = tgp.SGPR(kernel, case["Z"], float(case["noise"]), "standard", jitter=jitter)
        data, test = tgp.Dataset(case["X"], case["y"]), tgp.Dataset(case["X_test"], case["y_test"])
    began = time.perf_counter()
    result = tgp.fit(model, data, "lbfgs", steps=settings["steps"], tolerance=1e-16, progress=False)
    seconds = time.perf_counter() - began
    density = float(np.mean(np.asarray(result.model.posterior(data).log_density(test.X, test.y))))
    trace = result.trace["objective"].tolist()
    return {"trace": trace, "evaluations": result.evaluations, "seconds": seconds, "log_density": density}


def case(name: str, rows: int, inducing: int, seed: int) -> dict[str, np.ndarray]:
    """Rows, and the start of both sides: lengthscales √d, noise 0.1, inducing points by k-means."""
    parts = datasets.split(datasets.load(name), seed)
    train, test = parts.train.take(slice(rows)), parts.test.take(slice(rows))
    X = np.asarray(train.X)
    found = {"X": X, "y": train.y, "X_test": test.X, "y_test": test.y, "variance": 1.0, "noise": 0.1}
    found |= {
        "lengthscale": np.full(X.shape[1], np.sqrt(X.shape[1])),
        "Z": tgp.inducing.kmeans(X, inducing, seed=seed),
    }
    return {key: np.asarray(value) for key, value in found.items()}


def at(answer: dict[str, Any], step: int) -> float:
    """The best bound after ``step`` steps; a side that stopped earlier keeps its last."""
    return max(answer["trace"][: step + 1])


def steps_to(answer: dict[str, Any], bound: float) -> int | None:
    """The number of steps after which a bound was reached; None if it was not."""
    return next((i for i, value in enumerate(answer["trace"]) if value >= bound), None)


def show(found: dict[str, Any], settings: dict[str, Any], console: Console) -> None:
    steps = [s for s in (25, 50, 100, 200, 400) if s < settings["steps"]] + [settings["steps"]]
    table = Table(
        title=f"Bound per row in nats, {settings['rows']} rows, M = {settings['inducing']}", box=box.SIMPLE_HEAD
    )
    for column in ("set", "", *(f"{s} steps" for s in steps), "test log density", "steps to GPflow's end", "s"):
        table.add_column(column, justify="left" if column in ("set", "") else "right")
    reached = {name: steps_to(s["tightgp"], at(s["gpflow"], settings["steps"])) for name, s in found.items()}
    for name, sides in found.items():
        for side in SIDES:
            one = sides[side]
            cells = [f"{at(one, s) / sides['rows']:.3f}" for s in steps]
            took = "" if side == "gpflow" else "not reached" if reached[name] is None else str(reached[name])
            cells += [f"{one['log_density']:.3f}", took, f"{one['seconds']:.1f}"]
            table.add_row(name if side == "tightgp" else "", side, *cells)
    console.print(table)
    ahead = sum(at(s["tightgp"], settings["steps"]) > at(s["gpflow"], settings["steps"]) for s in found.values())
    ratios = [settings["steps"] / max(count, 1) for count in reached.values() if count is not None]
    console.print(
        f"Further than GPflow after {settings['steps']} steps on {ahead} of {len(found)} sets; GPflow's end reached "
        f"in {np.median(ratios):.1f} times fewer steps (median of {len(ratios)} sets)."
        if ratios
        else "GPflow's end was reached on no set."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", help="python of the peers' environment")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--rows", type=int, default=3000, help="most training rows")
    parser.add_argument("--inducing", type=int, default=200)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="seed of the split and of k-means")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results") / "convergence.json")
    parser.add_argument("--own", nargs=2, help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.own:
        print(json.dumps(own(a.own[0], json.loads(a.own[1]))))
        return
    if not a.peers:
        parser.error("pass --peers PYTHON, the interpreter that `make peers` installs")
    console = Console() if sys.stdout.isatty() else Console(width=150)
    settings = {"steps": a.steps, "rows": a.rows, "inducing": a.inducing, "seed": a.seed, "jitter": 1e-6}
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in a.sets:
            with console.status(name):
                path = str(Path(folder, f"{name}.npz"))
                made = case(name, a.rows, a.inducing, a.seed)
                np.savez(path, **made)  # type: ignore[arg-type]
                found[name] = {
                    side: one_side(python, "convergence", path, json.dumps(settings))
                    for side, python in zip(SIDES, (None, a.peers), strict=True)
                }
                found[name]["rows"] = len(made["X"])
    show(found, settings, console)
    about = {"when": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "machine": machine()}
    for sides in found.values():
        for side in SIDES:
            sides[side]["trace"] = [float(f"{value:.9g}") for value in sides[side]["trace"]]
    with atomic_write(a.out) as temporary:
        temporary.write_text(json.dumps({**about, "settings": settings, "sets": found}, separators=(",", ":")) + "\n")
    console.print(f"Results: {a.out}")


if __name__ == "__main__":
    main()
