"""``tightgp fit``: from a table to a model, its report, and numbers on rows that it did not see."""

import copy
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
from rich import box
from rich.table import Table

from tightgp import distributed, estimators, modelfile, report
from tightgp.cli import together
from tightgp.cli.folder import Folder, Request, digest_of
from tightgp.cli.problem import Problem, read_problem
from tightgp.cli.terminal import INTERRUPTED, Terminal
from tightgp.files import written_whole

#: A report on what several processes fitted looks at so many rows at most.
_SHOWN_ROWS = 20_000


def fit(request: Request, folder: Folder, terminal: Terminal, resume: bool, overwrite: bool) -> int:
    """Fit as asked, and leave everything in ``folder``; the exit code.

    Of several processes all fit, and the first alone speaks and touches the folder.
    """
    first = distributed.leads()
    together.agree(lambda: together.check_same(replace(request, table=""), resume, overwrite))
    inducing = together.agree(lambda: _checked(request, folder, resume, overwrite))
    if together.told(first and resume and folder.finished):
        if first:
            _show_finished(folder, terminal)
        return 0

    def prepared() -> tuple[Problem, Any]:
        with terminal.busy(f"reading {request.table}"):
            problem = read_problem(request, terminal)
        estimator = make(problem.likelihood, request, inducing)
        estimator.check_parameters()
        return problem, estimator

    problem, estimator = together.agree(prepared)
    together.by_first(lambda: folder.begin(replace(request, digest=digest_of(request.table)), resume))
    estimator.set_params(checkpoint=str(folder.checkpoint), resume=resume, verbose=0 if terminal.quiet else 1)
    held = 0 if problem.heldout is None else len(problem.heldout[1])
    terminal.say(f"{problem.num_rows:,} rows to fit, {held:,} held out, {len(problem.X.columns)} input columns.")
    try:
        with terminal.telling_warnings():
            together.agree(lambda: estimator.fit(problem.X, problem.y))
    except BaseException:
        if first:
            folder.give_up()
        raise
    for line in estimator.encoding_.describe():
        terminal.say(f"  {line}")
    estimator.set_params(checkpoint=None, resume=False, verbose=0)
    shown = Shown.of(estimator, problem)
    interrupted = estimator.message_.startswith("interrupted")
    together.by_first(lambda: _write(estimator, shown, problem, request, folder, terminal, interrupted))
    return INTERRUPTED if interrupted else 0


def _checked(request: Request, folder: Folder, resume: bool, overwrite: bool) -> int | str:
    inducing = inducing_count(request.inducing)
    if distributed.leads():
        folder.check(request, resume, overwrite)
    return inducing


def _show_finished(folder: Folder, terminal: Terminal) -> None:
    terminal.say(f"The fit in {folder.path} is finished; there is nothing to resume.")
    content = report.Content.from_json(folder.content.read_text(encoding="utf-8"), str(folder.content))
    terminal.result({**summary(folder, content), "interrupted": False})


def _write(estimator, shown: "Shown", problem, request: Request, folder: Folder, terminal: Terminal, interrupted: bool):
    """Leave the model and its report, and show what it says."""
    modelfile.save(estimator, folder.model)
    content = _report(shown, problem, request, folder, terminal)
    if not interrupted:
        folder.end()
    _show(folder, content, terminal)
    terminal.result({**summary(folder, content), "interrupted": interrupted})
    if interrupted:
        terminal.say("Interrupted: the model so far is saved, and --resume goes on from here.")


@dataclass(frozen=True)
class Shown:
    """What a report shows: the estimator, and training rows. Of several processes these are some, from all of them."""

    estimator: Any
    X: Any
    y: np.ndarray
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, estimator, problem: Problem) -> "Shown":
        """Every process calls it."""
        if not distributed.several():
            return cls(estimator, problem.X, problem.y, problem.notes)
        total = problem.num_rows
        chosen = np.unique(np.linspace(0, total - 1, min(total, _SHOWN_ROWS)).astype(int))
        before = sum(distributed.counts(len(problem.y))[: jax.process_index()])
        mine = chosen[(chosen >= before) & (chosen < before + len(problem.y))] - before
        X, y = together.gathered(problem.X.iloc[mine]), distributed.gather(problem.y[mine])
        estimator = copy.copy(estimator)
        estimator.scales_ = None if estimator.scales_ is None else estimator.scales_[chosen]
        some = f"The report looks at {len(y):,} of the {total:,} rows that were fitted."
        return cls(estimator, X, y, (*problem.notes, *([some] if len(y) < total else [])))


