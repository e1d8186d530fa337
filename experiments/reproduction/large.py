"""The large sets by minibatches: SVGP, SVGP-new, ODVGP, SOLVE-GP, and ours (table 2 and the table of RMSE).

Matérn-3/2 with one lengthscale, q(u) whitened, Adam at 0.01, batches of 1024, 100 epochs, from the paper's start.
"""

from pathlib import Path

import numpy as np

import tightgp as tgp
from experiments.reproduction import account, figures, paper, rows
from experiments.reproduction.cells import Cell, minus
from experiments.reproduction.experiment import Choice, Experiment
from experiments.reproduction.page import Block, Heading, Page, Picture, Table, Text
from experiments.reproduction.store import Record, Run, Store, gains
from experiments.reproduction.tables import beside, compared, speed
from experiments.reproduction.work import Work
from tightgp import datasets
from tightgp.app.comparison import COLOURS

#: Sets whose files must not be passed on: left out unless they are there.
IF_GIVEN = ("3droad", "song", "buzz")
#: bound, and which second set of inducing points: none, one that moves the mean only, or one with its own Gaussian.
METHODS = {
    "svgp": ("standard", None),
    "svgp-new": ("diagonal", None),
    "odvgp": ("standard", "fixed"),
    "solvegp": ("standard", "full"),
    "svgp-block": (tgp.Block(64), None),
    "svgp-batch": (tgp.Block(paper.BATCH, partition="random"), None),
    "solvegp-new": ("diagonal", "full"),
}
LABELS = {
    "svgp": "SVGP",
    "svgp-new": "SVGP-new",
    "odvgp": "ODVGP",
    "solvegp": "SOLVE-GP",
    "svgp-block": "SVGP, blocks of 64 (ours)",
    "svgp-batch": "SVGP, the batch is the block (ours)",
    "solvegp-new": "SOLVE-GP, diagonal bound (ours)",
}
SIZES = {"svgp": (1024, 2048), "svgp-new": (1024, 2048)}
#: Pairs of methods to compare split by split.
PAIRS = (("svgp-new", "svgp"), ("solvegp-new", "solvegp"), ("svgp-block", "svgp-new"), ("svgp-batch", "svgp-new"))
QUICK_INDUCING, QUICK_EPOCHS, QUICK_BATCH = {1024: 32, 2048: 64}, 20, 128


def sets(quick: bool) -> list[str]:
    """The paper's sets, without those whose files are missing."""
    names = [name for name in paper.LARGE_SETS if name not in IF_GIVEN or datasets.locate(name) is not None]
    return names[:2] if quick else names


def runs(choice: Choice) -> list[Run]:
    return choice.among(
        Run("large", name, method, QUICK_INDUCING[m] if choice.quick else m, split)
        for name in sets(choice.quick)
        for method in METHODS
        for m in SIZES.get(method, (1024,))
        for split in choice.split_numbers()
    )


def start(method: str, Z, second=None) -> tgp.SVGP:
    """A method at the paper's start; ``second`` is its second set of inducing points, if it has one."""
    bound, covariance = METHODS[method]
    kernel, noise = tgp.kernels.Matern32(paper.VARIANCE, paper.LENGTHSCALE), paper.NOISE_VARIANCE
    options = {} if covariance is None else {"orthogonal": second, "orthogonal_covariance": covariance}
    return tgp.SVGP(kernel, tgp.likelihoods.Gaussian(noise), Z, bound, **options)


def train(run: Run, work: Work) -> Record:
    parts = rows.parts(run.set, run.split, work.quick)
    data, Z = parts.train, work.centres(run, parts.train.X)
    second = None if METHODS[run.method][1] is None else work.centres(run, data.X, second=True)
    result = work.fit(
        start(run.method, Z, second),
        data,
        "adam",
        batch_size=QUICK_BATCH if work.quick else paper.BATCH,
        epochs=QUICK_EPOCHS if work.quick else paper.EPOCHS,
        learning_rate=paper.LEARNING_RATE,
        seed=run.split,
    )
    record = account.of(result, result.model.posterior(), parts.test)
    rate = float(np.median(result.trace["steps_per_second"]))
    record |= {"elbo": account.shortened(float(result.model.elbo(data)), 9)} if data.num_data < 200_000 else {}
    return record | {"rows": data.num_data, "made_up": parts.made_up, "steps_per_second": account.shortened(rate)}


