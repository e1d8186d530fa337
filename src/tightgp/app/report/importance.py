"""Which inputs the predictions need: how much worse held-out rows are predicted when one column is shuffled."""

from typing import Any

import numpy as np
import pandas as pd

from tightgp.app.report.slices import by_relevance, first_output
from tightgp.app.report.table import Table

#: Held-out rows, and the most relevant columns, that are looked at.
_ROWS, _COLUMNS = 400, 20


def permutation_importance(estimator: Any, table: Table, targets: np.ndarray) -> tuple[tuple[str, float], ...]:
    """The columns with the rise of the held-out error if each is shuffled, the largest first.

    The error is the root mean square, in the units of the target; for classes the log loss, in nats.
    """
    rng = np.random.default_rng(0)
    rows = np.sort(rng.permutation(len(targets))[:_ROWS])
    if len(rows) < 10:
        return ()
    frame, y = table.frame.iloc[rows].reset_index(drop=True), targets[rows]
    columns, frames, order = by_relevance(estimator)[:_COLUMNS], [frame], rng.permutation(len(rows))
    for i in columns:
        frames.append(frame.copy())
        frames[-1].isetitem(i, frame.iloc[order, i].reset_index(drop=True))
    prediction = estimator.predict_distribution(table.as_inputs(pd.concat(frames, ignore_index=True)))
    if estimator.task == "classification":
        parts = np.array_split(prediction.probability, len(frames))
        errors = [-np.mean(np.log(np.maximum(part[np.arange(len(y)), y], 1e-12))) for part in parts]
    else:
        parts = np.array_split(first_output(prediction.mean), len(frames))
        errors = [np.sqrt(np.mean((first_output(y) - part) ** 2)) for part in parts]
    rises = {table.columns[i].name: float(error - errors[0]) for i, error in zip(columns, errors[1:], strict=True)}
    return tuple(sorted(rises.items(), key=lambda one: -one[1]))
