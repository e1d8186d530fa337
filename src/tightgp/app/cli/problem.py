"""From a table to what is fitted: the target, its likelihood and estimator, the inputs, and the held-out rows."""

from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from tightgp.app.cli.options import PredictRequest, Request
from tightgp.app.cli.processes import gather_frame, run_in_all
from tightgp.app.cli.terminal import Terminal
from tightgp.app.tables import TableError, check_target, find_column, read_table, row_number
from tightgp.estimators import SparseGPClassifier, SparseGPCountRegressor, SparseGPRegressor

#: The estimator of each likelihood.
ESTIMATORS: dict[str, type[Any]] = {
    "gaussian": SparseGPRegressor,
    "poisson": SparseGPCountRegressor,
    "negative_binomial": SparseGPCountRegressor,
    "classes": SparseGPClassifier,
}
#: Whole numbers up to this are guessed to be counts; for larger ones Gaussian noise is as good.
_LARGEST_COUNT = 100


@dataclass(frozen=True)
class Problem:
    """Inputs and targets of the rows to fit, and of the held-out rows with their row numbers in the file.

    If several processes fit together, ``X`` and ``y`` are the rows of this process; ``num_rows`` counts all of them,
    and each process has all held-out rows.
    """

    likelihood: str
    target: str
    X: Any
    y: np.ndarray
    num_rows: int
    heldout: tuple[Any, np.ndarray] | None
    heldout_rows: list[int]
    notes: tuple[str, ...]


def read(request: Request | PredictRequest, terminal: Terminal, share: tuple[int, int] = (0, 1)) -> Any:
    """Read the table of a request, or a share of its rows."""
    table, delimiter, encoding = request.table, request.delimiter, request.encoding
    with terminal.spinner(f"reading {table}"):
        return read_table(table, delimiter=delimiter, encoding=encoding, progress=not terminal.silent, share=share)


def read_problem(request: Request, terminal: Terminal) -> Problem:
    """Read the table, choose the likelihood and hold rows out, with a message about each choice."""
    request.check()
    frame = run_in_all(lambda: read(request, terminal, (jax.process_index(), jax.process_count())))
    name = find_column(frame, request.target, "--target")
    ignored = [find_column(frame, column, "--ignore") for column in request.ignore or ()]
    if name in ignored:
        raise ValueError(f"--ignore {name!r} is the target")
    inputs = frame.drop(columns=[name, *ignored])
    if not len(inputs.columns):
        raise TableError(request.table, f"has no column besides the target {name!r}; at least one input is needed")
    targets = gather_frame(frame[[name]])
    notes = []
    if request.drop_missing_target and (missing := targets[name].isna()).any():
        targets = targets[~missing]
        notes.append(f"{int(missing.sum())} rows without a target were left out.")
        terminal.message(notes[-1])
    column = check_target(targets, name, request.table)
    likelihood, reason = _choose_likelihood(request, column, str(name))
    if reason:
        terminal.message(f"{reason} (override with --likelihood).")
        notes += [f"{reason}."] if likelihood != "gaussian" else []
    classes = ESTIMATORS[likelihood].task == "classification"
    y = _as_labels(column) if classes else column.to_numpy(np.float64)
    fitted, heldout = _split(y, request.holdout, request.seed, classes)
    positions = targets.index.to_numpy()
    X, mine = _own_rows(inputs, positions[fitted])
    heldout_X = gather_frame(_own_rows(inputs, positions[heldout])[0])
    return Problem(
        likelihood=likelihood,
        target=str(name),
        X=X,
        y=y[fitted][mine],
        num_rows=len(fitted),
        heldout=(heldout_X, y[heldout]) if len(heldout) else None,
        heldout_rows=row_number(targets, positions[heldout]).tolist(),
        notes=tuple(notes),
    )


def make_estimator(name: str, request: Request, **parameters) -> Any:
    """The unfitted estimator of a likelihood, with the options of a request and further parameters."""
    estimator = ESTIMATORS[name]
    accepted = estimator().get_params()
    if "precision" not in accepted and getattr(request, "precision", "full") != "full":
        raise ValueError(f"--precision mixed requires the gaussian likelihood, not {name}")
    numbers = {"n_inducing": request.num_inducing, "neighbours": request.num_neighbours, "random_state": request.seed}
    options = vars(request) | numbers | {"likelihood": name} | parameters
    return estimator(**{key: options[key] for key in options.keys() & accepted})


def _own_rows(inputs, positions: np.ndarray) -> tuple[Any, np.ndarray]:
    """Those of the rows at some positions in the file that this process has, and which of the positions they are."""
    local = positions - inputs.attrs.get("first", 0)
    mine = np.flatnonzero((local >= 0) & (local < len(inputs)))
    return inputs.iloc[local[mine]].reset_index(drop=True), mine


def _choose_likelihood(request: Request, y, name: str) -> tuple[str, str]:
    """The requested likelihood, or a guess and the reason for it; refused if the targets do not fit it."""
    likelihood, reason = (request.likelihood, "") if request.likelihood != "auto" else _guess_likelihood(y, name)
    task = ESTIMATORS[likelihood].task
    if task == "classification" and y.dtype.kind in "mM":
        problem = "is a date or duration; give a number, or texts for classes"
    elif task != "classification" and y.dtype.kind not in "biuf":
        problem = f"holds {y.dtype}, not numbers; for classes pass --likelihood classes"
    elif task == "counts" and not _are_counts(y):
        problem = f"must hold whole numbers of at least 0 for --likelihood {likelihood}"
    else:
        return likelihood, reason
    raise TableError(request.table, f"target {name!r} {problem}")


def _guess_likelihood(y, name: str) -> tuple[str, str]:
    if y.dtype.kind not in "iuf":
        return "classes", f"Target {name!r} is not a number: fitting its {y.nunique()} classes"
    if set(y.unique()) == {0, 1}:
        return "classes", f"Target {name!r} holds only 0 and 1: fitting two classes"
    if _are_counts(y) and y.max() <= _LARGEST_COUNT:
        return "poisson", f"Target {name!r} holds whole numbers up to {y.max():g}: fitting Poisson counts"
    return "gaussian", f"Target {name!r} holds numbers: fitting Gaussian noise"


def _are_counts(y) -> bool:
    values = y.to_numpy(np.float64)
    return bool(np.all(values == np.floor(values)) and values.min() >= 0)


def _as_labels(y) -> np.ndarray:
    """Labels as texts, or as numbers if they are all whole numbers."""
    return y.to_numpy() if y.dtype.kind in "biu" else np.asarray([str(value) for value in y.tolist()])


def _split(y: np.ndarray, share: float, seed: int, classes: bool) -> tuple[np.ndarray, np.ndarray]:
    """Random rows to fit and to hold out; at least one row of each class is fitted."""
    order = np.random.default_rng(seed).permutation(len(y))
    count = round(share * len(y))
    if share and not 1 <= count <= len(y) - 2:
        problem = f"--holdout {share} of {len(y)} rows leaves too few to fit or to hold out"
        raise ValueError(f"{problem}; use more rows or --holdout 0")
    heldout, fitted = order[:count], order[count:]
    if classes:
        unseen = heldout[~np.isin(y[heldout], y[fitted])]
        first_of_class = unseen[np.unique(y[unseen], return_index=True)[1]]
        heldout, fitted = np.setdiff1d(heldout, first_of_class), np.concatenate([fitted, first_of_class])
    return np.sort(fitted), np.sort(heldout)
