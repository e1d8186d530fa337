"""The record of a training: its end, some hundred points of its trace, and its predictions."""

from typing import Any

import numpy as np

import tightgp as tgp
from experiments.held_out import prediction

#: Points kept of a trace.
_POINTS = 160
_FOLLOWED = ("objective", "noise_variance", "v")


def of(result: tgp.FitResult, post, test: tgp.Dataset, neighbours: tuple[int | None, ...] = (None,)) -> dict[str, Any]:
    """The record of a Gaussian model: training and test scores, from the inducing points and from neighbours."""
    tested = scores(post, test, neighbours)
    found = [f"{one['log_density']:.3f}" if "error" not in one else "failed" for one in tested]
    model = result.model
    return {
        **training(result),
        "noise_variance": shortened(float(post.noise_variance)),
        "variance": shortened(float(model.kernel.variance)),
        "lengthscale": shortened(np.atleast_1d(np.asarray(model.kernel.lengthscale)).tolist()),
        "test_rows": test.num_data,
        "scores": tested,
        "summary": f"test log density {', '.join(found)}; {result.seconds:.1f} s, {result.message}",
    }


def scores(post, rows: tgp.Dataset, neighbours: tuple[int | None, ...]) -> list[dict[str, Any]]:
    """Scores of held-out rows for each number of neighbours; None predicts from the inducing points alone."""
    return [shortened(prediction(post, rows, n)) for n in neighbours]


def training(result: tgp.FitResult) -> dict[str, Any]:
    """The record of the training of any model."""
    return {
        "objective": shortened(result.objective, 9),
        "seconds": shortened(result.seconds),
        "evaluations": result.evaluations,
        "rejected": result.rejected,
        "converged": result.converged,
        "message": result.message,
        "trace": trace(result.trace),
    }


def trace(columns: dict[str, np.ndarray]) -> dict[str, list]:
    """Some points of a trace, with the first and the last."""
    length = len(columns["objective"])
    at = np.unique(np.linspace(0, length - 1, _POINTS).round().astype(int))
    return {"step": at.tolist()} | {
        name: shortened(np.asarray(columns[name])[at].tolist(), 7) for name in _FOLLOWED if name in columns
    }


def histogram(values, bins: int = 40) -> dict[str, Any]:
    """A histogram of numbers between 0 and 1."""
    counts, edges = np.histogram(np.clip(np.asarray(values), 0, 1), bins, (0, 1))
    return {"counts": counts.tolist(), "edges": shortened(edges.tolist()), "mean": shortened(float(np.mean(values)))}


def shortened(value, digits: int = 6):
    """Round floats to ``digits`` digits, so that records stay small and readable."""
    if isinstance(value, float):
        return float(f"{value:.{digits}g}")
    if isinstance(value, list):
        return [shortened(one, digits) for one in value]
    if isinstance(value, dict):
        return {key: shortened(one, digits) for key, one in value.items()}
    return value
