"""``tightgp fit``: from a table to a model, its report, and scores on held-out rows."""

import copy
from dataclasses import replace
from typing import Any

import jax
import numpy as np

from tightgp import distributed
from tightgp.app.cli import reporting
from tightgp.app.cli.failures import INTERRUPTED
from tightgp.app.cli.folder import FitFolder
from tightgp.app.cli.options import FitRequest
from tightgp.app.cli.problem import Problem, make_estimator, read_problem
from tightgp.app.cli.processes import Processes, check_same_options, gather_frame, run_in_all, run_in_leader
from tightgp.app.cli.terminal import Terminal
from tightgp.app.report import gather
from tightgp.app.tables.readings import to_plain
from tightgp.io import modelfile
from tightgp.training.result import StopReason

#: If several processes fitted together, the report looks at no more training rows than this.
_REPORT_ROWS = 20_000


def fit(request: FitRequest, folder: FitFolder, processes: Processes, terminal: Terminal, verbose: bool = False) -> int:
    """Fit the table of a request, alone or as one of several processes; return the exit code."""
    processes.join()
    if not distributed.is_leader():
        terminal = Terminal(quiet=True)
    run_in_all(lambda: check_same_options(replace(request, table=""), folder.resume, folder.overwrite))
    run_in_leader(folder.lock)
    try:
        return _fit(request, folder, terminal, verbose)
    finally:
        folder.unlock()


def _fit(request: FitRequest, folder: FitFolder, terminal: Terminal, verbose: bool) -> int:
    run_in_leader(lambda: folder.check(request))
    if distributed.broadcast(np.asarray(folder.resume and folder.finished)):
        run_in_leader(lambda: _show_finished(folder, terminal))
        return 0
    problem, estimator = run_in_all(lambda: _prepare(request, terminal))
    run_in_leader(lambda: folder.start(request))
    estimator.set_params(checkpoint=str(folder.checkpoint), resume=folder.resume, verbose=int(not terminal.silent))
    heldout, columns = len(problem.heldout_rows), len(problem.X.columns)
    terminal.message(f"{problem.num_rows:,} rows to fit, {heldout:,} held out, {columns} input columns.")
    try:
        with terminal.warnings_as_notes():
            run_in_all(lambda: estimator.fit(problem.X, problem.y))
    except BaseException:
        if distributed.is_leader():
            folder.abandon()
        raise
    estimator.set_params(checkpoint=None, resume=False, verbose=0)
    estimator.readings_ = to_plain(problem.readings)
    for line in [*estimator.encoding_.describe(), estimator.training_] if verbose else []:
        terminal.message(f"  {line}")
    if (transform := getattr(estimator, "target_transform_", None)) and not transform.is_identity:
        terminal.message(f"{transform.describe()[:-1]} (change: --target-transform none).")
    if (noise := getattr(estimator, "noise_", None)) is not None:
        terminal.message(f"{noise.describe()[:-1]} (change: --noise gaussian).")
    shown = _shown_in_report(estimator, problem)
    run_in_leader(lambda: _write(estimator, shown, problem, request, folder, terminal, verbose))
    return INTERRUPTED if _is_interrupted(estimator) else 0


def _prepare(request: FitRequest, terminal: Terminal) -> tuple[Problem, Any]:
    """The problem, and an estimator whose parameters are checked before anything is written."""
    problem = read_problem(request, terminal)
    estimator = make_estimator(problem.likelihood, request, levels=problem.levels)
    estimator.check_parameters()
    return problem, estimator


def _is_interrupted(estimator) -> bool:
    return estimator.stop_reason_ == StopReason.INTERRUPTED.value


def _shown_in_report(estimator, problem: Problem) -> dict[str, Any]:
    """The estimator, training inputs, targets and notes for `gather`. Every process calls it.

    If several processes fitted together, the rows are a sample of those of all processes.
    """
    if not distributed.is_multiprocess():
        return {"estimator": estimator, "X": problem.X, "y": problem.y, "notes": problem.notes}
    total = problem.num_rows
    chosen = np.unique(np.linspace(0, total - 1, min(total, _REPORT_ROWS)).astype(int))
    before = sum(distributed.row_counts(len(problem.y))[: jax.process_index()])
    own = chosen[(chosen >= before) & (chosen < before + len(problem.y))] - before
    X, y = gather_frame(problem.X.iloc[own]), distributed.gather(problem.y[own])
    estimator = copy.copy(estimator)
    estimator.scales_ = None if estimator.scales_ is None else estimator.scales_[chosen]
    note = f"The report looks at {len(y):,} of the {total:,} rows that were fitted."
    return {"estimator": estimator, "X": X, "y": y, "notes": problem.notes + (note,) * (len(y) < total)}


def _write(
    estimator,
    shown: dict,
    problem: Problem,
    request: FitRequest,
    folder: FitFolder,
    terminal: Terminal,
    verbose: bool = False,
) -> None:
    """Write the model and its report, and print the result."""
    if folder.lost:
        folder.rescue(estimator)
    modelfile.save(estimator, folder.model)
    shown |= {"source": request.table, "target": problem.target}
    with terminal.spinner("writing the report"):
        content = gather(**shown, heldout=problem.heldout, heldout_rows=problem.heldout_rows)
        content = replace(content, subject=replace(content.subject, num_rows=problem.num_rows))
        reporting.write_report(content, folder)
    if not (interrupted := _is_interrupted(estimator)):
        folder.finish()
    reporting.show(content, folder, terminal, verbose)
    terminal.result({**reporting.summary(content, folder), "interrupted": interrupted})
    if interrupted:
        terminal.message("Interrupted: the model so far is saved, and --resume continues the fit.")


def _show_finished(folder: FitFolder, terminal: Terminal) -> None:
    terminal.message(f"The fit in {folder.path} is finished; there is nothing to resume.")
    terminal.result({**reporting.summary(reporting.read_content(folder), folder), "interrupted": False})
