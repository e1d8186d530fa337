"""``tightgp fit``: from a table to a model, its report, and numbers on rows that it did not see."""

from dataclasses import replace
from typing import Any

from rich import box
from rich.table import Table

from tightgp import estimators, modelfile, report
from tightgp.cli.folder import Folder, Request, digest_of
from tightgp.cli.problem import Problem, read_problem
from tightgp.cli.terminal import INTERRUPTED, Terminal
from tightgp.files import written_whole


def fit(request: Request, folder: Folder, terminal: Terminal, resume: bool, overwrite: bool) -> int:
    """Fit as asked, and leave everything in ``folder``; the exit code."""
    inducing = inducing_count(request.inducing)
    folder.check(request, resume, overwrite)
    if resume and folder.finished:
        terminal.say(f"The fit in {folder.path} is finished; there is nothing to resume.")
        content = report.Content.from_json(folder.content.read_text(encoding="utf-8"), str(folder.content))
        terminal.result({**summary(folder, content), "interrupted": False})
        return 0
    with terminal.busy(f"reading {request.table}"):
        problem = read_problem(request, terminal)
    estimator = make(problem.likelihood, request, inducing)
    estimator.check_parameters()
    folder.begin(replace(request, digest=digest_of(request.table)), resume)
    estimator.set_params(checkpoint=str(folder.checkpoint), resume=resume, verbose=0 if terminal.quiet else 1)
    held = 0 if problem.heldout is None else len(problem.heldout[1])
    terminal.say(f"{problem.num_rows:,} rows to fit, {held:,} held out, {len(problem.X.columns)} input columns.")
    try:
        with terminal.telling_warnings():
            estimator.fit(problem.X, problem.y)
    except BaseException:
        folder.give_up()
        raise
    for line in estimator.encoding_.describe():
        terminal.say(f"  {line}")
    estimator.set_params(checkpoint=None, resume=False, verbose=0)
    modelfile.save(estimator, folder.model)
    content = _report(estimator, problem, request, folder, terminal)
    interrupted = estimator.message_.startswith("interrupted")
    if not interrupted:
        folder.end()
    _show(folder, content, terminal)
    terminal.result({**summary(folder, content), "interrupted": interrupted})
    if interrupted:
        terminal.say("Interrupted: the model so far is saved, and --resume goes on from here.")
    return INTERRUPTED if interrupted else 0


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
        return estimators.SparseGPRegressor(neighbours=request.neighbours, **shared)
    if likelihood == "classes":
        return estimators.SparseGPClassifier(**shared)
    return estimators.SparseGPCountRegressor(likelihood=likelihood, **shared)


def _report(estimator, problem: Problem, request: Request, folder: Folder, terminal: Terminal) -> report.Content:
    with terminal.busy("writing the report"):
        content = report.gather(
            estimator,
            problem.X,
            problem.y,
            heldout=problem.heldout,
            heldout_rows=problem.heldout_rows,
            source=request.table,
            target=problem.target,
            notes=problem.notes,
        )
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
