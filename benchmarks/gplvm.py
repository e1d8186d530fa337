"""Compare the Bayesian GP-LVM with GPflow's: the same bound, and time and memory of an evaluation and of a fit.

Both compute the standard bound in float64 with the same jitter on ``Kuu``: at random parameters, at a start by
principal components, and at trained parameters. Evaluating it with the rows in other orders shows the rounding error.
Every timing runs in a process of its own; an evaluation's is the least of several. ``--memory`` measures tightgp alone:
value and gradient of the diagonal bound on many rows.

    python -m benchmarks.gplvm --peers .venv-peers/bin/python    # needs TIGHTGP_DATA
    python -m benchmarks.gplvm --memory
"""

import argparse
import json
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import numpy as np
from rich import box
from rich.console import Console
from rich.table import Table

import tightgp as tgp
from benchmarks.running import machine, one_side
from experiments.oil import readings
from tightgp.io.files import atomic_write
from tightgp.training.objective import Objective

Q, INDUCING = 7, (30, 100)
JITTERS = (1e-6, 1e-4)
ORDERS = 4
TOLERANCE = 1e-6
MANY = (25_000, 50_000, 100_000)
LIMIT_MB = 2000


# --- tightgp's side, in a process of its own --------------------------------------------------------------------------


def build(case: dict[str, np.ndarray], jitter: float, bound: str = "standard") -> tgp.GPLVM:
    """GPflow's jitter is absolute, ours a share of the kernel's variance."""
    variance = float(case["kernel_variance"])
    kernel = tgp.kernels.SquaredExponential(variance, case["lengthscale"])
    noise = float(case["noise_variance"])
    model = tgp.SGPR(kernel, case["Z"], noise, bound, jitter=jitter / variance)
    return tgp.GPLVM(model, case["mean"], case["variance"])


def values(case, settings) -> dict[str, Any]:
    found: dict[str, list[float]] = {}
    for jitter in settings["jitters"]:
        found[str(jitter)] = []
        for order in [np.arange(len(case["Y"])), *settings["orders"]]:
            moved = {**case, **{name: case[name][order] for name in ("Y", "mean", "variance")}}
            found[str(jitter)].append(float(build(moved, jitter).elbo(tgp.Dataset.latent(moved["Y"], Q))))
    return {"values": found}


def evaluation(case, settings) -> dict[str, Any]:
    imported = peak_mb()
    model = build(case, settings["jitter"], settings.get("bound", "standard"))
    problem = Objective(*model.prepare(tgp.Dataset.latent(case["Y"], Q)))
    x = problem.to_vector(problem.start)

    def once() -> float:
        began = time.perf_counter()
        jax.block_until_ready(problem.at_vector(x))
        return time.perf_counter() - began

    first = once()
    seconds = [once() for _ in range(settings["repeats"])]
    value = float(problem.at_vector(x).value)
    return {"first": first, "seconds": seconds, "value": value, "peak_mb": peak_mb(), "imported_mb": imported}


def fit(case, settings) -> dict[str, Any]:
    data, model = tgp.Dataset.latent(case["Y"], Q), build(case, settings["jitter"])
    began = time.perf_counter()
    result = tgp.fit(model, data, steps=settings["steps"], tolerance=1e-16, progress=False)
    seconds = time.perf_counter() - began
    answer = {"seconds": seconds, "bound": result.objective, "steps": len(result.trace["objective"]) - 1}
    return answer | {"evaluations": result.evaluations, "peak_mb": peak_mb()}


def many(_, settings) -> dict[str, Any]:
    """Value and gradient on synthetic rows."""
    return evaluation(made_up(settings["rows"], settings["inducing"]), settings)


def peak_mb() -> float:
    """The peak memory of this process; ``getrusage`` would include its parent's."""
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


def own(path: str, task: str, settings: str) -> None:
    """Do what the parent process asked for, and print one line of JSON."""
    case = load(path) if path else {}
    answer = {"values": values, "evaluation": evaluation, "fit": fit, "many": many}[task](case, json.loads(settings))
    versions = {"tightgp": tgp.__version__, "jax": version("jax"), "numpy": version("numpy")}
    print(json.dumps(answer | {"versions": versions}))


# --- cases ----------------------------------------------------------------------------------------------------------


