"""Compare how far L-BFGS gets in a number of steps: tightgp and GPflow or optax, the same standard bound and start.

SGPR with Matérn-3/2 and a lengthscale for each input, on some rows of real sets. GPflow uses SciPy's L-BFGS-B with a
memory of 20 steps. tightgp's L-BFGS remembers more steps and moves other coordinates. Both bounds are the same number
at the same parameters (`benchmarks.parity`). Each side runs in a process of its own. Seconds include compilation,
which is most of those to step 1, but not the evaluations that only record GPflow's progress.

With ``--optax`` the other side is ``optax.lbfgs`` on tightgp's own objective, in the same coordinates and with a memory
of 100 steps: the optimisers alone are compared (`benchmarks.convergence_optax`).

    python -m benchmarks.convergence --peers .venv-peers/bin/python    # needs TIGHTGP_DATA
    python -m benchmarks.convergence --optax                           # the same
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
TITLES = {"gpflow": "GPflow", "optax": "optax"}


def start(path: str, settings: dict[str, Any]) -> tuple[tgp.SGPR, tgp.Dataset, tgp.Dataset]:
    """The model before training, and its training and test rows."""
    with np.load(path, allow_pickle=False) as case:
        kernel = tgp.kernels.Matern32(float(case["variance"]), case["lengthscale"])
        jitter = settings["jitter"] / float(case["variance"])
        model = tgp.SGPR(kernel, case["Z"], float(case["noise"]), "standard", jitter=jitter)
        return model, tgp.Dataset(case["X"], case["y"]), tgp.Dataset(case["X_test"], case["y_test"])


def own(path: str, settings: dict[str, Any]) -> dict[str, Any]:
    """tightgp's side: the bound after each step, and the seconds in all and to the first step."""
    model, data, test = start(path, settings)
    began = time.perf_counter()
    clock: list[float] = []

    def stepped(step: int, row: dict[str, float]) -> None:
        clock.append(time.perf_counter() - began)

    result = tgp.fit(model, data, "lbfgs", steps=settings["steps"], tolerance=1e-16, progress=False, callback=stepped)
    seconds = time.perf_counter() - began
    density = float(np.mean(np.asarray(result.model.posterior(data).log_density(test.X, test.y))))
    trace = result.trace["objective"].tolist()
    counts = {"evaluations": result.evaluations, "seconds": seconds, "first": clock[0] if clock else seconds}
    return {"trace": trace, **counts, "log_density": density}


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


def show(found: dict[str, Any], other: str, settings: dict[str, Any], console: Console) -> None:
    steps = [s for s in (25, 50, 100, 200, 400) if s < settings["steps"]] + [settings["steps"]]
    table = Table(
        title=f"Bound per row in nats, {settings['rows']} rows, M = {settings['inducing']}", box=box.SIMPLE_HEAD
    )
    numbers = ("test log density", "steps to the other's end", "evaluations", "s", "to step 1")
    for column in ("set", "", *(f"{s} steps" for s in steps), *numbers):
        table.add_column(column, justify="left" if column in ("set", "") else "right")
    reached = []
    for name, sides in found.items():
        for side, against in (("tightgp", other), (other, "tightgp")):
            one, took = sides[side], steps_to(sides[side], at(sides[against], settings["steps"]))
            if side == "tightgp":
                reached.append(took)
            cells = [f"{at(one, s) / sides['rows']:.3f}" for s in steps]
            cells += [f"{one['log_density']:.3f}", "not reached" if took is None else str(took)]
            cells += [str(one["evaluations"]), f"{one['seconds']:.1f}", f"{one['first']:.1f}" if "first" in one else ""]
            table.add_row(name if side == "tightgp" else "", side, *cells)
    console.print(table)
    ahead = sum(at(s["tightgp"], settings["steps"]) > at(s[other], settings["steps"]) for s in found.values())
    ratios = [settings["steps"] / max(count, 1) for count in reached if count is not None]
    console.print(
        f"Further than {TITLES[other]} after {settings['steps']} steps on {ahead} of {len(found)} sets; its end "
        f"reached in {np.median(ratios):.1f} times fewer steps (median of {len(ratios)} sets)."
        if ratios
        else f"{TITLES[other]}'s end was reached on no set."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", help="python of the peers' environment")
    parser.add_argument("--optax", action="store_true", help="compare with optax instead of GPflow")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--rows", type=int, default=3000, help="most training rows")
    parser.add_argument("--inducing", type=int, default=200)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0, help="seed of the split and of k-means")
    parser.add_argument("--out", type=Path, help="where the results go, if not into benchmarks/results")
    parser.add_argument("--own", nargs=2, help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.own:
        print(json.dumps(own(a.own[0], json.loads(a.own[1]))))
        return
    if not (a.peers or a.optax):
        parser.error("pass --peers PYTHON, the interpreter that `make peers` installs, or --optax")
    other = "optax" if a.optax else "gpflow"
    python, module = (None, "convergence_optax") if a.optax else (a.peers, "convergence")
    out = a.out or Path(__file__).with_name("results") / ("optax-lbfgs.json" if a.optax else "convergence.json")
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
                    "tightgp": one_side(None, "convergence", path, json.dumps(settings)),
                    other: one_side(python, module, path, json.dumps(settings)),
                    "rows": len(made["X"]),
                }
    show(found, other, settings, console)
    about = {"when": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "machine": machine()}
    for sides in found.values():
        for side in ("tightgp", other):
            sides[side]["trace"] = [float(f"{value:.9g}") for value in sides[side]["trace"]]
    with atomic_write(out) as temporary:
        temporary.write_text(json.dumps({**about, "settings": settings, "sets": found}, separators=(",", ":")) + "\n")
    console.print(f"Results: {out}")


if __name__ == "__main__":
    main()
