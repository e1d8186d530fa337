"""Past the paper, step by step: what each thing the library offers adds at the same M, and the time it takes.

From the paper's protocol (SVGP-new by minibatches; SGPR-new by Adam on the medium sets) to L-BFGS on the collapsed
bound at all rows, inducing points chosen greedily, blocks of neighbours with local prediction, a lengthscale for each
input, and Power EP with blocks, which is no bound. GPyTorch's SVGP under the paper's protocol stands beside them.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import tightgp as tgp
from experiments.reproduction import account, figures, large, medium, paper, rows
from experiments.reproduction.cells import Cell, minus
from experiments.reproduction.experiment import Choice, Experiment
from experiments.reproduction.page import Block, Heading, Page, Picture, Table, Text
from experiments.reproduction.store import Found, Record, Run, Store
from experiments.reproduction.tables import beside, seconds
from experiments.reproduction.work import Work

INDUCING, QUICK_INDUCING = 1024, 32
NEIGHBOURS = (64, 128)
#: Steps of L-BFGS: rows up to which, and how many.
STEPS = ((100_000, 400), (10**9, 60))
QUICK_STEPS = 30
#: k-means and greedy choice look at no more rows than these.
CANDIDATES = 100_000


@dataclass(frozen=True)
class Step:
    """One way to train: the bound, whether each input has its lengthscale, how inducing points start."""

    label: str
    bound: str | tgp.Conditional = "diagonal"
    ard: bool = False
    greedy: bool = False
    local: bool = False
    is_bound: bool = True


ONE = {
    "collapsed": Step("collapsed, L-BFGS"),
    "greedy": Step("greedy inducing points", greedy=True),
    "block": Step("blocks of 64, local", tgp.Block(64), local=True),
    "pitc": Step("PITC of 64 (no bound), local", tgp.PowerEP(1.0, block=64), local=True, is_bound=False),
}
EACH = {
    "collapsed-ard": Step("ARD: collapsed, L-BFGS", ard=True),
    "block-ard": Step("ARD: blocks of 64, local", tgp.Block(64), ard=True, local=True),
    "pep-ard": Step("ARD: Power EP ½ of 64 (no bound), local", tgp.PowerEP(0.5, block=64), True, False, True, False),
    "pitc-ard": Step("ARD: PITC of 64 (no bound), local", tgp.PowerEP(1.0, block=64), True, False, True, False),
}
STEPS_TAKEN = ONE | EACH
SETS = (*medium.SETS, *paper.LARGE_SETS)


def runs(choice: Choice) -> list[Run]:
    m = QUICK_INDUCING if choice.quick else INDUCING
    names = ("pol", "kin40k") if choice.quick else (*medium.SETS, *large.sets(False))
    return choice.among(
        Run("beaten", name, method, m, split)
        for name in names
        for method in ((*EACH,) if name in medium.SETS else (*STEPS_TAKEN, "gpytorch"))
        for split in choice.split_numbers(paper.SPLITS, 1)
    )


def train(run: Run, work: Work) -> Record:
    parts = rows.parts(run.set, run.split, work.quick, paper.BIKE_ROWS if run.set == "bike" else None)
    data = parts.train
    file = work.cache / f"{run.set}-{run.inducing}-{run.split}.npy"
    facts = {"rows": data.num_data, "made_up": parts.made_up}
    if run.method == "gpytorch":
        from experiments.reproduction import gpytorch_svgp

        Z = rows.centres(data.X, run.inducing, run.split, file)
        return gpytorch_svgp.train(parts, Z, work.quick, work.deadline) | facts
    step = STEPS_TAKEN[run.method]
    start = math.sqrt(data.num_inputs)
    family = tgp.kernels.SquaredExponential if run.set in medium.SETS else tgp.kernels.Matern32
    kernel = family(1.0, np.full(data.num_inputs, start) if step.ard else start)
    if step.greedy:
        some = np.random.default_rng(run.split).permutation(data.num_data)[:CANDIDATES]
        Z = tgp.inducing.greedy_variance(np.asarray(data.X)[np.sort(some)], run.inducing, kernel, seed=run.split)
    else:
        Z = rows.centres(data.X, run.inducing, run.split, file)
    steps = QUICK_STEPS if work.quick else next(count for most, count in STEPS if data.num_data <= most)
    model = tgp.SGPR(kernel, Z, 0.1, bound=step.bound)
    # Who is whose neighbour is known better once lengthscales are: blocks are made anew half-way.
    rounds = 2 if step.ard and step.local else 1
    result = work.fit(model, data, "lbfgs", steps=steps // rounds, refresh=rounds - 1, tolerance=1e-7)
    post = result.model.posterior(data)
    ways = (None, *(NEIGHBOURS if step.local else ()))
    return account.of(result, post, parts.test, ways) | facts | {"is_bound": step.is_bound}


def page(store: Store, quick: bool, folder: Path) -> Page:
    found = store.done(runs(Choice(quick)))
    names = [name for name in SETS if found.of(set=name)]
    size = QUICK_INDUCING if quick else INDUCING
    protocol = Found(
        {
            run: record
            for run, record in store.done([*medium.runs(1024, Choice(quick)), *large.runs(Choice(quick))]).items()
            if run.inducing == size
        }
    )
    table, picture = _rows(names, found, protocol)
    blocks: list[Block] = [
        Text(
            f"M = {size} and the paper's kernels: squared exponential with a lengthscale for each input on the "
            "medium sets; Matérn-3/2 on the large ones, with one lengthscale as in the paper, and apart from it "
            "with one for each input (ARD). L-BFGS on all rows at once takes at most 400 steps (60 on more than 100 "
            "000 rows); blocks are made anew half-way where lengthscales differ. Local prediction (local) "
            f"conditions a test row also on its {NEIGHBOURS[0]} or {NEIGHBOURS[1]} nearest training rows: the better "
            "on the training's own split is not known beforehand, so both are shown. Power EP and PITC are no "
            "bounds. float64; GPyTorch in its own float32. Times are of one training, compilation included, and of "
            "those runs that had the GPU to themselves, where there are any."
        ),
        *beside(found),
        Heading("Test log density and seconds of training"),
        table,
        Picture(
            _figure(picture, [row[0] for row in table.rows[1:]], folder),
            "Test log density, step by step; the line is the paper's best sparse method.",
        ),
        Heading("Test RMSE"),
        _rmse(names, found),
    ]
    return Page("beaten", "Past the paper", blocks)


def _lines() -> list[tuple[str, str, int | None]]:
    """Label, method and neighbours of every row of the table."""
    lines: list[tuple[str, str, int | None]] = []
    for method, step in STEPS_TAKEN.items():
        lines += [(f"{step.label}, {n} rows", method, n) for n in NEIGHBOURS] if step.local else []
        lines += [] if step.local else [(step.label, method, None)]
    return lines


def _entry(found: Found, name: str, method: str, neighbours: int | None = None) -> tuple[Cell, str]:
    """Test log density, and the time of a training."""
    which = {"set": name, "method": method}
    return Cell(found.scores("log_density", neighbours, **which)), seconds(found.of(**which))


def _rows(names, found, protocol) -> tuple[Table, dict[str, list[tuple[str, float]]]]:
    table: list[tuple[str, ...]] = []
    picture: dict[str, list[tuple[str, float]]] = {name: [] for name in names}
    best = {name: paper.best(name) for name in names}
    table.append(("paper's best sparse method", *(minus(f"{best[n][0]:.3f}\n{best[n][1]}") for n in names)))
    other = {name: "sgpr-new" if name in medium.SETS else "svgp-new" for name in names}

    def line(label: str, cells: list[tuple[Cell, str]]) -> None:
        shown = []
        for name, (cell, time) in zip(names, cells, strict=True):
            ahead = " ●" if cell.ours and cell.mean > best[name][0] else ""
            shown.append(f"{cell.text()}{ahead}\n{time}" if cell.ours else time or "—")
            if cell.ours:
                picture[name].append((label, cell.mean))
        if any(cell.ours or time for cell, time in cells):
            table.append((label, *shown))

    line("the paper's protocol, new bound", [_entry(protocol, n, other[n]) for n in names])
    line("GPyTorch's SVGP, the paper's protocol", [_entry(found, n, "gpytorch") for n in names])
    for label, method, neighbours in _lines():
        line(label, [_entry(found, n, method, neighbours) for n in names])
    caption = (
        "Mean test log density (standard error over splits; ● above the paper's best), and seconds of one training"
    )
    return Table(caption, ("", *names), table), picture


def _rmse(names, found) -> Table:
    lines = [("GPyTorch's SVGP, the paper's protocol", "gpytorch", None), *_lines()]
    table = [
        (label, *(Cell(found.scores("rmse", k, set=n, method=method)).text(4) for n in names))
        for label, method, k in lines
    ]
    return Table("Test RMSE of standardised targets (standard error over splits)", ("", *names), table)


def _figure(picture: dict[str, list[tuple[str, float]]], labels: list[str], folder: Path) -> str:
    figure = figures.canvas(2.5 * len(picture) + 4.2, 0.36 * len(labels) + 1.4)
    grid = figure.subplots(1, len(picture), squeeze=False, sharey=True)[0]
    heights = {label: -i for i, label in enumerate(labels)}
    for ax, (name, found) in zip(grid, picture.items(), strict=True):
        limit = paper.best(name)[0]
        ax.axvline(limit, color="#999999", lw=1.2, ls="--")
        for label, mean in found:
            colour = "#d55e00" if mean > limit else "#8a8f96"
            ax.plot(mean, heights[label], "D", color=colour, ms=5)
        values = [mean for _, mean in found] + [limit]
        middle, top = np.median(values), max(values)
        ax.set_xlim(max(min(values), middle - 3 * (top - middle) - 0.1) - 0.05, top + 0.1 * (top - min(values)) + 0.02)
        ax.grid(axis="x", color="#eeeeee")
        ax.set_axisbelow(True)
        figures.tidy(ax, name)
    grid[0].set_yticks(list(heights.values()), list(heights), fontsize=9)
    return figures.save(figure, folder / "beaten.png")


EXPERIMENTS = (Experiment("beaten", "better test scores in less time, step by step", __name__, runs, page),)
