"""``tightgp predict``: a fitted model's answers about the rows of another table."""

from pathlib import Path
from typing import Any

import numpy as np

from tightgp import modelfile
from tightgp.cli.folder import model_of
from tightgp.cli.terminal import Terminal
from tightgp.encoding import Encoding
from tightgp.estimators import SparseGPClassifier, SparseGPCountRegressor, SparseGPRegressor
from tightgp.tables import check_writable, read_table, row_number, write_table

#: Rows predicted between two movements of the bar.
_PART = 20_000


def predict(
    model: Path,
    table: Path,
    out: Path,
    level: float,
    keep: bool,
    overwrite: bool,
    terminal: Terminal,
    neighbours: int | None = None,
    **how,
):
    """Predict every row of ``table`` and write the answers to ``out``."""
    if not 0 < level < 1:
        raise ValueError(f"--level is a probability between 0 and 1, got {level}")
    if out.exists() and not overwrite:
        raise ValueError(f"--out {out} exists already; name another file, or pass --overwrite")
    check_writable(out)
    path = model_of(model)
    estimator = modelfile.load(path)
    if not isinstance(estimator, SparseGPRegressor | SparseGPClassifier | SparseGPCountRegressor):
        raise ValueError(f"{path} holds a {type(estimator).__name__}, not what `tightgp fit` makes; load it in Python")
    if not hasattr(estimator, "posterior_") or not isinstance(getattr(estimator, "encoding_", None), Encoding):
        raise ValueError(f"{path} holds an estimator that was not fitted; fit it first")
    if neighbours is not None:
        if not isinstance(estimator, SparseGPRegressor):
            raise ValueError(f"--neighbours goes with Gaussian noise, and {path} holds a {type(estimator).__name__}")
        estimator.set_params(neighbours=neighbours)
    with terminal.busy(f"reading {table}"):
        frame = read_table(table, progress=not terminal.quiet, **how)
    inputs = _inputs(estimator, frame, table)
    with terminal.telling_warnings() as notes:
        parts = []
        with terminal.steps("predicting", len(frame)) as done:
            for start in range(0, len(frame), _PART):
                parts.append(_answers(estimator, inputs.iloc[start : start + _PART], level))
                done(min(start + _PART, len(frame)))
    columns = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    predictions = _frame(frame, columns, keep)
    write_table(predictions, out)
    terminal.show(f"{len(frame):,} rows predicted: {out}")
    terminal.result({"predictions": str(out), "rows": len(frame), "columns": list(predictions), "notes": notes})


def _inputs(estimator, frame, table: Path):
    """The columns that the model was fitted to, in their order."""
    wanted = [column.name for column in estimator.encoding_.columns]
    names = {str(name): name for name in frame.columns}
    lacking = [name for name in wanted if name not in names]
    if lacking:
        listed = ", ".join(map(repr, lacking[:10])) + (", ..." if len(lacking) > 10 else "")
        raise ValueError(
            f"{table} lacks {len(lacking)} column(s) that the model was fitted to: {listed}; "
            f"it has {', '.join(map(repr, list(names)[:20]))}"
        )
    return frame[[names[name] for name in wanted]].rename(columns=str)


def _answers(estimator, X, level: float) -> dict[str, np.ndarray]:
    if isinstance(estimator, SparseGPClassifier):
        probabilities = estimator.predict_proba(X)
        best = {"prediction": estimator.classes_[np.argmax(probabilities, axis=1)]}
        return {**best, **{f"p({label})": probabilities[:, i] for i, label in enumerate(estimator.classes_)}}
    mean, sd = estimator.predict(X, return_std=True)
    low, high = estimator.predict_interval(X, level)
    percent = f"{100 * level:g}"
    return {"mean": mean, "sd": sd, f"lower{percent}": low, f"upper{percent}": high}


def _frame(frame, columns: dict[str, Any], keep: bool):
    """The answers as a table, after each row's number in the file and, where wanted, the table's own columns."""
    import pandas as pd

    answers = pd.DataFrame({"row": row_number(frame, np.arange(len(frame))), **columns})
    if not keep:
        return answers
    taken = [str(name) for name in frame.columns if str(name) in answers.columns]
    if taken:
        raise ValueError(f"--keep: the table has columns called {', '.join(taken)} itself; rename them")
    return pd.concat([answers[["row"]], frame.rename(columns=str), answers.drop(columns="row")], axis=1)
