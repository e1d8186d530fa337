"""Scores of targets that are classes, on rows that the model was not fitted to."""

import numpy as np

from tightgp import scores
from tightgp.report.numeric import Rows
from tightgp.report.scored import Classes, Heldout, ReliabilityBin, Score, Worst, WorstRow
from tightgp.report.table import worded

MOST_CURVES, _MOST_LABELS = 4, 12


def numbers_of(classes, labels) -> np.ndarray:
    """The number of each label among ``classes``, -1 where it is none of them."""
    places = {label: i for i, label in enumerate(np.asarray(classes).tolist())}
    return np.array([places.get(label, -1) for label in np.asarray(labels).tolist()], int)


def frequent(labels: np.ndarray, num_classes: int) -> list[int]:
    """The classes that curves are drawn for: of two the second, else the most frequent ones."""
    if num_classes == 2:
        return [1]
    counts = np.bincount(labels[labels >= 0], minlength=num_classes)
    return sorted(np.argsort(-counts, kind="stable")[:MOST_CURVES].tolist())


def score(estimator, rows: Rows, labels: np.ndarray, training: np.ndarray) -> Heldout:
    """All that is said of held-out classes; ``labels`` and ``training`` are class numbers."""
    p = np.asarray(estimator.predict_proba(rows.table.X), float)
    p = np.clip(p, 0.0, 1.0) / np.clip(p, 0.0, 1.0).sum(axis=1, keepdims=True)
    names = [worded(label) for label in estimator.classes_]
    shares = np.bincount(training, minlength=len(names)) / len(training)
    plain = np.broadcast_to(shares, p.shape)
    predicted, usual = p.argmax(axis=1), int(shares.argmax())
    found = (
        Score("accuracy", float(np.mean(predicted == labels)), float(np.mean(labels == usual))),
        Score("log loss", scores.log_loss(labels, p), scores.log_loss(labels, plain)),
        Score("Brier score", _brier(labels, p), _brier(labels, plain)),
    )
    table = scores.confusion(labels, predicted, len(names))
    table, shown = _reduced(table, names)
    return Heldout(
        num_rows=len(labels),
        scores=found,
        coverage=(),
        calibration=None,
        points=None,
        classes=_classes(labels, predicted, p, names, table, shown, names[usual]),
        worst=_worst(rows, labels, predicted, p, names),
    )


def _brier(labels: np.ndarray, p: np.ndarray) -> float:
    return scores.brier(labels, p[:, 1] if p.shape[1] == 2 else p)


def _classes(labels, predicted, p, names, table, shown, usual: str) -> Classes:
    stated, right = np.clip(p[np.arange(len(p)), predicted], 0.0, 1.0), labels == predicted
    two = len(names) == 2
    binned = scores.reliability(p[:, 1], labels == 1) if two else scores.reliability(stated, right)
    bins = [
        ReliabilityBin(float(said), float(came), *scores.binomial_range(int(n), float(said)), int(n))
        for said, came, n in zip(*binned, strict=True)
    ]
    return Classes(
        labels=tuple(shown),
        confusion=tuple(tuple(map(int, row)) for row in table),
        most_frequent=usual,
        reliability_of=names[1] if two else None,
        reliability=tuple(bins),
        stated=float(np.mean(stated)),
        observed=float(np.mean(right)),
        stated_error=float(np.sqrt(np.sum(stated * (1 - stated))) / len(stated)),
    )


def _reduced(table: np.ndarray, names: list[str]) -> tuple[np.ndarray, list[str]]:
    """The table of the most frequent classes, with all others as one, where there are too many to read."""
    if len(names) <= _MOST_LABELS:
        return table, names
    sizes = table.sum(axis=0) + table.sum(axis=1)
    kept = np.sort(np.argsort(-sizes, kind="stable")[: _MOST_LABELS - 1])
    place = np.full(len(names), len(kept))
    place[kept] = np.arange(len(kept))
    small = np.zeros((len(kept) + 1,) * 2, int)
    np.add.at(small, (place[:, None], place[None, :]), table)
    return small, [*(names[k] for k in kept), f"{len(names) - len(kept)} others"]


def _worst(rows: Rows, labels, predicted, p, names) -> Worst:
    chosen = p[np.arange(len(p)), labels]
    log_density = np.log(np.maximum(chosen, np.finfo(float).tiny))
    found = tuple(
        WorstRow(
            row=rows.number(row),
            observed=names[labels[row]],
            predicted=names[predicted[row]],
            low=None,
            high=None,
            probability=float(chosen[row]),
            deviations=None,
            log_density=float(log_density[row]),
            inputs=rows.inputs(row),
        )
        for row in rows.worst(log_density)
    )
    return Worst(None, rows.numbers is not None, rows.shown(), found)
