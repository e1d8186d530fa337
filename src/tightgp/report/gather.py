"""From a fitted estimator and its data to everything that the report shows."""

import warnings
from datetime import datetime
from typing import Any

import numpy as np

from tightgp.parameters import named_parameters
from tightgp.report import classes, numeric
from tightgp.report.content import (
    Column,
    Content,
    Evidence,
    Named,
    PathStep,
    Scales,
    Subject,
    Trace,
    Training,
)
from tightgp.report.scored import Heldout, Histogram
from tightgp.report.slices import relevance, slices
from tightgp.report.svg import clean, shortened
from tightgp.report.table import Table
from tightgp.report.words import sentence

_MOST_STEPS = 400


def gather(
    estimator, X, y, *, heldout=None, source: str = "", target: str = "", heldout_rows=None, notes=()
) -> Content:
    """Everything that the report of a fitted estimator shows.

    Args:
        estimator: a fitted `SparseGPRegressor`, `SparseGPClassifier` or `SparseGPCountRegressor`.
        X: the training inputs, a frame or an array, as they were given to ``fit``.
        y: the training targets. Of several columns the report is about the first, with a line about each.
        heldout: None, or ``(X, y)`` of rows that the estimator was not fitted to.
        source: where the data come from, such as a file's name.
        target: what the target is called; that of a pandas object unless given.
        heldout_rows: the held-out rows' numbers in the file.
        notes: further sentences for the reader.
    """
    task = _task(estimator)
    table, targets, names = _checked("", estimator, X, y, task)
    names[0] = target or names[0]
    said = [clean(str(note)) for note in notes]
    numbers = classes.numbers_of(estimator.classes_, targets) if task == "classification" else None
    drawn = [] if numbers is None else classes.frequent(numbers, len(estimator.classes_))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        held = None
        if heldout is not None:
            held = _heldout(estimator, heldout, heldout_rows, task, targets, numbers, names, said)
        cuts, fixed = slices(estimator, table, drawn)
    said += [sentence(str(one.message)) for one in caught]
    if len(names) > 1:
        said.append(f"There are {len(names)} outputs; where nothing else is said, the report is about {names[0]!r}.")
    return Content(
        task=task,
        made=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M"),
        tightgp=_version(),
        subject=_subject(estimator, source, names[0], len(targets), 0 if held is None else held.num_rows),
        training=_training(estimator),
        evidence=_evidence(estimator, len(targets)),
        scales=_scales(estimator, len(targets)),
        noise_sd=_noise_sd(estimator),
        heldout=held,
        relevance=relevance(estimator),
        slices=cuts,
        fixed=fixed,
        notes=tuple(dict.fromkeys(map(clean, said))),
    )


def _task(estimator) -> str:
    if not hasattr(estimator, "model_"):
        raise ValueError(f"estimator must be fitted: call {type(estimator).__name__}.fit(X, y) before the report")
    if hasattr(estimator, "predict_proba"):
        return "classification"
    counts = any("Count" in kind.__name__ for kind in type(estimator).__mro__)
    return "counts" if counts else "regression"