def load(path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as arrays:
        return {name: arrays[name] for name in arrays.files}


def made_up(rows: int, inducing: int, columns: int = 12) -> dict[str, np.ndarray]:
    """A case with all parameters drawn at random."""
    rng = np.random.default_rng(inducing)
    return {
        "Y": rng.normal(size=(rows, columns)),
        "Z": rng.normal(size=(inducing, Q)),
        "mean": rng.normal(size=(rows, Q)),
        "variance": rng.uniform(0.02, 0.5, (rows, Q)),
        "kernel_variance": np.array(rng.uniform(0.5, 2.0)),
        "lengthscale": rng.uniform(0.8, 4.0, Q),
        "noise_variance": np.array(rng.uniform(0.05, 0.3)),
    }


def taken_apart(model: tgp.GPLVM, Y: np.ndarray) -> dict[str, np.ndarray]:
    """A model's parameters as a case."""
    inner, inputs = model.model, model.inputs
    assert isinstance(inner, tgp.SGPR)
    assert isinstance(inner.kernel, tgp.kernels.SquaredExponential)
    found = {"Z": inner.Z, "mean": inputs.mean, "variance": inputs.variance, "kernel_variance": inner.kernel.variance}
    found |= {"lengthscale": inner.kernel.lengthscale, "noise_variance": inner.noise_variance}
    return {"Y": Y} | {name: np.asarray(value) for name, value in found.items()}


def cases(Y: np.ndarray, inducing: int, steps: int) -> dict[str, dict[str, np.ndarray]]:
    start = tgp.GPLVM.start(Y, Q, inducing, bound="standard")
    trained = tgp.fit(start, tgp.Dataset.latent(Y, Q), steps=steps, progress=False).model
    drawn = made_up(len(Y), inducing) | {"Y": Y}
    return {"random": drawn, "start": taken_apart(start, Y), "trained": taken_apart(trained, Y)}


# --- the comparison -------------------------------------------------------------------------------------------------


def parity(python, paths, rows: int) -> list[dict[str, Any]]:
    """The bounds of both sides, and how much each changes when its rows come in another order."""
    rng = np.random.default_rng(0)
    settings = {"jitters": JITTERS, "orders": [rng.permutation(rows).tolist() for _ in range(ORDERS)]}
    found = []
    for (inducing, name), path in paths.items():
        both = [one_side(p, "gplvm", path, "values", json.dumps(settings))["values"] for p in (None, python)]
        for jitter in JITTERS:
            one, other = (side[str(jitter)] for side in both)
            row = {"case": name, "inducing": inducing, "jitter": jitter, "tightgp": one[0], "gpflow": other[0]}
            row |= {"difference": abs(one[0] - other[0]), "rounding": [float(np.ptp(one)), float(np.ptp(other))]}
            found.append(row | {"relative": row["difference"] / abs(other[0])})
    return found


def timings(python, paths, rounds: int, repeats: int, steps: int) -> list[dict[str, Any]]:
    """Evaluations of both sides in turn, and one fit by each from the same start."""
    found = []
    for inducing in INDUCING:
        path = paths[inducing, "start"]
        row: dict[str, Any] = {"inducing": inducing}
        for task, settings in (("evaluation", {"repeats": repeats}), ("fit", {"steps": steps})):
            told: dict[str, list] = {"tightgp": [], "gpflow": []}
            for _ in range(rounds if task == "evaluation" else 1):
                for side, p in (("tightgp", None), ("gpflow", python)):
                    told[side].append(one_side(p, "gplvm", path, task, json.dumps({"jitter": 1e-6, **settings})))
            row[task] = told
        found.append(row)
    return found


def best(answers: list[dict]) -> float:
    """The shortest time."""
    return min(s for a in answers for s in np.atleast_1d(a["seconds"]).tolist())


def show_parity(found, console) -> None:
    table = Table(title="The standard bound, in nats", title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("case", "M", "jitter", "tightgp", "GPflow", "difference", "relative", "rounding: tightgp", "GPflow"):
        table.add_column(column, justify="left" if column == "case" else "right")
    for row in found:
        numbers = [
            f"{row['tightgp']:.6f}",
            f"{row['gpflow']:.6f}",
            f"{row['difference']:.1e}",
            f"{row['relative']:.1e}",
        ]
        rounding = [f"{r:.1e}" for r in row["rounding"]]
        table.add_row(row["case"], str(row["inducing"]), f"{row['jitter']:g}", *numbers, *rounding)
    console.print(table)


def show_timings(found, console) -> None:
    table = Table(title="Least of all runs", title_justify="left", box=box.SIMPLE_HEAD)
    for column in ("", "M", "tightgp", "GPflow", "GPflow / tightgp"):
        table.add_column(column, justify="right" if column else "left")

    def add(what, row, form, numbers):
        table.add_row(
            what, str(row["inducing"]), *(form.format(n) for n in numbers), f"{numbers[1] / max(numbers[0], 1e-9):.2f}×"
        )

    for row in found:
        sides = [[row[task][side] for side in ("tightgp", "gpflow")] for task in ("evaluation", "fit")]
        add("value and gradient, ms", row, "{:.1f}", [1e3 * best(a) for a in sides[0]])
        add("first one, with compilation, s", row, "{:.1f}", [min(b["first"] for b in a) for a in sides[0]])
        add("peak memory, MB", row, "{:.0f}", [min(b["peak_mb"] for b in a) for a in sides[0]])
        add("memory over that of the imports, MB", row, "{:.0f}", [least_growth(a) for a in sides[0]])
        add("L-BFGS fit, with compilation, s", row, "{:.1f}", [best(a) for a in sides[1]])
        bounds = [f"{a[0]['bound']:.1f}" for a in sides[1]]
        steps = ", ".join(f"{a[0]['steps']} steps, {a[0]['evaluations']} evaluations" for a in sides[1])
        table.add_row(f"  bound reached ({steps})", str(row["inducing"]), *bounds, "")
    console.print(table)


def least_growth(answers) -> float:
    return min(a["peak_mb"] - a["imported_mb"] for a in answers)


def show_memory(found, console) -> None:
    table = Table(title="Value and gradient of the diagonal bound, Q = 7, 12 columns", box=box.SIMPLE_HEAD)
    for column in ("rows", "M", "peak memory, MB", "of it before, MB", "s", "first one, s"):
        table.add_column(column, justify="right")
    for row in found:
        cells = [
            f"{row['peak_mb']:.0f}",
            f"{row['imported_mb']:.0f}",
            f"{min(row['seconds']):.2f}",
            f"{row['first']:.1f}",
        ]
        table.add_row(str(row["rows"]), str(row["inducing"]), *cells)
    console.print(table)


def compare(a, console) -> dict[str, Any]:
    Y = readings()[0]
    with tempfile.TemporaryDirectory() as folder:
        paths = {}
        with console.status("training"):
            for inducing in INDUCING:
                for name, case in cases(Y, inducing, a.trained_steps).items():
                    paths[inducing, name] = str(Path(folder, f"{name}-{inducing}.npz"))
                    np.savez(paths[inducing, name], **case)  # type: ignore[arg-type]
        with console.status("the same bound"):
            agreed = parity(a.peers, paths, len(Y))
        show_parity(agreed, console)
        with console.status("timing"):
            timed = timings(a.peers, paths, a.rounds, a.repeats, a.steps)
        show_timings(timed, console)
    return {"parity": agreed, "timings": timed}


def measure_memory(console) -> dict[str, Any]:
    found = []
    for rows in MANY:
        settings = {"rows": rows, "inducing": 100, "jitter": 1e-6, "repeats": 2, "bound": "diagonal"}
        with console.status(f"{rows} rows"):
            found.append(settings | one_side(None, "gplvm", "", "many", json.dumps(settings)))
    show_memory(found, console)
    return {"memory": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", help="python of the peers' environment")
    parser.add_argument("--memory", action="store_true", help="measure memory on many rows")
    parser.add_argument("--rounds", type=int, default=3, help="processes that time evaluations")
    parser.add_argument("--repeats", type=int, default=10, help="evaluations in each process")
    parser.add_argument("--steps", type=int, default=100, help="iterations of L-BFGS in a timed fit")
    parser.add_argument(
        "--trained-steps", type=int, default=300, help="iterations of L-BFGS that lead to the trained parameters"
    )
    parser.add_argument("--out", type=Path, help="add the results to this JSON file")
    parser.add_argument("--own", nargs=3, help=argparse.SUPPRESS)
    a = parser.parse_args()
    if a.own:
        return own(*a.own)
    if not (a.peers or a.memory):
        parser.error("pass --peers PYTHON, --memory, or both")
    console = Console() if sys.stdout.isatty() else Console(width=150)
    before = json.loads(a.out.read_text()) if a.out and a.out.exists() else {}
    about = {"when": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()), "machine": machine()}
    found = {name: about | part for name, part in work(a, console).items()}
    if a.out:
        with atomic_write(a.out) as temporary:
            temporary.write_text(json.dumps(before | found, indent=1) + "\n")
        console.print(f"Results: {a.out}")
    failed = [row for row in found.get("comparison", {}).get("parity", []) if not agrees(row)]
    for row in failed:
        console.print(f"[bold red]differs[/]: {row['case']}, M = {row['inducing']}, jitter {row['jitter']:g}")
    raise SystemExit(1 if failed else 0)


def work(a, console) -> dict[str, dict]:
    found = {"comparison": compare(a, console)} if a.peers else {}
    return found | ({"memory": measure_memory(console)} if a.memory else {})


def agrees(row) -> bool:
    """Whether both agree to 1e-6 of the bound, or within the rounding error of either side."""
    return row["difference"] <= max(TOLERANCE * abs(row["gpflow"]), 2 * max(row["rounding"]))


if __name__ == "__main__":
    main()
