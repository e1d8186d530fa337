"""The report of a fit: written, printed in short, and written again by ``tightgp report``."""

from pathlib import Path
from typing import Any

from tightgp.app.cli.folder import FitFolder, check_new
from tightgp.app.cli.terminal import Terminal
from tightgp.app.printing import text_table
from tightgp.app.report import Content, verdicts, write
from tightgp.app.report.content import Heldout
from tightgp.app.report.numbers import counted, duration, number
from tightgp.app.report.remedies import most_urgent
from tightgp.io.files import atomic_write


def report(folder: Path, terminal: Terminal, out: Path | None = None, overwrite: bool = False) -> None:
    """Write the page of the report in a folder again."""
    files = FitFolder(folder)
    check_new(out, overwrite)
    if not files.content.exists():
        raise ValueError(f"{folder} holds no report.json; name a folder that `tightgp fit` wrote")
    page = out or files.page
    write(read_content(files), page)
    terminal.print(f"Report: {page}")
    terminal.result({"report": str(page)})


def read_content(folder: FitFolder) -> Content:
    """The content of the report in a folder."""
    return Content.from_json(folder.content.read_text(encoding="utf-8"), str(folder.content))


def write_report(content: Content, folder: FitFolder) -> None:
    """Write the content of a report and its page."""
    with atomic_write(folder.content) as temporary:
        temporary.write_text(content.to_json(), encoding="utf-8")
    write(content, folder.page)


def summary(content: Content, folder: FitFolder) -> dict[str, Any]:
    """The result of a fit, for scripts."""
    evidence, heldout = content.evidence, content.heldout
    return {
        "model": str(folder.model),
        "report": str(folder.page),
        "task": content.task,
        "target": content.subject.target,
        "rows": content.subject.num_rows,
        "num_inducing": content.subject.num_inducing,
        "training": content.subject.training,
        **{name: value for name, value in vars(content.training).items() if name != "traces"},
        "is_bound": evidence.is_bound,
        "evidence_lower": evidence.lower,
        "evidence_upper": evidence.upper,
        "heldout_rows": 0 if heldout is None else heldout.num_rows,
        "scores": {} if heldout is None else {score.name: score.model for score in heldout.scores},
        "coverage": {} if heldout is None else {f"{one.level:g}": one.observed for one in heldout.coverage},
    }


def show(content: Content, folder: FitFolder, terminal: Terminal, verbose: bool = False) -> None:
    """Print the result of a fit in ten plain lines or fewer, and with ``verbose`` everything."""
    subject, training, heldout = content.subject, content.training, content.heldout
    terminal.print(f"Fitted {subject.num_rows:,} rows in {duration(training.seconds)}.")
    if heldout is None:
        terminal.print("No rows were held out, so the accuracy on new rows is unknown.")
    else:
        terminal.print(verdicts.accuracy(heldout, content.task), *_rivals(heldout))
        reliable = verdicts.confidence(heldout.classes) if heldout.classes else verdicts.coverage(heldout, content.task)
        terminal.print(reliable, *([verdicts.worst_fifth(heldout)] if heldout.by_prediction else []))
        terminal.print(*([verdicts.importance(heldout, content.task)] if heldout.importance else []))
    terminal.print(*most_urgent(content))
    if verbose:
        _show_details(content, terminal)
    terminal.print(f"Model:  {folder.model}", f"Report: {folder.page}")


def _rivals(heldout: Heldout) -> list[str]:
    """One line on how much of the variance is explained, beside a linear model and boosted trees."""
    score, error = heldout.score("R²"), heldout.score("MAE")
    if score is None or score.linear is None or score.boosting is None or error is None:
        return []
    beside = f"a linear model has R² {score.linear:.3f}, boosted trees {score.boosting:.3f}"
    return [f"R² {score.model:.3f}, mean absolute error {number(error.model)}; {beside}."]


def _show_details(content: Content, terminal: Terminal) -> None:
    """Print the objective, the evidence bracket and all scores."""
    training, evidence, heldout = content.training, content.evidence, content.heldout
    ending = "converged" if training.converged else training.message
    steps, points = counted(training.num_steps, training.step), counted(content.subject.num_inducing, "inducing point")
    what = "Bound" if evidence.is_bound else "Objective, which approximates the log evidence"
    terminal.print(f"{what}: {training.objective:.6g} nats with {points} after {steps} ({ending}).")
    if evidence.lower is not None and evidence.upper is not None:
        gap = (evidence.upper - evidence.lower) / evidence.num_data
        terminal.print(f"Log evidence: {evidence.lower:.6g} to {evidence.upper:.6g} nats ({gap:.3g} nats a row apart).")
    if evidence.exact:
        terminal.print(evidence.exact)
    if heldout is not None:
        scores = [(one.name, one.model, one.linear, one.boosting, one.baseline) for one in heldout.scores]
        rows = [(name, *("" if value is None else f"{value:.4g}" for value in values)) for name, *values in scores]
        rows += [(f"inside {one.level:.0%} intervals", f"{one.observed:.1%}", "", "", "") for one in heldout.coverage]
        columns = ("", "model", "linear model", "boosted trees", "without inputs")
        terminal.print(text_table(columns, rows, f"{heldout.num_rows:,} held-out rows"))
