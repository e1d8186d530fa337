"""``tightgp predict``: a fitted model's predictions for the rows of another table."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tightgp.app.cli.folder import check_new, model_file
from tightgp.app.cli.likelihood import ESTIMATORS
from tightgp.app.cli.options import PredictRequest
from tightgp.app.cli.problem import read
from tightgp.app.cli.terminal import Terminal
from tightgp.app.report.table import Table
from tightgp.app.tables import check_writable, row_number, write_table
from tightgp.app.tables.readings import apply_readings, from_plain
from tightgp.io import modelfile
from tightgp.progress import ProgressBar

#: Rows predicted between two updates of the progress bar.
_BATCH_ROWS = 20_000


def predict(request: PredictRequest, terminal: Terminal) -> None:
    """Predict the rows of a table: mean, standard deviation and interval, or the probability of each class."""
    check_new(request.out, request.overwrite)
    check_writable(request.out)
    estimator = load_estimator(request.model, request.neighbours)
    readings = from_plain(getattr(estimator, "readings_", {}))
    frame = read(request, terminal, strict=not readings)
    as_read = apply_readings(frame, readings, request.table)
    inputs = Table.of(request.table, as_read, estimator.encoding_.columns).frame
    batches = []
    with terminal.warnings_as_notes() as notes, ProgressBar(len(frame), not terminal.silent, "predicting") as bar:
        for start in range(0, len(frame), _BATCH_ROWS):
            batches.append(predict_batch(estimator, inputs.iloc[start : start + _BATCH_ROWS], request.level))
            bar.update(min(start + _BATCH_ROWS, len(frame)))
    predictions = pd.concat(batches, ignore_index=True)
    kept = frame.rename(columns=str) if request.keep else frame[[]]
    if taken := [name for name in kept if name in ("row", *predictions)]:
        raise ValueError(f"--keep: the table has columns called {', '.join(taken)} itself; rename them")
    numbers = pd.Series(row_number(frame, np.arange(len(frame))), name="row")
    written = pd.concat([numbers, kept, predictions], axis=1)
    write_table(written, request.out, formulas=request.formulas)
    terminal.print(f"{len(frame):,} rows predicted: {request.out}")
    terminal.result({"predictions": str(request.out), "rows": len(frame), "columns": list(written), "notes": notes})


def load_estimator(model: Path, neighbours: int | None = None) -> Any:
    """The fitted estimator in a folder that fit wrote, or in a model file; ``neighbours`` replaces its own number."""
    path = model_file(model)
    estimator: Any = modelfile.load(path)
    name = type(estimator).__name__
    if type(estimator) not in ESTIMATORS.values():
        raise ValueError(f"{path} holds a {name}, which `tightgp fit` does not write; load it in Python")
    if not hasattr(estimator, "posterior_"):
        raise ValueError(f"{path} holds an estimator that is not fitted; fit it first")
    if neighbours is not None:
        if "neighbours" not in estimator.get_params():
            raise ValueError(f"--neighbours requires the gaussian likelihood, and {path} holds a {name}")
        estimator.set_params(neighbours=neighbours)
    return estimator


def predict_batch(estimator, X, level: float) -> pd.DataFrame:
    """Predictions of some rows, as they are written to a table."""
    prediction = estimator.predict_distribution(X)
    if estimator.task == "classification":
        probabilities = {f"p({label})": prediction.probability[:, i] for i, label in enumerate(prediction.classes)}
        return pd.DataFrame({"prediction": prediction.mode, **probabilities})
    low, high = prediction.interval(level)
    percent = f"{100 * level:g}"
    return pd.DataFrame({"mean": prediction.mean, "sd": prediction.sd, f"lower{percent}": low, f"upper{percent}": high})
