"""From a table to what is fitted: the target, its likelihood and estimator, the inputs, and the held-out rows."""

from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from tightgp.app.cli.levels import describe_levels, offer_ordinal, ordered_levels, ordinal_labels
from tightgp.app.cli.likelihood import ESTIMATORS, choose_likelihood
from tightgp.app.cli.options import Request
from tightgp.app.cli.processes import gather_frame, run_in_all
from tightgp.app.cli.terminal import Terminal
from tightgp.app.tables import Inspection, TableError, check_target, find_column, inspect_table, read_table, row_number
from tightgp.estimators.reading.texts import Reading

#: More findings than these are shown by `tightgp inspect` alone.
_MOST_FINDINGS = 12
#: Where a larger share of the rows has no target, they are left out only if the user says so.
_MOST_MISSING = 0.5


@dataclass(frozen=True)
class Problem:
    """Inputs and targets of the rows to fit, and of the held-out rows with their row numbers in the file.

    ``levels`` are those of an ordinal target, lowest first; None for other targets.
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
    readings: dict[str, Reading] = field(default_factory=dict)
    levels: list | None = None


def read(request: Any, terminal: Terminal, share: tuple[int, int] = (0, 1), strict: bool = True) -> Any:
    """Read the table of a request, or a share of its rows."""
    options = {name: getattr(request, name) for name in ("delimiter", "encoding", "part", "max_unpacked")}
    with terminal.spinner(f"reading {request.table}"):
        return read_table(request.table, **options, progress=not terminal.silent, share=share, strict=strict)


def read_problem(request: Request, terminal: Terminal) -> Problem:
    """Read the table, choose the likelihood and hold rows out, with a message about each choice."""
    request.check()
    alone = jax.process_count() == 1
    frame = run_in_all(lambda: read(request, terminal, (jax.process_index(), jax.process_count()), strict=not alone))
    name = find_column(frame, request.target, "--target")
    ignored = [find_column(frame, column, "--ignore") for column in request.ignore or ()]
    if name in ignored:
        raise ValueError(f"--ignore {name!r} is the target")
    frame, notes = frame.drop(columns=ignored), []
    if len(frame.columns) == 1:
        raise TableError(request.table, f"has no column besides the target {name!r}; at least one input is needed")
    inspection = inspect_table(frame, name, request.choices) if alone else Inspection(frame, (), {}, ())
    notes += _report_findings(inspection, request, terminal)
    inputs = inspection.frame.drop(columns=name)
    targets = gather_frame(inspection.frame[[name]])
    missing = targets[name].isna()
    if missing.any() and (request.drop_missing_target or missing.mean() <= _MOST_MISSING):
        targets = targets[~missing]
        notes.append(f"{int(missing.sum()):,} of {len(missing):,} rows have no target and were left out.")
        terminal.message(notes[-1])
    column = check_target(targets, name, request.table)
    likelihood, reason = choose_likelihood(request, column, str(name), inputs if alone else None)
    if reason:
        terminal.message(f"{reason} (override with --likelihood).")
        notes += [f"{reason}."] if likelihood != "gaussian" else []
    if request.likelihood == "auto" and (offer := offer_ordinal(likelihood, column, str(name))):
        terminal.message(f"{offer}.")
    levels = None
    if likelihood == "ordinal":
        levels = ordered_levels(column, str(name), request.table)
        notes.append(f"{describe_levels(levels, str(name))}.")
        terminal.message(notes[-1])
    classes = ESTIMATORS[likelihood].task == "classification"
    y = _as_labels(column, levels is not None) if classes else column.to_numpy(np.float64)
    if request.holdout_by == "random":
        fitted, heldout = _split(y, request.holdout, request.seed, classes)
    else:
        time = find_column(inputs, request.holdout_by, "--holdout-by")
        fitted, heldout = _split_by_time(gather_frame(inputs[[time]])[time].loc[targets.index], request, str(time))
    if inspection.times and request.holdout and request.holdout_by == "random":
        terminal.message(
            f"Rows are held out at random: --holdout-by {inspection.times[0]} would test on the last ones instead."
        )
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
        readings=inspection.readings,
        levels=levels,
    )


def _report_findings(inspection: Inspection, columns: Any, terminal: Terminal) -> list[str]:
    """Print what was noticed in the columns, refuse the table where there are problems, and return notes."""
    shown = [one for one in inspection.findings if one.kind != "problem"]
    for one in shown[:_MOST_FINDINGS]:
        terminal.message(f"  {one}")
    if len(shown) > _MOST_FINDINGS:
        more = len(shown) - _MOST_FINDINGS
        terminal.message(f"  and {more} more, which `tightgp inspect {columns.table}` lists.")
    inspection.check(columns.table)
    return [f"{one.column}: {one.text}." for one in shown]


def make_estimator(name: str, request: Request, **parameters) -> Any:
    """The unfitted estimator of a likelihood, with the options of a request and further parameters."""
    estimator = ESTIMATORS[name]
    accepted = estimator().get_params()
    if "precision" not in accepted and getattr(request, "precision", "full") != "full":
        raise ValueError(f"--precision mixed requires the gaussian likelihood, not {name}")
    if "noise" not in accepted and getattr(request, "noise", "auto") not in ("auto", "gaussian"):
        raise ValueError(f"--noise {getattr(request, 'noise', '')} requires the gaussian likelihood, not {name}")
    numbers = {"n_inducing": request.num_inducing, "neighbours": request.num_neighbours, "random_state": request.seed}
    options = vars(request) | numbers | {"likelihood": name} | parameters
    return estimator(**{key: options[key] for key in options.keys() & accepted})


def _own_rows(inputs, positions: np.ndarray) -> tuple[Any, np.ndarray]:
    """Those of the rows at some positions in the file that this process has, and which of the positions they are."""
    local = positions - inputs.attrs.get("first", 0)
    mine = np.flatnonzero((local >= 0) & (local < len(inputs)))
    return inputs.iloc[local[mine]].reset_index(drop=True), mine


def _as_labels(y, ordinal: bool) -> np.ndarray:
    """Labels as texts, or as numbers if they are all whole numbers, or ordered levels."""
    if ordinal:
        return ordinal_labels(y)
    return y.to_numpy() if y.dtype.kind in "biu" else np.asarray([str(value) for value in y.tolist()])


def _split(y: np.ndarray, share: float, seed: int, classes: bool) -> tuple[np.ndarray, np.ndarray]:
    """Random rows to fit and to hold out, of each class in proportion; at least one row of each class is fitted."""
    order = np.random.default_rng(seed).permutation(len(y))
    count = _heldout_count(len(y), share)
    if classes and count:
        # Rows of a class are spread evenly over the order, so that any first part holds its share of them.
        _, codes, sizes = np.unique(y[order], return_inverse=True, return_counts=True)
        rank = np.empty(len(y))
        for code, size in enumerate(sizes):
            # A class of one row comes last: it is fitted.
            rank[codes == code] = (np.arange(size) + (0.5 if size > 1 else 1.0)) / size
        order = order[np.argsort(rank, kind="stable")]
    heldout, fitted = order[:count], order[count:]
    if classes:
        unseen = heldout[~np.isin(y[heldout], y[fitted])]
        first_of_class = unseen[np.unique(y[unseen], return_index=True)[1]]
        heldout, fitted = np.setdiff1d(heldout, first_of_class), np.concatenate([fitted, first_of_class])
    return np.sort(fitted), np.sort(heldout)


def _split_by_time(time: Any, request: Request, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Rows to fit, and the last ones by a column of times or numbers to hold out."""
    if time.dtype.kind not in "Mmiuf" or time.isna().any():
        problem = "must be random, or a column of times or numbers without a missing cell"
        raise ValueError(f"--holdout-by {problem}; {name!r} holds {time.dtype}")
    order = np.argsort(time.to_numpy(), kind="stable")
    count = _heldout_count(len(order), request.holdout)
    return np.sort(order[: len(order) - count]), np.sort(order[len(order) - count :])


def _heldout_count(rows: int, share: float) -> int:
    count = round(share * rows)
    if share and not 1 <= count <= rows - 2:
        problem = f"--holdout {share} of {rows} rows leaves too few to fit or to hold out"
        raise ValueError(f"{problem}; use more rows or --holdout 0")
    return count
