"""Scores of targets that are classes, on held-out rows."""

from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binned_statistic
from sklearn.metrics import accuracy_score, brier_score_loss, confusion_matrix, log_loss

from tightgp.app.report.content import Classes, Heldout, ReliabilityBin, Score
from tightgp.app.report.table import HeldoutRows, cell_text
from tightgp.app.scores import binomial_range
from tightgp.estimators.distributions import ClassPrediction

_MOST_CURVES, _MOST_LABELS = 4, 12


def positions(classes: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The position of each label among ``classes``, -1 for labels that are none of them."""
    return pd.Index(classes).get_indexer(pd.Index(labels))


def shown_classes(observed: np.ndarray, count: int) -> list[int]:
    """The classes to draw curves of: the second of two, else the most frequent ones."""
    if count == 2:
        return [1]
    return np.sort(np.argsort(-np.bincount(observed), kind="stable")[:_MOST_CURVES]).tolist()


def score(prediction: ClassPrediction, rows: HeldoutRows, training: np.ndarray) -> Heldout:
    """Scores of held-out classes. The targets of ``rows`` and of ``training`` are positions of classes."""
    observed = rows.targets
    p = prediction.probability / prediction.probability.sum(axis=1, keepdims=True)
    names = [cell_text(label) for label in prediction.classes]
    frequencies = np.bincount(training, minlength=len(names)) / len(training)
    baseline = np.broadcast_to(frequencies, p.shape)
    predicted, most_frequent = p.argmax(axis=1), int(frequencies.argmax())
    given = p[np.arange(len(p)), observed]
    every = range(len(names))

    def describe(row: int) -> dict[str, Any]:
        return {"observed": names[observed[row]], "predicted": names[predicted[row]], "probability": float(given[row])}

    return Heldout(
        num_rows=len(observed),
        scores=(
            Score("accuracy", accuracy_score(observed, predicted), float(np.mean(observed == most_frequent))),
            Score("log loss", *(log_loss(observed, q, labels=every) for q in (p, baseline))),
            Score("Brier score", *(brier_score_loss(observed, q, labels=every) for q in (p, baseline))),
        ),
        worst=rows.worst(given, None, describe),
        classes=_classes(observed, predicted, p, names, names[most_frequent]),
    )


def _classes(observed: np.ndarray, predicted: np.ndarray, p: np.ndarray, names: list[str], frequent: str) -> Classes:
    labels, place = _shown_labels(observed, predicted, names)
    confusion = confusion_matrix(place[observed], place[predicted], labels=range(len(labels)))
    stated, right = p[np.arange(len(p)), predicted], observed == predicted
    two = len(names) == 2
    return Classes(
        labels=tuple(labels),
        confusion=tuple(map(tuple, confusion.tolist())),
        most_frequent=frequent,
        reliability_of=names[1] if two else None,
        reliability=_reliability(p[:, 1], observed == 1) if two else _reliability(stated, right),
        predicted=float(np.mean(stated)),
        observed=float(np.mean(right)),
        standard_error=float(np.sqrt(np.sum(stated * (1 - stated))) / len(stated)),
    )


def _reliability(stated: np.ndarray, happened: np.ndarray) -> tuple[ReliabilityBin, ...]:
    """The mean of ``stated`` probabilities and the observed frequency, in bins of a tenth that hold any row."""
    values = [stated, happened, np.ones(len(stated))]
    sums = binned_statistic(stated, values, "sum", bins=10, range=(0.0, 1.0)).statistic.T
    bins = []
    for total, hits, count in sums[sums[:, 2] > 0].tolist():
        mean = min(total / count, 1.0)
        bins.append(ReliabilityBin(mean, hits / count, *binomial_range(int(count), mean), int(count)))
    return tuple(bins)


def _shown_labels(observed: np.ndarray, predicted: np.ndarray, names: list[str]) -> tuple[list[str], np.ndarray]:
    """The labels of the confusion matrix, and the place of each class in it: rare classes are shown as one."""
    if len(names) <= _MOST_LABELS:
        return names, np.arange(len(names))
    sizes = np.bincount(np.concatenate([observed, predicted]), minlength=len(names))
    shown = np.sort(np.argsort(-sizes, kind="stable")[: _MOST_LABELS - 1])
    place = np.full(len(names), len(shown))
    place[shown] = np.arange(len(shown))
    return [*(names[k] for k in shown), f"{len(names) - len(shown)} others"], place
