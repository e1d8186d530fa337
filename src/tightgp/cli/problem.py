"""From a table to what is fitted: the target, its likelihood, the inputs, and the rows held out."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tightgp import distributed
from tightgp.cli import together
from tightgp.cli.folder import Request
from tightgp.cli.terminal import Terminal
from tightgp.tables import TableError, check_target, read_table, row_number, target_column

LIKELIHOODS = ("auto", "gaussian", "poisson", "negative_binomial", "classes")
#: Whole numbers up to this are taken for counts where nothing else is said; larger ones are as good as Gaussian.
_LARGEST_COUNT = 100


@dataclass(frozen=True)
class Problem:
    """Inputs and targets of the rows to fit, and of those held out with their row numbers in the file.

    Of several processes each has the first two of its own rows; ``num_rows`` counts those of all.
    """

    likelihood: str
    target: str
    X: Any
    y: np.ndarray
    num_rows: int
    heldout: tuple[Any, np.ndarray] | None
    heldout_rows: list[int] | None
    notes: tuple[str, ...]


def read_problem(request: Request, terminal: Terminal) -> Problem:
    """Read the table and take it apart as asked, saying aloud what was decided.

    Of several processes each has its own part of the rows to fit, and all have the rows held out.
    """
    if request.likelihood not in LIKELIHOODS:
        raise ValueError(f"--likelihood must be one of {', '.join(LIKELIHOODS)}; got {request.likelihood!r}")
    if not 0 <= request.holdout < 1:
        raise ValueError(f"--holdout is a share of the rows from 0 to below 1, got {request.holdout}")
    how: dict[str, Any] = {"delimiter": request.delimiter, "encoding": request.encoding}
    frame = together.agree(
        lambda: read_table(request.table, progress=not terminal.quiet, share=together.share(), **how)
    )
    name, notes = target_column(frame, request.target), []
    ignored = [_ignored(frame, column) for column in request.ignore]
    if name in ignored:
        raise ValueError(f"--ignore {name!r} is the target")
    column = together.gathered(frame[[name]])
    positions = np.arange(len(column))
    if request.drop_missing_target and (gone := column[name].isna().to_numpy(bool)).any():
        positions = positions[~gone]
        notes.append(f"{int(gone.sum())} rows without a target were left out.")
        terminal.say(notes[-1])
    rows = row_number(column, positions)
    attributes, column = column.attrs, column.iloc[positions].reset_index(drop=True)
    column.attrs.update(attributes)
    if not len(column):
        raise TableError(request.table, f"has no row with a target {name!r}")
    y = check_target(column, name, request.table)
    inputs = frame.drop(columns=[name, *ignored])
    if not len(inputs.columns):
        raise TableError(request.table, f"has no column besides the target {name!r}; at least one input is needed")
    likelihood, why = _likelihood(request.likelihood, y, request.table, str(name))
    if why:
        terminal.say(f"{why} (--likelihood says otherwise).")
        notes += [f"{why}."] if likelihood != "gaussian" else []
    targets = _as_classes(y) if likelihood == "classes" else y.to_numpy(np.float64)
    fit, held = _split(targets, request.holdout, request.seed, likelihood == "classes")
    X, mine = _own(inputs, positions[fit])
    _check_parts(request.table, len(mine), len(fit))
    return Problem(
        likelihood=likelihood,
        target=str(name),
        X=X,
        y=targets[fit][mine],
        num_rows=len(fit),
        heldout=(together.gathered(_own(inputs, positions[held])[0]), targets[held]) if len(held) else None,
        heldout_rows=rows[held].tolist() if len(held) else None,
        notes=tuple(notes),
    )


def _own(inputs, positions: np.ndarray) -> tuple[Any, np.ndarray]:
    """This process's inputs of the rows at some places in the file, and which of the places they are."""
    places = positions - inputs.attrs.get("first", 0)
    mine = np.flatnonzero((places >= 0) & (places < len(inputs)))
    return inputs.iloc[places[mine]].reset_index(drop=True), mine


def _check_parts(path: str, own: int, count: int) -> None:
    if 0 in (parts := distributed.counts(own)):
        raise TableError(
            path, f"has {count} rows to fit, of which process {parts.index(0)} would have none; use fewer processes"
        )


def _ignored(frame, column: str):
    try:
        return target_column(frame, column)
    except ValueError as error:
        raise ValueError(str(error).replace("target", "--ignore", 1)) from None


def _likelihood(wanted: str, y, path: str | Path, name: str) -> tuple[str, str]:
    """The likelihood, and why, where it was guessed."""
    text = y.dtype.kind not in "biuf"
    if wanted == "classes" or (wanted == "auto" and (text or y.dtype.kind == "b")):
        if y.dtype.kind in "mM":
            raise TableError(path, f"target {name!r} is a date or duration; give a number, or texts for classes")
        return "classes", f"Target {name!r} is no number: fitting its {y.nunique()} classes" if wanted == "auto" else ""
    if text:
        raise TableError(path, f"target {name!r} holds {y.dtype}, not numbers; for classes pass --likelihood classes")
    values = y.to_numpy(np.float64)
    whole = bool(np.all(values == np.floor(values)) and values.min() >= 0)
    if wanted in ("poisson", "negative_binomial") and not whole:
        raise TableError(path, f"target {name!r} must hold whole numbers from 0 on for --likelihood {wanted}")
    if wanted != "auto":
        return wanted, ""
    if set(np.unique(values)) == {0.0, 1.0}:
        return "classes", f"Target {name!r} holds 0 and 1 alone: fitting two classes"
    if whole and values.max() <= _LARGEST_COUNT:
        return "poisson", f"Target {name!r} holds whole numbers up to {values.max():g}: fitting Poisson counts"
    return "gaussian", f"Target {name!r} holds numbers: fitting Gaussian noise"


def _as_classes(y) -> np.ndarray:
    """Labels as texts, or as numbers where they are all numbers."""
    return y.to_numpy() if y.dtype.kind in "biu" else np.asarray([str(value) for value in y.tolist()])


def _split(y: np.ndarray, share: float, seed: int, classes: bool) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit and rows held out, at random; of every class one at least is fitted."""
    order = np.random.default_rng(seed).permutation(len(y))
    count = round(share * len(y))
    if share and not 1 <= count <= len(y) - 2:
        raise ValueError(
            f"--holdout {share} of {len(y)} rows leaves too few to fit or to hold out; use more rows or --holdout 0"
        )
    held, fit = order[:count], order[count:]
    if classes:
        lost = ~np.isin(y[held], y[fit])
        _, first = np.unique(y[held][lost], return_index=True)
        moved = held[lost][first]
        held, fit = held[~np.isin(held, moved)], np.concatenate([fit, moved])
    return np.sort(fit), np.sort(held)