def page(store: Store, quick: bool, folder: Path) -> Page:
    found = store.done(runs(Choice(quick)))
    names = [name for name in paper.LARGE_SETS if any(run.set == name for run in found)]
    absent = [name for name in paper.LARGE_SETS if name not in names]
    blocks: list[Block] = [
        Text(
            "Matérn-3/2 with one lengthscale, q(u) whitened, inducing points by k-means, Adam at 0.01, batches of "
            "1024, 100 epochs, five splits (64 % of the rows train, 20 % test, all standardised by the training "
            "rows), from σ = 0.51, σ_f = 0.69, ℓ = 1. float64. ODVGP and SOLVE-GP have a second set of as many "
            "points; the paper quotes their numbers from Shi, Titsias & Mnih (2020). M is that of one set of points."
        ),
        *beside(found),
        *([Text(f"Not run: {', '.join(absent)}.")] if absent else []),
        Text(
            "Blocks of 64 are of neighbours, and a batch has sixteen of them; where the batch is the block, its rows "
            "are drawn at random, once. What has fewer splits compares with the others in the table split by split."
        ),
        Heading("Test log density"),
        _table("Mean test log density (standard error over splits)", "log_density", names, found),
        _picture(names, found, folder),
        Heading("Test RMSE"),
        _table("Test RMSE of standardised targets (standard error over splits)", "rmse", names, found),
        Heading("Split by split"),
        _gains(names, found),
        Heading("Time"),
        speed(found, LABELS),
    ]
    return Page("large", "Large regression sets, by minibatches", blocks)


def _cell(key: str, name: str, method: str, m: int | None, found) -> Cell:
    table = paper.LARGE_LOG_DENSITY if key == "log_density" else paper.LARGE_RMSE
    ours = found.scores(key, set=name, method=method, inducing=m)
    return Cell(ours, table.get((method, m), {}).get(name) if m is not None else None)


def _kinds(found) -> list[tuple[str, int | None]]:
    kinds = dict.fromkeys((run.method, run.inducing) for run in found)
    return sorted(kinds, key=lambda kind: (list(METHODS).index(kind[0]), kind[1]))


def _label(method: str, m: int | None) -> str:
    return f"{LABELS[method]}, M = {m}"


def _table(caption: str, key: str, names: list[str], found):
    lines = [(_label(method, m), [_cell(key, name, method, m, found) for name in names]) for method, m in _kinds(found)]
    return compared(caption, names, lines)


def _picture(names: list[str], found, folder: Path) -> Picture:
    kinds = _kinds(found)
    figure = figures.canvas(3.1 * len(names) + 1.6, 0.42 * len(kinds) + 1.6)
    grid = figure.subplots(1, len(names), squeeze=False, sharey=True)[0]
    colour = {"svgp": COLOURS["standard"], "svgp-new": COLOURS["diagonal"], "svgp-block": COLOURS["block"]}
    colour["svgp-batch"] = COLOURS["block"]
    for ax, name in zip(grid, names, strict=True):
        cells = [_cell("log_density", name, method, m, found) for method, m in reversed(kinds)]
        least = _least([cell.paper[0] for cell in cells if cell.paper] + [cell.mean for cell in cells if cell.ours])
        for height, (cell, (method, _)) in enumerate(zip(cells, reversed(kinds), strict=True)):
            if cell.paper is not None and cell.paper[0] < least:
                ax.annotate(
                    minus(f"◂ {cell.paper[0]:.3f}"),
                    (0.02, height + 0.16),
                    xycoords=("axes fraction", "data"),
                    color="#777777",
                    fontsize=9,
                    va="center",
                )
            elif cell.paper is not None:
                ax.errorbar(cell.paper[0], height + 0.16, xerr=cell.paper[1], fmt="o", color="#999999", ms=4, lw=1.2)
            if cell.ours:
                error = None if np.isnan(cell.error) else cell.error
                ax.errorbar(cell.mean, height - 0.16, xerr=error, fmt="D", color=colour.get(method, "#555577"), ms=4.5)
        if np.isfinite(least):
            ax.set_xlim(left=least)
        ax.set_yticks(range(len(kinds)), [_label(method, m) for method, m in reversed(kinds)])
        ax.grid(axis="x", color="#e5e5e5", lw=0.8)
        ax.set_axisbelow(True)
        figures.tidy(ax, name)
    figure.supxlabel("test log density (nats a row)", fontsize=11)
    file = figures.save(figure, folder / "large.png")
    return Picture(
        file,
        "Test log density with standard errors: the paper's (grey circles; ◂ far off to the left) and ours (diamonds).",
    )


def _least(values: list[float]) -> float:
    """The left end of an axis: below all values, except for outliers that would leave no room for the others."""
    middle, top = float(np.median(values)), max(values)
    near = [value for value in values if value >= middle - 10 * (top - middle)]
    return -np.inf if len(near) == len(values) else min(near) - 0.25 * (top - min(near))


def _gains(names: list[str], found) -> Table:
    """Differences between methods split by split, since some splits are harder than others."""
    lines = []
    for method, other in PAIRS:
        for m in sorted({run.inducing for run in found if run.method == method}):
            cells = []
            for name in names:
                ours, theirs = (found.by_split("log_density", set=name, method=x, inducing=m) for x in (method, other))
                cells.append(Cell(gains(ours, theirs)))
            lines.append((f"{_label(method, m)}, above {LABELS[other]}", cells))
    return compared(
        "Test log density above that of another method on the same split: mean (standard error)", names, lines, 4
    )


EXPERIMENTS = (Experiment("large", "Kin40k to HouseElectric by minibatches: seven methods", __name__, runs, page),)
