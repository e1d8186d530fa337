"""Measure how tight, and how dear, a certificate of the evidence is at fits such as a user makes.

Trains Vecchia (128 inducing points, 32 neighbours, searched again once) on all training rows of a set, asks for the
evidence bracket, and for the exact evidence where it fits. Matérn-3/2, float64, the paper's splits.

    python -m experiments.certificate --sets elevators pol --out benchmarks/results/certificate.jsonl
    python -m experiments.certificate --report benchmarks/results/certificate.jsonl

Each set adds one line to the file. The report is the table of docs/certificate.md, and its figure.
"""

import argparse
import json
import os
import time
from pathlib import Path

import jax
import numpy as np

import tightgp as tgp
from docs.figures import style
from experiments.neighbours import append, stored
from tightgp import datasets

FIGURE = Path("docs/figures/certificate.png")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["elevators", "pol", "kin40k", "protein"], metavar="SET")
    parser.add_argument("--effort", type=float, default=0.02, help="width to stop at, in nats a row")
    parser.add_argument("--seconds", type=float, help="time after which to stop")
    parser.add_argument("--steps", type=int, default=100, help="steps of L-BFGS before and after the second search")
    parser.add_argument("--exact-limit", type=int, default=11_000, help="most rows for the exact evidence")
    parser.add_argument(
        "--again", action="store_true", help="train and bracket a second time, with all programs compiled, for the time"
    )
    parser.add_argument("--models", type=Path, help="a folder where trained models are kept and looked for")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/certificate.jsonl"))
    parser.add_argument("--report", type=Path, metavar="FILE", help="measure nothing: show the results in this file")
    a = parser.parse_args()
    if a.report:
        lines = stored(a.report)
        print(table(lines))
        draw(lines, FIGURE)
        return
    for name in a.sets:
        line = measure(name, a)
        append(a.out, line)
        print(json.dumps(line), flush=True)


def measure(name: str, a: argparse.Namespace) -> dict:
    """Train, or take the model that is kept, and bracket its evidence."""
    data = datasets.split(name, 0).train
    model, trained = fitted(name, data, a)
    cheap, one_pass = timed(lambda: model.evidence_bracket(data))
    bracket, took = timed(lambda: model.evidence_bracket(data, effort=a.effort, seconds=a.seconds))
    made, n = bracket.certificate, data.num_data
    line = {
        "set": name,
        "rows": n,
        "noise_variance": float(model.noise_variance),
        "training": trained,
        "objective": float(model.elbo(data)) / n,
        "one_pass": {"lower": cheap.lower / n, "upper": cheap.upper / n, **one_pass},
        "effort": a.effort,
        "lower": bracket.lower / n,
        "upper": bracket.upper / n,
        "certain_upper": made.certain_upper / n,
        "estimate": made.estimate / n,
        "determinant": made.determinant,
        "neighbours": made.neighbours,
        "steps": made.steps,
        **took,
        "load": os.getloadavg()[0],
        "machine": f"{jax.devices()[0].device_kind}, JAX {jax.__version__}",
    }
    if a.again:
        _, training = timed(lambda: train(data, a))
        _, again = timed(lambda: model.evidence_bracket(data, effort=a.effort, seconds=a.seconds))
        line |= {"again": {"training": training["seconds"], "bracket": again["seconds"]}}
    if n <= a.exact_limit:
        gp = tgp.ExactGP(model.kernel, float(model.noise_variance))
        evidence, took = timed(lambda: float(gp.log_evidence(data)))
        line |= {"exact": evidence / n, "exact_cost": took}
    return line


def timed(function) -> tuple:
    """What a function returns, and its seconds by the clock and by the processors, compilation included."""
    clock, processors = time.perf_counter(), time.process_time()
    answer = function()
    return answer, {"seconds": time.perf_counter() - clock, "cpu_seconds": time.process_time() - processors}


