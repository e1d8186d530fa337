"""Bicycles on Brooklyn Bridge: Poisson regression on two temperatures (figures 3 and 5, table of NYBikes).

The file repeats 30 days seven times. A random 90 % of its rows contain nearly every day, so test rows have copies among
the training rows, for every method. ``nybikes-days`` takes every day once: ten folds of three days each.
"""

import warnings
from pathlib import Path

import numpy as np

import tightgp as tgp
from experiments.reproduction import account, figures, paper
from experiments.reproduction.cells import Cell, minus, thousands
from experiments.reproduction.counting import COLOUR, LABELS, MODELS, both_ways
from experiments.reproduction.experiment import Choice, Experiment
from experiments.reproduction.page import Block, Heading, Page, Picture, Table, Text
from experiments.reproduction.store import Record, Run, Store
from experiments.reproduction.tables import beside, compared
from experiments.reproduction.work import Work
from tightgp import datasets

SIZES = {"nybikes": (8, 16, 32), "nybikes-days": (8, 16)}
FOLDS = 10
STEPS, QUICK_STEPS = 10_000, 300


def runs(choice: Choice) -> list[Run]:
    return choice.among(
        Run("nybikes", name, method, m, split)
        for name, sizes in SIZES.items()
        for method in MODELS
        for m in ((None,) if method == "full" else sizes)
        for split in choice.split_numbers(FOLDS if name == "nybikes-days" else paper.SPLITS)
    )


def rows(name: str, split: int, quick: bool) -> tuple[tgp.Dataset, tgp.Dataset, bool]:
    """Training and test rows, inputs standardised by the former; and whether they are synthetic."""
    made_up = quick and datasets.locate("nybikes") is None
    if made_up:
        rng = np.random.default_rng(0)
        X = np.tile(rng.normal(60, 10, size=(30, 2)), (7, 1))
        y = np.tile(rng.poisson(np.exp(7 + 0.02 * (X[:30, 0] - 60))), 7)
    else:
        loaded = datasets.load("nybikes")
        X, y = loaded.X, loaded.y
    if name == "nybikes-days":
        days = np.unique(np.column_stack([X, y]), axis=0)
        order = np.random.default_rng(0).permutation(len(days))
        test = order[split::FOLDS]
        X, y = days[:, :-1], days[:, -1]
        train = np.setdiff1d(order, test)
    else:
        order = np.random.default_rng(split).permutation(len(y))
        train, test = np.split(order, [int(0.9 * len(y))])
    shift, scale = X[train].mean(axis=0), X[train].std(axis=0)
    return (
        tgp.Dataset((X[train] - shift) / scale, y[train]),
        tgp.Dataset((X[test] - shift) / scale, y[test]),
        made_up,
    )


def train(run: Run, work: Work) -> Record:
    data, test, made_up = rows(run.set, run.split, work.quick)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="only .* inducing points are distinct")  # there are 30 days
        # The full GP has one function value at equal inputs, so inducing points at the distinct inputs are enough.
        Z = np.unique(data.X, axis=0) if run.inducing is None else tgp.inducing.kmeans(data.X, run.inducing, run.split)
    kernel = tgp.kernels.SquaredExponential(paper.VARIANCE, np.full(data.num_inputs, paper.LENGTHSCALE))
    result = work.fit(
        MODELS[run.method](kernel, Z),
        data,
        "adam",
        steps=QUICK_STEPS if work.quick else STEPS,
        learning_rate=paper.LEARNING_RATE,
    )
    record = account.training(result) | both_ways(result.model, test)
    shown = f"ELBO {result.objective:.0f}, test log density {record['plain']:.3f} (with v {record['scaled']:.3f})"
    return record | {"made_up": made_up, "rows": data.num_data, "summary": shown}


def page(store: Store, quick: bool, folder: Path) -> Page:
    found = store.done(runs(Choice(quick)))
    blocks: list[Block] = [
        Text(
            "Bicycles a day on Brooklyn Bridge by the day's highest and lowest temperature; squared exponential "
            f"with two lengthscales, inducing points by k-means, {thousands(STEPS)} full-batch steps of Adam at 0.01, "
            "float64. The 210 rows are 30 days repeated seven times: a random 90 % of them hold nearly every day, "
            "so the test rows were seen in training. The second table takes each day once, in ten folds of three "
            "days. A Poisson has no way to say that two days of one temperature differ by more than √count, which "
            "is why these densities are so low."
        ),
        *beside(found),
        Heading("Test log density, the paper's split"),
        _table("nybikes", found),
        Heading("Test log density, distinct days"),
        _table("nybikes-days", found),
        Heading("ELBO"),
        Picture(_figure(found, folder), "ELBO across the steps of Adam: mean and standard error over the splits."),
    ]
    return Page("nybikes", "Poisson regression, NYBikes", blocks)


def _cell(name: str, method: str, m: int | None, key: str, found) -> Cell:
    mine = found.of(set=name, method=method, inducing=m)
    known = paper.NYBIKES.get((method, m)) if name == "nybikes" and key != "objective" else None
    splits = FOLDS if name == "nybikes-days" else paper.SPLITS
    return Cell(tuple(r[key] for r in mine), known, splits)


def _table(name: str, found) -> Table:
    lines = []
    for method in MODELS:
        for m in (None,) if method == "full" else SIZES[name]:
            keys = ("plain", "scaled") if method == "svgp-new" else ("plain",)
            cells = [_cell(name, method, m, key, found) for key in keys]
            label = f"{LABELS[method]}{'' if m is None else f', M = {m}'}"
            lines.append((label, cells + [Cell(())] * (2 - len(cells)), m, method))
    made = compared(
        "Mean test log density (standard error over splits)",
        ("conditional's own variance", "v times it"),
        [(label, cells) for label, cells, _, _ in lines],
    )
    more = []
    for label, _, m, method in lines:
        mine = found.of(set=name, method=method, inducing=m)
        if mine:
            elbo = _cell(name, method, m, "objective", found).text(0)
            v = f"{min(r['v'] for r in mine):.3g} to {max(r['v'] for r in mine):.3g}" if method == "svgp-new" else ""
            more.append((label, minus(elbo), v))
    rows = [(*row, *next(extra[1:] for extra in more if extra[0] == row[0])) for row in made.rows]
    return Table(made.caption, (*made.columns, "ELBO, nats", "v"), rows, made.cells)


def _figure(found, folder: Path) -> str:
    sizes = sorted({run.inducing for run in found if run.set == "nybikes" and run.inducing is not None})
    figure = figures.canvas(4.8 * max(len(sizes), 1), 4)
    grid = figure.subplots(1, max(len(sizes), 1), squeeze=False)[0]
    for ax, m in zip(grid, sizes, strict=False):
        shown = []
        for method in MODELS:
            size = None if method == "full" else m
            mine = found.of(set="nybikes", method=method, inducing=size)
            figures.curves(ax, mine, "objective", COLOUR[method], LABELS[method], "--" if method == "full" else "-")
            shown += mine
        if shown:
            figures.room_for_ends(ax, shown)
        figures.legend(ax, fontsize=9, loc="lower right")
        ax.set_xlabel("step of Adam")
        figures.tidy(ax, f"M = {m}: ELBO (nats)")
    return figures.save(figure, folder / "nybikes.png")


EXPERIMENTS = (Experiment("nybikes", "bicycle counts: ELBO curves and the table", __name__, runs, page),)
