"""Past the paper, step by step: what each thing the library offers adds at the same M, and the time it takes.

The first step is the paper's protocol (SVGP-new by minibatches; SGPR-new by Adam on the medium sets). Then come L-BFGS
on all rows with few and with many steps, greedy inducing points, twice as many inducing points, blocks of neighbours
with local prediction, a lengthscale for each input, and Power EP with blocks, which is no bound. GPyTorch's SVGP under
the paper's protocol is timed too.
"""

import math
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import tightgp as tgp
from experiments.reproduction import account, beaten_page, gpytorch_svgp, large, medium, paper, protocol, rows
from experiments.reproduction.experiment import Choice, Experiment
from experiments.reproduction.page import Page
from experiments.reproduction.steps import EACH, GPYTORCH, PROTOCOL, STEPS_TAKEN
from experiments.reproduction.store import Found, Record, Run, Store
from experiments.reproduction.work import Work

INDUCING, QUICK_INDUCING = 1024, 32
QUICK_STEPS = 30
#: Most rows that the greedy choice looks at, and most validation rows by which ways to train and to predict are
#: chosen.
CANDIDATES, VALIDATION = 100_000, 20_000
#: Methods that run on one split only: they time the protocols.
ONE_SPLIT = (PROTOCOL, GPYTORCH)


@dataclass(frozen=True)
class Effort:
    """The effort for a set: most steps of L-BFGS, numbers of neighbours to try, steps to leave out.

    The steps take no longer than the paper's protocol, and far less on the medium sets.
    """

    steps: int = 400
    neighbours: tuple[int, ...] = (16, 32, 64, 128)
    left_out: tuple[str, ...] = ()

    @classmethod
    def on(cls, name: str) -> "Effort":
        """The effort for a set by name; less for sets with hundreds of thousands of rows."""
        if name in ("houseelectric", *large.IF_GIVEN):
            return cls(60, (64,), ("twice", "greedy", "block", "pitc", "pitc-ard"))
        return cls(1000) if name in medium.SETS else cls()


def runs(choice: Choice) -> list[Run]:
    m = QUICK_INDUCING if choice.quick else INDUCING
    names = ("pol", "kin40k") if choice.quick else (*medium.SETS, *large.sets(False))
    return choice.among(
        Run("beaten", name, method, m * (STEPS_TAKEN[method].times if method in STEPS_TAKEN else 1), split)
        for name in names
        for method in _methods(name)
        for split in choice.split_numbers(1 if method in ONE_SPLIT else paper.SPLITS, 1)
    )


def _methods(name: str) -> tuple[str, ...]:
    if name in medium.SETS:
        return (PROTOCOL, *EACH)
    steps = (method for method in STEPS_TAKEN if method not in Effort.on(name).left_out)
    return (PROTOCOL, GPYTORCH, *steps)


def train(run: Run, work: Work) -> Record:
    parts = rows.parts(run.set, run.split, work.quick)
    data = parts.train
    facts = {"rows": data.num_data, "made_up": parts.made_up}
    if run.method == PROTOCOL:
        return protocol.pace(run.set, parts, work.centres(run, data.X), work) | facts
    if run.method == GPYTORCH:
        return gpytorch_svgp.train(parts, work.centres(run, data.X), work) | facts
    step, effort = STEPS_TAKEN[run.method], Effort.on(run.set)
    start = math.sqrt(data.num_inputs)
    family = tgp.kernels.SquaredExponential if run.set in medium.SETS else tgp.kernels.Matern32
    kernel = family(1.0, np.full(data.num_inputs, start) if step.ard else start)
    choosing = 0.0
    if step.greedy:
        for _ in range(2):  # the first time, to compile
            began = time.perf_counter()
            Z = tgp.inducing.greedy_variance(data.X, run.inducing, kernel, run.split, max_candidates=CANDIDATES)
            choosing = time.perf_counter() - began
    else:
        Z = work.centres(run, data.X)
    steps = round(step.share * (QUICK_STEPS if work.quick else effort.steps))
    model = tgp.SGPR(kernel, Z, 0.1, bound=step.bound)
    how = {"steps": steps // step.rounds, "refresh": step.rounds - 1, "tolerance": 1e-7}
    result = work.fit(model, data, "lbfgs", warmed=True, **how)
    post = result.model.posterior(data)
    ways = (None, *(effort.neighbours if step.local else ()))
    record = account.of(result, post, work.some(parts.test), ways) | facts
    record["validation"] = account.scores(post, parts.validation.take(slice(VALIDATION)), ways)
    return record | {"seconds": account.shortened(result.seconds + choosing)}


def page(store: Store, quick: bool, folder: Path) -> Page:
    size = QUICK_INDUCING if quick else INDUCING
    found = store.done(runs(Choice(quick)))
    here = {(run.set, size, run.split) for run in found if run.method in STEPS_TAKEN}
    protocols = store.done([*medium.runs(1024, Choice(quick)), *large.runs(Choice(quick))])
    return beaten_page.page(
        found,
        Found({run: record for run, record in protocols.items() if (run.set, run.inducing, run.split) in here}),
        f"M = {size} and the paper's kernels: squared exponential with a lengthscale for each input on the medium "
        "sets; Matérn-3/2 on the large ones, with one lengthscale as in the paper, and apart from it with one for each "
        f"input (ARD). L-BFGS on all rows at once takes at most {Effort.on('kin40k').steps} steps "
        f"({Effort.on('pol').steps} on the medium sets, {Effort.on('houseelectric').steps} on HouseElectric); blocks "
        "are recomputed half-way where lengthscales differ.",
        folder,
    )


EXPERIMENTS = (Experiment("beaten", "better test scores in less time, step by step", __name__, runs, page),)