def fitted(name: str, data: tgp.Dataset, a: argparse.Namespace) -> tuple[tgp.SGPR, dict]:
    """The trained model, and how its training went."""
    kept = a.models / f"{name}.safetensors" if a.models else None
    if kept and kept.exists():
        return tgp.load(kept), json.loads(kept.with_suffix(".json").read_text())
    result, took = timed(lambda: train(data, a))
    trained = {**took, "evaluations": result.evaluations, "message": result.message}
    if kept:
        tgp.save(result.model, kept)
        kept.with_suffix(".json").write_text(json.dumps(trained))
    return result.model, trained


def train(data: tgp.Dataset, a: argparse.Namespace) -> tgp.FitResult:
    """A training such as a user makes."""
    kernel = tgp.kernels.Matern32(1.0, np.full(data.num_inputs, max(1.0, 0.5 * np.sqrt(data.num_inputs))))
    start = tgp.SGPR(kernel, tgp.inducing.kmeans(data.X, 128, seed=0), 0.1, bound=tgp.Vecchia(32))
    return tgp.fit(start, data, steps=a.steps, refresh=1, tolerance=1e-7, progress=False)


def table(lines: list[dict]) -> str:
    """The table of the page, as Markdown: CPU seconds of what ran on a CPU, compilation included, else seconds."""
    heads = ["set (rows)", "lower bound", "exact", "upper bound", "width", "seconds: training, bracket"]
    rows = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for one in lines:
        exact = f"{one['exact']:.4f}" if "exact" in one else f"≈ {one['estimate']:.4f}"
        width = one["upper"] - one["lower"]
        took = f"{one['training']['cpu_seconds']:.0f}, {one['cpu_seconds']:.0f}"
        if "again" in one:
            took = f"{one['again']['training']:.1f}, {one['again']['bracket']:.1f}"
        elif "NVIDIA" in one["machine"]:
            took = f"{one['training']['seconds']:.1f}, {one['seconds']:.1f} with compilation"
        ends = f"{one['lower']:.4f} | {exact} | {one['upper']:.4f} | {width:.3f}"
        rows.append(f"| {one['set']} ({one['rows']:,}) | {ends} | {took} |")
    return "\n".join(rows)


def draw(lines: list[dict], path: Path) -> None:
    """The bracket of one pass and the certificate's, about the exact evidence or its estimate, on each set."""
    figure = style.canvas(7.5, 0.9 + 0.75 * len(lines))
    axes = figure.subplots()
    for row, one in enumerate(lines):
        centre = one.get("exact", one["estimate"])
        parts = (("one pass", one["one_pass"], style.YELLOW, 0.17), ("certificate", one, style.BLUE, -0.17))
        for name, ends, colour, shift in parts:
            low, high = centre - ends["lower"], ends["upper"] - centre
            at = len(lines) - 1 - row + shift
            axes.plot([-low, high], [at, at], color=colour, linewidth=5, solid_capstyle="butt")
            text = f"{name}: {low + high:.2g} nats a row, {ends['cpu_seconds']:.0f} CPU s"
            place = {"xytext": (6, 0), "textcoords": "offset points", "va": "center"}
            axes.annotate(text, (max(high, 0), at), color=colour, fontsize=9, **place)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xscale("symlog", linthresh=0.01, linscale=0.6)
    lowest = max(one.get("exact", one["estimate"]) - one["one_pass"]["lower"] for one in lines)
    highest = max(one["one_pass"]["upper"] - one.get("exact", one["estimate"]) for one in lines)
    axes.set_xlim(-2 * lowest, 400 * highest)  # on the right is room for words
    axes.set_ylim(-0.5, len(lines) - 0.5)
    axes.set_xticks([sign * 10.0**power for power in range(-2, 2) for sign in (-1, 1)] + [0.0])
    axes.minorticks_off()
    axes.set_yticks(range(len(lines)), [f"{one['set']}\n{one['rows']:,} rows" for one in reversed(lines)])
    axes.set_xlabel("bounds less the exact log evidence (or its estimate), nats a row; linear within ±0.01")
    style.save(figure, path)


if __name__ == "__main__":
    main()
