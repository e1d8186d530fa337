"""The number of inducing points: the user's, or more and more of them for as long as they help."""

import sys
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from tightgp import distributed, inducing
from tightgp.bounds.evidence import EvidenceBracket
from tightgp.data.dataset import Dataset
from tightgp.estimators import processes
from tightgp.estimators.exact import Exact
from tightgp.estimators.recipes import Recipe
from tightgp.estimators.settings import Settings
from tightgp.training import FitResult

#: The first number of inducing points to try.
FIRST = 32
#: More inducing points are tried if the last ones each added at least this many nats to the bound.
LEAST_GAIN = 0.1
#: Why an exact GP has no more inducing points.
EXACT = "exact: every row is used, and there are no inducing points"
#: New inducing points are chosen from at most this many rows.
MOST_CANDIDATES = 10_000


@dataclass(frozen=True)
class Grown:
    """The last training.

    Attributes:
        result, bound, bracket: the trained model, its objective on all rows in total nats, and the evidence bracket.
        path: an entry for each number of inducing points that was tried.
        message: why there are not more inducing points.
        seconds: wall-clock time of all trainings.
    """

    result: FitResult
    bound: float
    bracket: EvidenceBracket | None
    path: list[dict[str, Any]]
    message: str
    seconds: float


def grow(recipe: Recipe | Exact, data: Dataset, settings: Settings) -> Grown:
    """Train with the number of inducing points asked for, or with 32, 64, 128, ... for as long as they help.

    Each training starts from the model before it. The new inducing points are the rows that the old ones explain least.
    """
    began = time.perf_counter()
    if isinstance(recipe, Exact):
        result = recipe.train(data, settings)
        value, both = recipe.evidence(result, data)
        return Grown(result, value, both, [], EXACT, time.perf_counter() - began)
    num_data = distributed.total_count(data.num_data)
    rows = candidate_rows(np.asarray(data.X), settings.n_inducing or settings.max_inducing, settings.seed)
    sizes, limit = sizes_to_try(settings, len(rows))
    path: list[dict[str, Any]] = []
    model: Any = None
    message = ""
    for size in sizes:
        start = time.perf_counter()
        if model is None:
            model = recipe.start(processes.from_leader(inducing.kmeans(rows, size, seed=settings.seed)))
        else:
            new = processes.from_leader(unexplained(model, rows, size - len(model.Z)))
            if not len(new):
                message = "stopped because no row is left that the inducing points do not explain"
                break
            model = recipe.extended(model, new)
        result = recipe.train(model, data, settings)
        model = result.model
        bound, bracket = recipe.evidence(result, data)
        upper = bracket.upper if bracket is not None and model.bound.is_bound else None
        path.append(_entry(path, len(model.Z), bound, upper, time.perf_counter() - start))
        if settings.verbose:
            print(_shown(path[-1]), file=sys.stderr, flush=True)
        message = reason_to_stop(result, path, bracket, settings, num_data)
        if message:
            break
    return Grown(result, bound, bracket, path, message or limit, time.perf_counter() - began)


def candidate_rows(X: np.ndarray, wanted: int, seed: int) -> np.ndarray:
    """Distinct rows of all processes to choose inducing points from: all rows, or a random part of many."""
    most, count = max(wanted, MOST_CANDIDATES), distributed.total_count(len(X))
    if count > most:
        X = distributed.rows_at(X, np.sort(np.random.default_rng(seed).choice(count, most, replace=False)))
    else:
        X = distributed.gather(X)
    return X[np.sort(np.unique(X, axis=0, return_index=True)[1])]


def sizes_to_try(settings: Settings, distinct: int) -> tuple[list[int], str]:
    """The numbers of inducing points to try, and why there are not more than the last."""
    if settings.n_inducing is not None:
        size = min(settings.n_inducing, distinct)
        why = " as asked for" if size == settings.n_inducing else f", but there are only {size} different rows"
        return [size], f"n_inducing={settings.n_inducing}{why}"
    most = min(settings.max_inducing, distinct)
    sizes = [FIRST * 2**k for k in range(30) if FIRST * 2**k < most]
    if most < settings.max_inducing:
        return [*sizes, most], f"stopped at {most}, the number of different rows"
    return [*sizes, most], f"stopped at max_inducing={most} while more would still help"


def _entry(path, size: int, bound: float, upper: float | None, seconds: float) -> dict[str, Any]:
    gain = (bound - path[-1]["bound"]) / (size - path[-1]["n_inducing"]) if path else None
    return {"n_inducing": size, "bound": bound, "upper": upper, "gain_per_point": gain, "seconds": seconds}


def _shown(entry: dict[str, Any]) -> str:
    upper = "" if entry["upper"] is None else f", upper bound {entry['upper']:.6g}"
    gain = "" if entry["gain_per_point"] is None else f", {entry['gain_per_point']:.3g} nats a new point"
    return (
        f"{entry['n_inducing']} inducing points: objective {entry['bound']:.6g}{upper}{gain}, {entry['seconds']:.1f} s"
    )


def reason_to_stop(result: FitResult, path, bracket: EvidenceBracket | None, settings: Settings, num_data: int) -> str:
    """Why no more inducing points are tried; empty if they are."""
    size, gain = path[-1]["n_inducing"], path[-1]["gain_per_point"]
    if result.interrupted:
        return f"interrupted at {size}"
    if settings.n_inducing is not None:
        return ""
    under = f"under tolerance={settings.tolerance:g}"
    if bracket is not None and bracket.nats_per_point < settings.tolerance:
        return f"stopped at {size}: the evidence bracket is {bracket.nats_per_point:.2g} nats a row wide, {under}"
    if gain is None:
        return ""
    gained = (path[-1]["bound"] - path[-2]["bound"]) / num_data
    if path[-1]["upper"] is None and gained < settings.tolerance:
        return f"stopped at {size}: the last new points gained {gained:.2g} nats a row, {under}"
    if gain < LEAST_GAIN:
        return f"stopped at {size}: each of the last new points gained {gain:.2g} nats, less than {LEAST_GAIN:g}"
    return ""


def unexplained(model, X: np.ndarray, count: int) -> np.ndarray:
    """Choose rows of ``X`` one by one, each with the largest prior variance given the inducing points so far."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it may choose fewer, if no more would help
        return inducing.greedy_variance(X, min(count, len(X)), model.kernel, max_candidates=None, given=model.Z)
