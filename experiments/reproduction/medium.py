"""Pol, Bike and Elevators: the exact GP, three collapsed bounds, and blocks of neighbours (figures 2 and 4, table 1).

Squared exponential with a lengthscale for each input; the sparse methods take 10 000 full-batch steps of Adam from
the paper's start, the exact GP is trained by L-BFGS.
"""

from functools import partial
from pathlib import Path

import numpy as np

import tightgp as tgp
from experiments.reproduction import account, figures, paper, rows
from experiments.reproduction.cells import Cell, minus, thousands
from experiments.reproduction.experiment import Choice, Experiment
from experiments.reproduction.page import Block, Heading, Page, Picture, Table, Text
from experiments.reproduction.store import Record, Run, Store
from experiments.reproduction.tables import beside, compared, speed
from experiments.reproduction.work import Work
from tightgp.app.comparison import COLOURS

SETS = ("pol", "bike", "elevators")
BOUNDS = {"sgpr": "standard", "sgpr-artemev": "spherical", "sgpr-new": "diagonal", "sgpr-block": tgp.Block(64)}
LABELS = {
    "exact": "Exact GP",
    "sgpr": "SGPR",
    "sgpr-artemev": "SGPR-artemev",
    "sgpr-new": "SGPR-new",
    "sgpr-block": "blocks of 64 (ours)",
}
COLOUR = {
    "exact": COLOURS["exact"],
    "sgpr": COLOURS["standard"],
    "sgpr-artemev": COLOURS["spherical"],
    "sgpr-new": COLOURS["diagonal"],
    "sgpr-block": COLOURS["block"],
}
#: Nearest training rows that our blocks' second prediction uses.
NEIGHBOURS = 64
EXACT_STEPS, EXACT_TOLERANCE, QUICK_STEPS = 300, 1e-8, 200
QUICK_INDUCING = {1024: 32, 2048: 64}


def runs(inducing: int, choice: Choice) -> list[Run]:
    m = QUICK_INDUCING[inducing] if choice.quick else inducing
    return choice.among(
        Run("medium", name, method, None if method == "exact" else m, split)
        for name in SETS
        for method in ("exact", *BOUNDS)
        for split in choice.split_numbers()
    )


def _kernel(data: tgp.Dataset) -> tgp.kernels.Kernel:
    return tgp.kernels.SquaredExponential(paper.VARIANCE, np.full(data.num_inputs, paper.LENGTHSCALE))


def start(method: str, data: tgp.Dataset, Z) -> tgp.SGPR:
    """A sparse method at the paper's start."""
    return tgp.SGPR(_kernel(data), Z, paper.NOISE_VARIANCE, bound=BOUNDS[method])


def train(run: Run, work: Work) -> Record:
    parts = rows.parts(run.set, run.split, work.quick)
    data = parts.train
    seen: tuple[int | None, ...] = (None,)
    if run.inducing is None:
        model = tgp.ExactGP(_kernel(data), paper.NOISE_VARIANCE)
        result = work.fit(model, data, "lbfgs", steps=EXACT_STEPS, tolerance=EXACT_TOLERANCE)
    else:
        Z = work.centres(run, data.X)
        steps = QUICK_STEPS if work.quick else paper.STEPS
        result = work.fit(start(run.method, data, Z), data, "adam", steps=steps, learning_rate=paper.LEARNING_RATE)
        if run.method == "sgpr-block":
            seen = (None, NEIGHBOURS)
    post = result.model.posterior(data)
    record = account.of(result, post, parts.test, seen) | {"rows": data.num_data, "made_up": parts.made_up}
    if run.method == "sgpr-new":
        record["v"] = account.histogram(post.scales)
    return record


def page(inducing: int, store: Store, quick: bool, folder: Path) -> Page:
    found = store.done(runs(inducing, Choice(quick)))
    m = QUICK_INDUCING[inducing] if quick else inducing
    blocks: list[Block] = [
        Text(
            f"Squared exponential with a lengthscale for each input, M = {m}, inducing points by k-means, five "
            "splits (64 % of the rows train, 20 % test, all standardised by the training rows). The sparse methods "
            f"take {thousands(paper.STEPS)} full-batch steps of Adam at {paper.LEARNING_RATE} from σ = 0.51, σ_f = "
            "0.69, ℓ = 1. The exact GP is trained by L-BFGS instead, from the same start. float64."
        ),
        *beside(found),
    ]
    blocks += [Heading("Test log density"), _table(m, found), Heading("Training"), _picture(inducing, m, found, folder)]
    blocks += [_order(m, found), Heading("Time"), speed(found, LABELS)]
    return Page(f"medium-{inducing}", f"Medium regression sets, M = {m}", blocks)


