"""``tightgp compare``: the exact GP where it is feasible, and every bound, on one table side by side."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.metrics import root_mean_squared_error

from tightgp.app.cli.options import CompareRequest
from tightgp.app.cli.problem import Problem, make_estimator, read_problem
from tightgp.app.cli.terminal import Terminal
from tightgp.app.comparison import train
from tightgp.app.printing import text_table
from tightgp.app.scores import coverage
from tightgp.bounds.structures import Block, Neighbours, PowerEP, Vecchia
from tightgp.data import Dataset
from tightgp.estimators.distributions import prediction_of
from tightgp.estimators.plan import LBFGS_STEPS
from tightgp.estimators.recipes import TOLERANCE
from tightgp.estimators.settings import seed_of
from tightgp.estimators.start import begin
from tightgp.models import ExactGP
from tightgp.training.result import StopReason

#: The bounds to compare if noise is Gaussian, by name; from Power EP on they are no bounds.
_GAUSSIAN_BOUNDS: dict[str, Any] = {
    "standard": "standard",
    "spherical": "spherical",
    "diagonal": "diagonal",
    "block of 64": Block(64),
    "neighbours": Neighbours(),
    "Power EP 0.5": PowerEP(0.5, block=64),
    "FITC": PowerEP(1.0),
    "PITC of 64": PowerEP(1.0, block=64),
    "Vecchia": Vecchia(),
}
#: The bounds to compare for all other likelihoods.
_OTHER_BOUNDS = {"standard": "standard", "spherical": "spherical"}


@dataclass(frozen=True)
class Method:
    """One method: its objective in nats, whether that is a bound, and its scores on held-out rows."""

    method: str
    objective: float
    is_bound: bool
    noise_sd: float | None
    seconds: float
    scores: dict[str, float] = field(default_factory=dict)
    neighbour_scores: dict[str, float] = field(default_factory=dict)


def compare(request: CompareRequest, terminal: Terminal) -> None:
    """Fit the exact GP (where feasible) and every bound from the same start, side by side."""
    problem = read_problem(request, terminal)
    rows, columns = problem.num_rows, len(problem.X.columns)
    terminal.message(f"{rows:,} rows to fit, {columns} input columns, likelihood {problem.likelihood}.")
    is_gaussian = problem.likelihood == "gaussian"
    methods = []
    for name, bound in (_GAUSSIAN_BOUNDS if is_gaussian else _OTHER_BOUNDS).items():
        terminal.message(f"  fitting {name}")
        estimator = make_estimator(problem.likelihood, request, bound=bound, noise="gaussian", levels=problem.levels)
        with terminal.warnings_as_notes():
            estimator.fit(problem.X, problem.y)
            if estimator.stop_reason_ == StopReason.INTERRUPTED.value:
                raise KeyboardInterrupt
            methods.append(_sparse_method(name, estimator, problem))
    if is_gaussian:
        if rows <= request.exact_rows:
            terminal.message("  fitting the exact GP")
            with terminal.warnings_as_notes():
                methods.insert(0, _exact_method(estimator, request, problem, terminal))
        else:
            terminal.message(f"  no exact GP: {rows:,} rows are more than --exact-rows {request.exact_rows:,}")
    _show(methods, request, terminal)
    found = [vars(one) for one in methods]
    terminal.result({"num_inducing": request.num_inducing, "rows": rows, "methods": found})


def _sparse_method(name: str, estimator, problem: Problem) -> Method:
    is_bound, noise = estimator.is_bound, estimator.noise_variance_
    noise_sd = None if noise is None else float(np.sqrt(noise))
    neighbour_scores = {}
    if estimator.get_params().get("neighbours"):
        neighbour_scores = _scores(estimator.predict_distribution, problem)
        estimator.set_params(neighbours=0)
    scores = _scores(estimator.predict_distribution, problem)
    return Method(name, estimator.objective_, is_bound, noise_sd, estimator.seconds_, scores, neighbour_scores)


def _exact_method(sparse, request: CompareRequest, problem: Problem, terminal: Terminal) -> Method:
    """The exact GP on the data of a sparse one, transformed and standardised alike, from the same start."""
    encoding, shift, scale = sparse.encoding_, sparse.target_mean_, sparse.target_scale_
    transform = sparse.target_transform_
    data = Dataset(encoding.transform(problem.X), (transform.forward(problem.y) - shift) / scale)
    kernel, noise = begin(request.kernel, encoding.feature_names, data.X, data.targets, seed_of(request.seed))
    steps = request.max_iter or LBFGS_STEPS
    result = train(ExactGP(kernel, noise), data, steps=steps, tolerance=TOLERANCE, progress=not terminal.silent)
    noise_sd = float(scale * np.sqrt(float(result.model.noise_variance)))

    def predict(X):
        mean, var = result.model.posterior(data).predict_y(encoding.transform(X))
        return prediction_of(transform, shift + scale * np.asarray(mean), scale * np.sqrt(var), lambda *_: None)

    return Method("exact GP", result.objective, True, noise_sd, result.seconds, _scores(predict, problem))


def _scores(predict: Callable, problem: Problem) -> dict[str, float]:
    """Scores of predictions of the held-out targets by name; none if no rows were held out."""
    if problem.heldout is None:
        return {}
    X, y = problem.heldout
    prediction = predict(X)
    found = {"log density": float(np.mean(prediction.log_density(y)))}
    if hasattr(prediction, "probability"):
        return {**found, "accuracy": float(np.mean(prediction.mode == y))}
    low, high = prediction.interval(0.95)
    return {**found, "RMSE": root_mean_squared_error(y, prediction.mean), "in 95%": coverage(y, low, high)}


def _show(methods: list[Method], request: CompareRequest, terminal: Terminal) -> None:
    best = max(one.objective for one in methods if one.is_bound)
    rows = []
    for one in methods:
        gap = f"{best - one.objective:.2f}" if one.is_bound else "*"
        noise = {} if one.noise_sd is None else {"noise sd": f"{one.noise_sd:.4g}"}
        cells = {"method": one.method, "nats": f"{one.objective:.2f}", "gap": gap, **noise, **_cells(one.scores)}
        rows.append({**cells, "seconds": f"{one.seconds:.1f}"})
    terminal.print(text_table(rows[0], (cells.values() for cells in rows)))
    terminal.print("nats: what training maximised. gap: nats below the best bound. The rest is on held-out rows.")
    if not all(one.is_bound for one in methods):
        terminal.print("*: not a bound; it may lie on either side of the log evidence.")
    rows = [{"method": one.method, **_cells(one.neighbour_scores)} for one in methods if one.neighbour_scores]
    if rows:
        title = "The same models, when predictions also use the nearest training rows"
        terminal.print(text_table(rows[0], (cells.values() for cells in rows), title))


def _cells(found: dict[str, float]) -> dict[str, str]:
    return {name: f"{v:.1%}" if name in ("in 95%", "accuracy") else f"{v:.4g}" for name, v in found.items()}