def _checked(prefix: str, estimator, X, y, task: str) -> tuple[Table, np.ndarray, list[str]]:
    """Inputs with the encoding's columns, targets as an array, and the targets' names."""
    columns = tuple(estimator.encoding_.columns)
    x_name, y_name = (f"X of {prefix}", f"y of {prefix}") if prefix else ("X", "y")
    if hasattr(X, "columns") and hasattr(X, "iloc"):
        lacking = [c.name for c in columns if c.name not in set(map(str, X.columns))]
        if lacking:
            raise ValueError(f"{x_name} lacks the column(s) {', '.join(map(repr, lacking[:5]))} that were fitted")
    else:
        X = np.asarray(X)
        if X.ndim != 2 or X.shape[1] != len(columns):
            raise ValueError(f"{x_name} must have shape (n, {len(columns)}), one column for each fitted; got {X.shape}")
    targets = np.asarray(y)
    if targets.ndim not in (1, 2) or len(targets) != len(X) or not len(targets) or not targets[:1].size:
        raise ValueError(f"{y_name} must have one target for each of {len(X)} row(s) of {x_name}, got {targets.shape}")
    names = [str(name) for name in getattr(y, "columns", [getattr(y, "name", None) or "the target"])]
    if targets.ndim == 2 and len(names) != targets.shape[1]:
        names = [f"output {k + 1}" for k in range(targets.shape[1])]
    if task == "classification":
        return Table(X, columns), targets.reshape(len(targets)), names[:1]
    try:
        targets = targets.astype(float)
    except (TypeError, ValueError):
        raise ValueError(f"{y_name} must hold numbers, got {targets.dtype}") from None
    if bad := np.flatnonzero(~np.isfinite(targets).reshape(len(targets), -1).all(axis=1)).tolist():
        raise ValueError(f"{y_name} has NaN or infinite values in row(s) {bad[:5]}; remove these rows")
    return Table(X, columns), targets, [clean(name) for name in names]


def _heldout(estimator, given, row_numbers, task, training, training_numbers, names, notes) -> Heldout | None:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise ValueError(f"heldout must be None or a pair (X, y), got {type(given).__name__}")
    X, y = given
    table, targets, found = _checked("heldout", estimator, X, y, task)
    if len(found) != len(names):
        raise ValueError(f"y of heldout has {len(found)} column(s) where {len(names)} were fitted")
    if row_numbers is not None:
        row_numbers = np.asarray(row_numbers)
        if row_numbers.shape != (len(targets),) or row_numbers.dtype.kind not in "iu":
            raise ValueError(f"heldout_rows must be {len(targets)} whole numbers, one for each held-out row")
    order = _by_relevance(estimator, table)
    rows = numeric.Rows(table, targets, row_numbers, order)
    if task != "classification":
        return numeric.score(estimator, rows, training, names, task == "counts", notes)
    numbers = classes.numbers_of(estimator.classes_, targets)
    if np.any(new := numbers < 0):
        labels = ", ".join(sorted({str(label) for label in targets[new]})[:5])
        notes.append(f"{int(new.sum())} held-out row(s) were left out: no training row has their class ({labels}).")
        if np.all(new):
            return None
        kept = None if row_numbers is None else row_numbers[~new]
        rows = numeric.Rows(Table(table.X[~new], table.columns), targets[~new], kept, order)
        numbers = numbers[~new]
    return classes.score(estimator, rows, numbers, training_numbers)


def _by_relevance(estimator, table: Table) -> list[int]:
    """Columns as they come where all can be shown, else the most relevant first."""
    places = list(range(len(table.columns)))
    given = getattr(estimator, "relevance_", None)
    if len(places) <= numeric.MOST_COLUMNS or not given:
        return places
    return sorted(places, key=lambda i: -float(given.get(table.columns[i].name, 0.0)))


def _subject(estimator, source: str, target: str, num_rows: int, num_heldout: int) -> Subject:
    columns = tuple(
        Column(clean(c.name), c.kind, len(c.levels) if c.kind == "category" else None)
        for c in estimator.encoding_.columns
    )
    settings = tuple(Named(name, shortened(clean(repr(v)), 120)) for name, v in sorted(estimator.get_params().items()))
    return Subject(
        estimator=type(estimator).__name__,
        source=clean(str(source)),
        target=clean(target),
        num_rows=num_rows,
        num_heldout=num_heldout,
        columns=columns,
        encoding=tuple(clean(sentence) for sentence in estimator.encoding_.describe()),
        training=clean(str(estimator.training_)),
        num_inducing=int(estimator.n_inducing_),
        parameters=clean(repr(estimator.model_)),
        settings=settings,
    )