def inducing_count(text: str) -> int | str:
    """``--inducing``: a number, or "auto"."""
    if text == "auto":
        return text
    try:
        count = int(text)
    except ValueError:
        count = 0
    if count < 1:
        raise ValueError(f"--inducing must be a whole number from 1 on, or auto; got {text!r}")
    return count


def make(likelihood: str, request: Request, inducing: int | str, bound: Any = None) -> Any:
    """The estimator for a likelihood."""
    shared: dict[str, Any] = {
        "n_inducing": inducing,
        "kernel": request.kernel,
        "bound": request.bound if bound is None else bound,
        "method": request.method,
        "max_iter": request.max_iter,
        "random_state": request.seed,
    }
    if likelihood == "gaussian":
        return estimators.SparseGPRegressor(neighbours=request.neighbours, precision=request.precision, **shared)
    if request.precision != "full":
        raise ValueError(f"--precision {request.precision} goes with Gaussian noise, and not with {likelihood}")
    if likelihood == "classes":
        return estimators.SparseGPClassifier(**shared)
    return estimators.SparseGPCountRegressor(likelihood=likelihood, **shared)


def _report(shown: Shown, problem: Problem, request: Request, folder: Folder, terminal: Terminal) -> report.Content:
    with terminal.busy("writing the report"):
        content = report.gather(
            shown.estimator,
            shown.X,
            shown.y,
            heldout=problem.heldout,
            heldout_rows=problem.heldout_rows,
            source=request.table,
            target=problem.target,
            notes=shown.notes,
        )
        content = replace(content, subject=replace(content.subject, num_rows=problem.num_rows))
        with written_whole(folder.content) as temporary:
            temporary.write_text(content.to_json(), encoding="utf-8")
        report.write(content, folder.page)
    return content


def summary(folder: Folder, content: report.Content) -> dict[str, Any]:
    """The result of a fit, for scripts."""
    evidence, held = content.evidence, content.heldout
    return {
        "model": str(folder.model),
        "report": str(folder.page),
        "task": content.task,
        "target": content.subject.target,
        "rows": content.subject.num_rows,
        "num_inducing": content.subject.num_inducing,
        "training": content.subject.training,
        "objective": content.training.objective,
        "converged": content.training.converged,
        "message": content.training.message,
        "seconds": content.training.seconds,
        "evidence_lower": evidence.lower,
        "evidence_upper": evidence.upper,
        "heldout_rows": 0 if held is None else held.num_rows,
        "scores": {} if held is None else {score.name: score.model for score in held.scores},
        "coverage": {} if held is None else {f"{c.level:g}": c.observed for c in held.coverage},
    }


def _show(folder: Folder, content: report.Content, terminal: Terminal) -> None:
    training, evidence, held = content.training, content.evidence, content.heldout
    terminal.show(content.subject.training)
    status = "converged" if training.converged else training.message
    terminal.show(f"Bound {training.objective:.6g} nats after {training.num_steps} {training.step}s: {status}.")
    if evidence.lower is not None and evidence.upper is not None:
        gap = (evidence.upper - evidence.lower) / evidence.num_data
        terminal.show(f"Log evidence between {evidence.lower:.6g} and {evidence.upper:.6g} ({gap:.3g} nats a row).")
    if held is not None:
        table = Table(box=box.SIMPLE_HEAD, title=f"{held.num_rows:,} held-out rows", title_justify="left")
        for column in ("", "model", "without inputs"):
            table.add_column(column, justify="left" if not column else "right")
        for score in held.scores:
            table.add_row(score.name, f"{score.model:.4g}", "" if score.baseline is None else f"{score.baseline:.4g}")
        for interval in held.coverage:
            table.add_row(f"inside {interval.level:.0%} intervals", f"{interval.observed:.1%}", "")
        terminal.show(table)
    terminal.show(f"Model:  {folder.model}", f"Report: {folder.page}")
