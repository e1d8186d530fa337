"""The artificial Poisson example: full variational GP, SVGP with one trained v, standard SVGP (figure 3).

50 counts on a grid over [−10, 10] with rate 3.5 + 3 sin x, six inducing points by k-means, all started alike and
trained by L-BFGS; ten seeds, since the paper does not say which counts it drew.
"""

from pathlib import Path

import numpy as np

import tightgp as tgp
from experiments.reproduction import account, figures, paper
from experiments.reproduction.cells import minus
from experiments.reproduction.counting import COLOUR, LABELS, MODELS, both_ways
from experiments.reproduction.experiment import Choice, Experiment
from experiments.reproduction.page import Block, Heading, Page, Picture, Table, Text
from experiments.reproduction.store import Record, Run, Store
from experiments.reproduction.tables import beside
from experiments.reproduction.work import Work
from tightgp import datasets

ROWS, INDUCING, SEEDS, STEPS = 50, 6, 10, 2000
#: The seed whose counts the figure shows, and how many fresh counts score the predictions.
SHOWN, FRESH = 1, 4000


def runs(choice: Choice) -> list[Run]:
    return choice.among(
        Run("poisson-toy", "toy", method, None if method == "full" else INDUCING, seed)
        for method in MODELS
        for seed in choice.split_numbers(SEEDS)
    )


def train(run: Run, work: Work) -> Record:
    data = datasets.counts(ROWS, run.split)
    Z = data.X if run.inducing is None else tgp.inducing.kmeans(data.X, run.inducing, seed=run.split)
    model = MODELS[run.method](tgp.kernels.SquaredExponential(paper.VARIANCE, paper.LENGTHSCALE), Z)
    result = tgp.fit(model, data, steps=STEPS, progress=False)
    rng = np.random.default_rng(1000 + run.split)
    X = rng.uniform(-10, 10, size=(FRESH, 1))
    fresh = tgp.Dataset(X, rng.poisson(datasets.count_rate(X[:, 0])))
    record = account.training(result) | both_ways(result.model, fresh) | {"test_rows": FRESH}
    if run.split == SHOWN:
        xs = np.linspace(-11, 11, 220)
        mean, var = (np.asarray(a) for a in result.model.posterior().predict_y(xs[:, None]))
        curve = {"x": xs.tolist(), "mean": mean.tolist(), "sd": np.sqrt(var).tolist()}
        record |= account.shortened({"curve": curve, "Z": np.asarray(result.model.Z)[:, 0].tolist()})
        record |= account.shortened({"data": {"x": data.X[:, 0].tolist(), "y": np.asarray(data.y, float).tolist()}})
    return record | {"summary": f"{result.objective:.3f} nats, v = {record['v']:.3f}"}


def page(store: Store, quick: bool, folder: Path) -> Page:
    found = store.done(runs(Choice(quick)))
    by = {(run.method, run.split): record for run, record in found.items()}
    seeds = sorted({run.split for run in found if all((method, run.split) in by for method in MODELS)})
    rows = []
    for seed in seeds:
        full, old, new = (by[method, seed] for method in ("full", "svgp", "svgp-new"))
        ordered = full["objective"] >= new["objective"] >= old["objective"]
        cells = [f"{r['objective']:.2f}" for r in (full, new, old)]
        cells += [f"{new['v']:.3f}", "yes" if ordered else "no"]
        cells += [f"{x:.3f}" for x in (full["plain"], new["plain"], new["scaled"], old["plain"])]
        rows.append((str(seed), *(minus(cell) for cell in cells)))
    scales = [by["svgp-new", seed]["v"] for seed in seeds]
    blocks: list[Block] = [
        Text(
            f"{ROWS} counts on a grid over [−10, 10] with rate 3.5 + 3 sin x, squared exponential, {INDUCING} inducing "
            "points by k-means, L-BFGS, float64. The paper shows one draw of the counts and no table; here are ten."
        ),
        *beside(found),
        Table(
            f"ELBO in nats, the trained v (the paper: about {paper.TOY_V}), and the mean log density of {FRESH} fresh "
            "counts: by the conditional's own variance, or by v times it (maths 8.3)",
            (
                "seed",
                *("Full GP", "SVGP-new", "SVGP", "v", "in order"),
                *("fresh: Full GP", "SVGP-new", "SVGP-new, with v", "SVGP"),
            ),
            rows,
        ),
        Text(f"v lies between {min(scales):.3f} and {max(scales):.3f}." if scales else ""),
        Heading("Figure 3, left and middle"),
        Picture(_figure(by, folder), f"Seed {SHOWN}: predicted counts (mean ± two standard deviations), and the ELBO."),
    ]
    return Page("poisson-toy", "Poisson regression, artificial counts", blocks)


def _figure(by: dict[tuple[str, int], Record], folder: Path) -> str:
    figure = figures.canvas(14, 4.6)
    left, right = figure.subplots(1, 2, width_ratios=(1.5, 1))
    mine = {method: by[method, SHOWN] for method in MODELS if (method, SHOWN) in by}
    for method, record in mine.items():
        mean, sd, x = (np.asarray(record["curve"][key]) for key in ("mean", "sd", "x"))
        style = "--" if method == "full" else "-"
        left.plot(x, mean, style, color=COLOUR[method], lw=1.8, label=LABELS[method])
        for edge in (mean - 2 * sd, mean + 2 * sd):
            left.plot(x, edge, style, color=COLOUR[method], lw=0.9)
        figures.curves(right, [record], "objective", COLOUR[method], LABELS[method])
    if mine:
        data = next(iter(mine.values()))["data"]
        left.plot(data["x"], data["y"], ".", color="#333333", ms=5)
        figures.room_for_ends(right, list(mine.values()))
    figures.legend(left, ncols=3, fontsize=9, loc="upper center", bbox_to_anchor=(0.5, 1.02))
    figures.legend(right, fontsize=9, loc="lower right")
    left.set(xlabel="input", ylabel="count")
    right.set_xlabel("L-BFGS step")
    figures.tidy(left, "predicted counts")
    figures.tidy(right, "ELBO (nats)")
    return figures.save(figure, folder / "poisson-toy.png")


EXPERIMENTS = (Experiment("poisson-toy", "artificial counts: figure 3", __name__, runs, page),)