def _training(estimator) -> Training:
    found, first_step = _last_partition(dict(estimator.trace_), estimator.n_iter_)
    epochs = "steps_per_second" in found
    if "noise_variance" in found:
        # Training standardises targets; the reader has theirs.
        unit = float(np.ravel(getattr(estimator, "target_scale_", 1.0))[0])
        found["noise"] = np.sqrt(np.maximum(np.asarray(found.pop("noise_variance"), float), 0)) * unit
    if not estimator.model_.bound.is_bound:
        found["energy"] = found.pop("objective")
    first = [name for name in ("objective", "energy", "noise", "v", "validation") if name in found]
    others = [name for name in _likelihood_parameters(estimator.model_) if name in found and name not in first]
    shown = [name for name in [*first, *others] if np.isfinite(np.asarray(found[name], float)).sum() > 1]
    return Training(
        objective=float(estimator.objective_),
        converged=bool(estimator.converged_),
        message=clean(str(estimator.message_)),
        seconds=float(estimator.seconds_),
        num_steps=int(estimator.n_iter_),
        step="epoch" if epochs else "iteration",
        traces=tuple(_trace(name, found[name], first_step) for name in shown[:4]),
    )


def _last_partition(trace: dict[str, Any], num_steps: int) -> tuple[dict[str, Any], int]:
    """The trace of training on the last partition of the rows (objectives on others do not compare), and its first
    step: the trace of some methods begins before it."""
    partition = np.asarray(trace.pop("partition", np.zeros(len(trace["objective"]))))
    here = partition == partition[-1]
    first = max(0, num_steps + 1 - int(np.sum(here)))
    return {name: np.asarray(values)[here] for name, values in trace.items()}, first


def _likelihood_parameters(model) -> list[str]:
    """What the trace calls the numbers that a likelihood is trained with; the rest of it is for engineers."""
    likelihood = getattr(model, "likelihood", None)
    return [] if likelihood is None else [name.split(".")[-1] for name in named_parameters(likelihood)]


def _trace(name: str, values, first_step: int) -> Trace:
    values = np.asarray(values, float).reshape(-1)
    steps = np.arange(first_step, len(values) + first_step)[np.isfinite(values)]
    values = values[np.isfinite(values)]
    kept = np.unique(np.linspace(0, max(len(values) - 1, 0), min(len(values), _MOST_STEPS)).round().astype(int))
    return Trace(clean(name), tuple(map(float, steps[kept])), tuple(values[kept].tolist()))


def _evidence(estimator, num_rows: int) -> Evidence:
    bracket = estimator.evidence_bracket_
    path = tuple(
        PathStep(
            int(step["n_inducing"]), float(step["bound"]), _optional(step.get("upper")), _optional(step.get("seconds"))
        )
        for step in (getattr(estimator, "inducing_path_", None) or ())
        if np.isfinite(step["bound"])
    )
    stopped = clean(str(getattr(estimator, "inducing_message_", "")))
    if bracket is None or not np.isfinite([bracket.lower, bracket.upper]).all():
        return Evidence(num_rows, None, None, path, stopped)
    return Evidence(int(bracket.num_data), float(bracket.lower), float(bracket.upper), path, stopped)


def _scales(estimator, num_rows: int) -> Scales | None:
    if estimator.scales_ is None:
        return None
    v = np.asarray(estimator.scales_, float).reshape(-1)
    per_row = len(v) == num_rows
    v = v[np.isfinite(v)]
    if not len(v):
        return None
    counts, edges = np.histogram(np.clip(v, 0.0, 1.0), bins=25, range=(0.0, 1.0))
    return Scales(
        per_row=per_row,
        values=() if per_row else tuple(v.tolist()),
        histogram=Histogram(tuple(edges.tolist()), tuple(counts.tolist())) if per_row else None,
        median=float(np.median(v)),
        share_below_half=float(np.mean(v < 0.5)),
        share_above_nine_tenths=float(np.mean(v > 0.9)),
    )


def _noise_sd(estimator) -> float | None:
    variance = getattr(estimator, "noise_variance_", None)
    return None if variance is None else float(np.sqrt(np.ravel(np.asarray(variance, float))[0]))


def _optional(value: Any) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)


def _version() -> str:
    import tightgp

    return tightgp.__version__
