"""``tightgp compare``: the exact GP where it is feasible, and every bound, on one table side by side."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from rich import box
from rich.table import Table

from tightgp import scores
from tightgp.cli.fitting import inducing_count, make
from tightgp.cli.folder import Request
from tightgp.cli.problem import Problem, read_problem
from tightgp.cli.terminal import Terminal
from tightgp.conditionals import Block, PowerEP
from tightgp.data import Dataset
from tightgp.estimators.choice import LBFGS_STEPS
from tightgp.estimators.recipes import TOLERANCE
from tightgp.estimators.settings import seed_of
from tightgp.estimators.start import begin
from tightgp.models import ExactGP
from tightgp.training import fit as train

#: Every objective of the collapsed model; those of Power EP are no bounds.
GAUSSIAN: dict[str, Any] = {
    "standard": "standard",
    "spherical": "spherical",
    "diagonal": "diagonal",
    "block of 64": Block(64),
    "Power EP 0.5": PowerEP(0.5, block=64),
    "FITC": PowerEP(1.0),
    "PITC of 64": PowerEP(1.0, block=64),
}
#: Before the names of scores of predictions from neighbours.
LOCAL = "local "
OTHERS: dict[str, Any] = {"standard": "standard", "spherical": "spherical"}


@dataclass(frozen=True)
class Line:
    """One method: its objective, whether that is a bound, and how it does on rows held out."""

    method: str
    objective: float
    is_bound: bool
    noise_sd: float | None
    seconds: float
    scores: dict[str, float]


def compare(request: Request, exact_rows: int, terminal: Terminal) -> None:
    """Fit every method from the same start, and show the table."""
    inducing = inducing_count(request.inducing)
    if inducing == "auto":
        raise ValueError("--inducing must be a number for compare: every method gets the same")
    with terminal.busy(f"reading {request.table}"):
        problem = read_problem(request, terminal)
    gaussian = problem.likelihood == "gaussian"
    terminal.say(
        f"{problem.num_rows:,} rows to fit, {len(problem.X.columns)} input columns, likelihood {problem.likelihood}."
    )
    lines, first = [], None
    for name, bound in (GAUSSIAN if gaussian else OTHERS).items():
        terminal.say(f"  fitting {name}")
        estimator = make(problem.likelihood, request, inducing, bound)
        with terminal.telling_warnings():
            estimator.fit(problem.X, problem.y)
            if estimator.message_ == "interrupted":
                raise KeyboardInterrupt
            lines.append(_line(name, estimator, request, problem))
        first = first or estimator
    if gaussian and problem.num_rows <= exact_rows:
        terminal.say("  fitting the exact GP")
        with terminal.telling_warnings():
            lines.insert(0, _exact(first, request, problem, terminal))
    elif gaussian:
        terminal.say(f"  no exact GP: {problem.num_rows:,} rows are more than --exact-rows {exact_rows:,}")
    terminal.show(_table(lines))
    terminal.show("nats: what training maximised. gap: nats below the best bound. The rest is on rows held out.")
    if any(not line.is_bound for line in lines):
        terminal.show("*: no bound; it may lie on either side of the log evidence.")
    if gaussian and request.neighbours and problem.heldout is not None:
        terminal.show(_local_table(lines, request.neighbours))
    terminal.result({"num_inducing": inducing, "rows": problem.num_rows, "methods": [vars(line) for line in lines]})


def _line(name: str, estimator, request: Request, problem: Problem) -> Line:
    noise = getattr(estimator, "noise_variance_", None)
    return Line(
        method=name,
        objective=estimator.objective_ if estimator.model_.bound.is_bound else float(estimator.trace_["objective"][-1]),
        is_bound=estimator.model_.bound.is_bound,
        noise_sd=None if noise is None else float(np.sqrt(noise)),
        seconds=estimator.seconds_,
        scores=_scores(estimator, problem, request.neighbours),
    )


def _scores(estimator, problem: Problem, neighbours: int) -> dict[str, float]:
    if problem.heldout is None:
        return {}
    if problem.likelihood != "gaussian":
        return _heldout(estimator, problem)
    near = _heldout(estimator, problem) if neighbours else {}
    return {**_heldout(estimator.set_params(neighbours=0), problem), **{f"{LOCAL}{k}": v for k, v in near.items()}}


def _heldout(estimator, problem: Problem) -> dict[str, float]:
    X, y = problem.heldout
    out = {"log density": float(np.mean(estimator.log_density(X, y)))}
    if problem.likelihood == "classes":
        return {**out, "accuracy": float(np.mean(estimator.predict(X) == y))}
    low, high = estimator.predict_interval(X, 0.95)
    return {**out, "RMSE": scores.rmse(y, estimator.predict(X)), "in 95%": scores.coverage(y, low, high)}


def _exact(sparse, request: Request, problem: Problem, terminal: Terminal) -> Line:
    """The exact GP from the start that the sparse ones had, on the same standardised data."""
    shift, scale = sparse.target_mean_, sparse.target_scale_
    data = Dataset(sparse.encoding_.transform(problem.X), (problem.y - shift) / scale)
    names, seed = sparse.encoding_.feature_names, seed_of(request.seed)
    kernel, noise = begin(request.kernel, names, data.X, data.targets, seed)
    steps = request.max_iter or LBFGS_STEPS
    result = train(ExactGP(kernel, noise), data, steps=steps, tolerance=TOLERANCE, progress=not terminal.quiet)
    if result.message == "interrupted":
        raise KeyboardInterrupt
    noise_sd = float(scale * np.sqrt(float(result.model.noise_variance)))
    found: dict[str, float] = {}
    if problem.heldout is not None:
        X, y = sparse.encoding_.transform(problem.heldout[0]), problem.heldout[1]
        post = result.model.posterior(data)
        mean, var = (np.asarray(a) for a in post.predict_y(X))
        density = np.asarray(post.log_density(X, (y - shift) / scale)) - np.log(scale)
        mean, sd = shift + scale * mean, scale * np.sqrt(var)
        found = {
            "log density": float(np.mean(density)),
            "RMSE": scores.rmse(y, mean),
            "in 95%": scores.coverage(y, mean - 1.959964 * sd, mean + 1.959964 * sd),
        }
    return Line("exact GP", result.objective, True, noise_sd, result.seconds, found)


def _table(lines: list[Line]) -> Table:
    """Objective, gap to the best bound, noise, and scores on held-out rows."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False)
    bounds = [line.objective for line in lines if line.is_bound]
    noise = any(line.noise_sd is not None for line in lines)
    names = [name for name in lines[-1].scores if not name.startswith(LOCAL)]
    for column in ["method", "nats", "gap", *(["noise sd"] if noise else []), *names, "seconds"]:
        table.add_column(column, justify="left" if column == "method" else "right", no_wrap=True)
    for line in lines:
        below = f"{max(bounds) - line.objective:.2f}" if line.is_bound else "*"
        cells = [line.method, f"{line.objective:.2f}", below]
        cells += [f"{line.noise_sd:.4g}" if line.noise_sd is not None else ""] if noise else []
        table.add_row(*cells, *(_cell(name, line.scores[name]) for name in names), f"{line.seconds:.1f}")
    return table


def _local_table(lines: list[Line], neighbours: int) -> Table:
    """Scores on held-out rows of the sparse models' predictions from neighbours."""
    title = f"The same models, predicting also from the {neighbours} nearest training rows"
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 0, 0, 1), pad_edge=False, title=title, title_justify="left")
    names = [name for name in lines[-1].scores if name.startswith(LOCAL)]
    for column in ["method", *(name.removeprefix(LOCAL) for name in names)]:
        table.add_column(column, justify="left" if column == "method" else "right", no_wrap=True)
    for line in lines:
        if names[0] in line.scores:
            table.add_row(line.method, *(_cell(name.removeprefix(LOCAL), line.scores[name]) for name in names))
    return table


def _cell(name: str, value: float) -> str:
    return f"{value:.1%}" if name in ("in 95%", "accuracy") else f"{value:.4g}"