def _table(m: int, found) -> Table:
    lines = []
    ways = [(method, None, LABELS[method]) for method in LABELS]
    ways.append(("sgpr-block", NEIGHBOURS, f"blocks of 64, {NEIGHBOURS} neighbours (ours)"))
    for method, neighbours, label in ways:
        cells = []
        for name in SETS:
            size = None if method == "exact" else m
            known = paper.MEDIUM.get((name, method, size)) if neighbours is None else None
            ours = found.scores("log_density", neighbours, set=name, method=method, inducing=size)
            cells.append(Cell(ours, known))
        lines.append((label, cells))
    return compared("Mean test log density (standard error over splits)", SETS, lines)


def _picture(inducing: int, m: int, found, folder: Path) -> Picture:
    names = [name for name in SETS if any(run.set == name and run.method in BOUNDS for run in found)] or SETS
    figure = figures.canvas(4.6 * len(names), 9.5)
    grid = figure.subplots(3, len(names), squeeze=False)
    for column, name in enumerate(names):
        mine = {method: found.of(set=name, method=method) for method in LABELS}
        sparse = [r for method in BOUNDS for r in mine[method]]
        objective, noise, hist = grid[:, column]
        for key, ax in (("objective", objective), ("noise_variance", noise)):
            figures.level(ax, mine["exact"], key, COLOUR["exact"], "Exact GP")
            for method in BOUNDS:
                few = f" [{len(mine[method])} of {paper.SPLITS}]" if len(mine[method]) < paper.SPLITS else ""
                figures.curves(ax, mine[method], key, COLOUR[method], LABELS[method] + few)
        if sparse or mine["exact"]:
            figures.room_for_ends(objective, sparse + mine["exact"])
            noise.set_yscale("log")
        figures.tidy(objective, f"{name}: objective (nats)")
        figures.tidy(noise, "noise variance σ²")
        figures.legend(noise, fontsize=8, loc="upper right")
        noise.set_xlabel("step of Adam")
        first = next((r for r in mine["sgpr-new"] if "v" in r), None)
        if first is not None:
            counts, edges = first["v"]["counts"], np.asarray(first["v"]["edges"])
            hist.bar(edges[:-1], counts, np.diff(edges), align="edge", color=COLOUR["sgpr-new"], alpha=0.85)
        hist.set_xlim(0, 1)
        hist.set(xlabel="vᵢ", ylabel="rows" if column == 0 else None)
        figures.tidy(hist, "vᵢ of SGPR-new, one split")
    file = figures.save(figure, folder / f"medium-{inducing}.png")
    return Picture(
        file,
        "Mean and standard error over the splits, or over those that it says: the objective and the noise variance; "
        "and one histogram of vᵢ.",
    )


def _order(m: int, found) -> Text:
    """Whether objectives and scores have the paper's order."""
    told, methods = [], ("sgpr", "sgpr-artemev", "sgpr-new")
    for name in SETS:
        mine = found.shared(methods, set=name, inducing=m)
        for key, what in (("objective", "objective"), ("log_density", "test log density")):
            means = []
            for method in methods:
                ends = [r["objective"] for r in mine.of(method=method)]
                values = ends if key == "objective" else mine.scores(key, method=method)
                means.append(np.mean(values) if values else np.nan)
            if np.all(np.isfinite(means)):
                digits = 1 if key == "objective" else 5
                shown = " ≤ ".join(f"{v:.{digits}f}" for v in means)
                ordered = means[0] <= means[1] <= means[2]
                told.append(f"{name}, {what}: {shown if ordered else shown.replace('≤', '·') + ' (not in this order)'}")
    return Text(minus("SGPR ≤ SGPR-artemev ≤ SGPR-new, on the splits that all have? " + "; ".join(told) + "."))


EXPERIMENTS = tuple(
    Experiment(
        f"medium-{m}",
        f"Pol, Bike, Elevators with M = {m}: exact GP, SGPR, SGPR-artemev, SGPR-new, blocks",
        __name__,
        partial(runs, m),
        partial(page, m),
    )
    for m in (1024, 2048)
)
