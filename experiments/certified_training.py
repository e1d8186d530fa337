"""Train on the certified bound, and see how far its optimum is from the exact GP's.

Each way of training starts from the same parameters, on the first training rows of a split; the exact evidence and
test scores are those at the parameters that it learns. Matérn-3/2, float64, L-BFGS; sparse models have 128 inducing
points and predict from 64 neighbours.

    python -m experiments.certified_training --rows 30000 --out benchmarks/results/certified-training-h200.jsonl
    python -m experiments.certified_training --report benchmarks/results/certified-training-h200.jsonl
"""

import argparse
import json
import os
from pathlib import Path

import jax
import numpy as np

import tightgp as tgp
from experiments.certificate import timed
from experiments.neighbours import append, stored
from tightgp import datasets

WAYS = {
    "exact": None,
    "certified": tgp.Certified(64),
    "vecchia": tgp.Vecchia(32),
    "neighbours": tgp.Neighbours(64),
    "diagonal": "diagonal",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["elevators", "pol", "kin40k"], metavar="SET")
    parser.add_argument("--ways", nargs="+", default=list(WAYS), choices=list(WAYS), metavar="WAY")
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--steps", type=int, default=100, help="most steps of L-BFGS")
    parser.add_argument("--split", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("experiments/results/certified-training.jsonl"))
    parser.add_argument("--report", type=Path, metavar="FILE", help="train nothing: show the results in this file")
    a = parser.parse_args()
    if a.report:
        print(table(stored(a.report)))
        return
    for name in a.sets:
        for way in a.ways:
            line = train(name, way, a)
            append(a.out, line)
            print(json.dumps(line), flush=True)


def train(name: str, way: str, a: argparse.Namespace) -> dict:
    """Train one way; the exact evidence and test scores of what it learns."""
    parts = datasets.split(name, a.split)
    data, test = parts.train.take(slice(a.rows)), parts.test.take(slice(4000))
    kernel = tgp.kernels.Matern32(1.0, np.full(data.num_inputs, max(1.0, 0.5 * np.sqrt(data.num_inputs))))
    bound = WAYS[way]
    model = tgp.ExactGP(kernel, 0.1)
    if bound is not None:
        model = tgp.SGPR(kernel, tgp.inducing.kmeans(data.X, 128, seed=0), 0.1, bound=bound)
    refresh = int(getattr(model, "groups_neighbours", False))
    steps = a.steps // (1 + refresh)
    tgp.fit(model, data, steps=1, refresh=refresh, tolerance=1e-6, progress=False)  # compilation is not training
    result, took = timed(lambda: tgp.fit(model, data, steps=steps, refresh=refresh, tolerance=1e-6, progress=False))
    learnt, post = result.model, result.model.posterior(data)
    neighbours = {"neighbours": 64} if refresh else {}
    mean, var = (np.ravel(one) for one in post.predict_y(test.X, **neighbours))
    squares = (np.ravel(test.y) - mean) ** 2
    exact = tgp.ExactGP(learnt.kernel, float(learnt.noise_variance)).log_evidence(data)
    solver = result.trace.get("solver_steps")
    return {
        "set": name,
        "way": way,
        "rows": data.num_data,
        "split": a.split,
        "objective": result.objective / data.num_data,
        "evidence": float(exact) / data.num_data,
        "noise_variance": float(learnt.noise_variance),
        "variance": float(learnt.kernel.variance),
        "lengthscale": np.asarray(learnt.kernel.lengthscale).tolist(),
        "log_density": float(np.mean(-0.5 * np.log(2 * np.pi * var) - 0.5 * squares / var)),
        "rmse": float(np.sqrt(np.mean(squares))),
        "evaluations": result.evaluations,
        "solver_steps": None if solver is None else float(np.mean(solver)),
        "message": result.message,
        **took,
        "load": os.getloadavg()[0],
        "machine": f"{jax.devices()[0].device_kind}, JAX {jax.__version__}",
    }


def table(lines: list[dict]) -> str:
    """The results as Markdown: evidence and scores at what each way learns."""
    heads = ["set (rows)", "trained on", "exact evidence there", "noise variance", "test log density, RMSE"]
    heads += ["seconds (evaluations)"]
    rows = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    for one in lines:
        scores = f"{one['log_density']:.3f}, {one['rmse']:.4f}"
        middle = f"{one['evidence']:.4f} | {one['noise_variance']:.2g} | {scores}"
        took = f"{one['seconds']:.1f} ({one['evaluations']})"
        rows.append(f"| {one['set']} ({one['rows']:,}) | {one['way']} | {middle} | {took} |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
