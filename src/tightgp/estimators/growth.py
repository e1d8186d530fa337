"""How many inducing points: as many as are asked for, or more and more of them for as long as they help."""

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
from tightgp.estimators.recipes import Recipe
from tightgp.estimators.settings import Settings
from tightgp.training import FitResult

#: The first size that is tried.
FIRST = 32
#: Nats that an inducing point must add to the bound for more of them to be tried.
LEAST_GAIN = 0.1
#: New inducing points are chosen among at most this many rows.
_CANDIDATES = 10_000


@dataclass(frozen=True)
class Grown:
    """The last model trained, and the way there: an entry for each size."""

    result: FitResult
    bound: float
    bracket: EvidenceBracket | None
    path: list[dict[str, Any]]
    message: str
    seconds: float

    @property
    def interrupted(self) -> bool:
        """Whether the user put an end to it."""
        return self.result.interrupted


def grow(recipe: Recipe, data: Dataset, settings: Settings) -> Grown:
    """Train with the wanted number of inducing points, or with 32, 64, 128, ... for as long as they help.

    Each size begins where the one before ended: its parameters and inducing inputs stay, and the new points are
    those rows that the old ones explain least.
    """
    began = time.perf_counter()
    num_data = distributed.total_count(data.num_data)
    rows = _candidates(np.asarray(data.X), settings.n_inducing or settings.max_inducing, settings.seed)
    sizes, limit = _sizes(settings, len(rows))
    path: list[dict[str, Any]] = []
    model, message = None, ""
    for size in sizes:
        start = time.perf_counter()
        if model is None:
            model = recipe.start(processes.of_the_first(inducing.kmeans(rows, size, seed=settings.seed)))
        else:
            new = processes.of_the_first(unexplained(model, rows, size - len(model.Z)))
            if not len(new):
                message = "stopped because no row is left that the inducing points do not explain"
                break
            model = recipe.extended(model, new)
        result = recipe.train(model, data, settings)
        model = result.model
        bound, bracket = recipe.evidence(result, data)
        path.append(_entry(path, len(model.Z), bound, bracket, time.perf_counter() - start))
        if settings.verbose:
            print(_shown(path[-1]), file=sys.stderr, flush=True)
        message = _why_stop(result, path, bracket, settings, num_data)
        if message:
            break
    return Grown(result, bound, bracket, path, message or limit, time.perf_counter() - began)


def _candidates(X: np.ndarray, wanted: int, seed: int) -> np.ndarray:
    """Different rows of all processes to choose from; of many rows a random part is looked at."""
    most, count = max(wanted, _CANDIDATES), distributed.total_count(len(X))
    if count > most:
        X = distributed.rows_at(X, np.sort(np.random.default_rng(seed).choice(count, most, replace=False)))
    else:
        X = distributed.gather(X)
    return X[np.sort(np.unique(X, axis=0, return_index=True)[1])]


def _sizes(settings: Settings, distinct: int) -> tuple[list[int], str]:
    """The numbers of inducing points to go through, and why the last is the last."""
    if settings.n_inducing is not None:
        size = min(settings.n_inducing, distinct)
        asked = f"n_inducing={settings.n_inducing}"
        if size == settings.n_inducing:
            return [size], f"{asked} as asked for"
        return [size], f"{asked}, but there are only {size} different rows"
    most = min(settings.max_inducing, distinct)
    sizes = [FIRST * 2**k for k in range(30) if FIRST * 2**k < most]
    if most < settings.max_inducing:
        return [*sizes, most], f"stopped at {most}, the number of different rows"
    return [*sizes, most], f"stopped at max_inducing={most} while more would still help"


def _entry(path, size: int, bound: float, bracket: EvidenceBracket | None, seconds: float) -> dict[str, Any]:
    gain = (bound - path[-1]["bound"]) / (size - path[-1]["n_inducing"]) if path else None
    upper = None if bracket is None else bracket.upper
    return {"n_inducing": size, "bound": bound, "upper": upper, "gain_per_point": gain, "seconds": seconds}


def _shown(entry: dict[str, Any]) -> str:
    upper = "" if entry["upper"] is None else f", upper bound {entry['upper']:.6g}"
    gain = "" if entry["gain_per_point"] is None else f", {entry['gain_per_point']:.3g} nats a new point"
    return f"{entry['n_inducing']} inducing points: bound {entry['bound']:.6g}{upper}{gain}, {entry['seconds']:.1f} s"


def _why_stop(result: FitResult, path, bracket: EvidenceBracket | None, settings: Settings, num_data: int) -> str:
    """A reason to try no larger size, or nothing."""
    size, gain = path[-1]["n_inducing"], path[-1]["gain_per_point"]
    if result.interrupted:
        return f"interrupted at {size}"
    if settings.n_inducing is not None:
        return ""
    if bracket is not None and bracket.nats_per_point < settings.tolerance:
        return (
            f"stopped at {size}: the evidence bracket is {bracket.nats_per_point:.2g} nats a row wide, "
            f"under tolerance={settings.tolerance:g}"
        )
    if gain is None:
        return ""
    gained = (path[-1]["bound"] - path[-2]["bound"]) / num_data
    if bracket is None and gained < settings.tolerance:
        under = f"under tolerance={settings.tolerance:g}"
        return f"stopped at {size}: the last new points gained {gained:.2g} nats a row, {under}"
    if gain < LEAST_GAIN:
        return f"stopped at {size}: each of the last new points gained {gain:.2g} nats, less than {LEAST_GAIN:g}"
    return ""


def unexplained(model, X: np.ndarray, count: int) -> np.ndarray:
    """Rows of ``X``, one by one those with most of the prior variance left, given the model's inducing points."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer than asked for are fewer that help
        return inducing.greedy_variance(X, min(count, len(X)), model.kernel, max_candidates=None, given=model.Z)
