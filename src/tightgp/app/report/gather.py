"""Collect everything that the report shows, from a fitted estimator and its data."""

import warnings
from datetime import datetime

import numpy as np

import tightgp
from tightgp.app.report.certified import distance_sentence
from tightgp.app.report.content import Column, Content, Evidence, PathStep, Scales, Subject, Trace, Training
from tightgp.app.report.heldout import score
from tightgp.app.report.numbers import shortened
from tightgp.app.report.slices import vary_inputs
from tightgp.app.report.surrogate import make_panel
from tightgp.app.report.table import Table, read_targets
from tightgp.app.report.words import sentence
from tightgp.parameters import named_parameters
from tightgp.training.result import StopReason

_MOST_STEPS = 400


def gather(
    estimator, X, y, *, heldout=None, source: str = "", target: str = "", heldout_rows=None, notes=()
) -> Content:
    """Collect everything that the report of a fitted estimator shows.

    Args:
        estimator: a fitted `SparseGPRegressor`, `SparseGPClassifier` or `SparseGPCountRegressor`.
        X: the training inputs, a frame or an array, as they were given to ``fit``.
        y: the training targets. Of several columns the report shows the first, with one line of scores for each.
        heldout: None, or ``(X, y)`` of rows that the estimator was not fitted to.
        source: where the data come from, such as a file's name.
        target: the name of the target; that of a pandas object unless given.
        heldout_rows: the numbers of the held-out rows in the file.
        notes: further sentences for the reader.

    Returns:
        The content for `render` and `write`.

    >>> from tightgp.app.report import Content, gather
    >>> model = tgp.SparseGPRegressor(n_inducing=8, max_iter=5).fit(X[:40], y[:40])
    >>> content = gather(model, X[:40], y[:40], heldout=(X[40:], y[40:]))
    >>> [score.name for score in content.heldout.scores]
    ['R²', 'RMSE', 'MAE', 'NLPD', 'CRPS']
    >>> Content.from_json(content.to_json()) == content
    True
    """
    if not hasattr(estimator, "model_"):
        raise ValueError(f"estimator must be fitted: call {type(estimator).__name__}.fit(X, y) before the report")
    notes = [str(note) for note in notes]
    table = Table.of("X", X, estimator.encoding_.columns)
    targets, names = read_targets("y", y, table, estimator)
    names[0] = target or names[0]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        scores = None if heldout is None else score(estimator, heldout, heldout_rows, table, targets, names, notes)
        slices, fixed = vary_inputs(estimator, table, targets)
        panel = None
        if scores is not None:
            panel = make_panel(
                estimator, table, Table.of("X of heldout", heldout[0], estimator.encoding_.columns), notes
            )
    if (noise := getattr(estimator, "noise_", None)) is not None:
        notes.insert(0, noise.describe())
    notes += [sentence(str(one.message)) for one in caught]
    if len(names) > 1:
        notes.append(f"There are {len(names)} outputs. Unless stated otherwise, the report shows {names[0]!r}.")
    return Content(
        task=estimator.task,
        made=datetime.now().astimezone().strftime("%Y-%m-%d %H:%M"),
        tightgp=tightgp.__version__,
        subject=_subject(estimator, source, names[0], len(targets), 0 if scores is None else scores.num_rows),
        training=_training(estimator),
        evidence=_evidence(estimator, len(targets)),
        scales=_scales(estimator, len(targets)),
        noise_sd=_noise_sd(estimator),
        heldout=scores,
        relevance=tuple(sorted((estimator.relevance_ or {}).items(), key=lambda one: -one[1])),
        slices=slices,
        fixed=fixed,
        notes=tuple(dict.fromkeys(notes)),
        panel=panel,
        noise=None if noise is None else noise.name,
    )


def _noise_sd(estimator) -> float | None:
    """The noise in the target's units; None where there is none, it is no one number, or of a transformed target."""
    transform = getattr(estimator, "target_transform_", None)
    if getattr(estimator, "noise_", None) is not None:
        return None
    if estimator.noise_variance_ is None or not (transform is None or transform.is_identity):
        return None
    return float(np.sqrt(np.ravel(estimator.noise_variance_)[0]))


def _subject(estimator, source: str, target: str, num_rows: int, num_heldout: int) -> Subject:
    columns = []
    for column in estimator.encoding_.columns:
        num_levels = len(column.levels) if column.kind == "category" else None
        columns.append(Column(column.name, column.cell_kind, num_levels))
    return Subject(
        estimator=type(estimator).__name__,
        source=str(source),
        target=target,
        num_rows=num_rows,
        num_heldout=num_heldout,
        columns=tuple(columns),
        encoding=tuple(estimator.encoding_.describe()),
        training=estimator.training_,
        num_inducing=int(estimator.n_inducing_),
        parameters=repr(estimator.model_),
        seed=seed if isinstance(seed := estimator.get_params().get("random_state"), int) else None,
        settings=tuple((name, shortened(repr(value), 120)) for name, value in sorted(estimator.get_params().items())),
    )


def _training(estimator) -> Training:
    # Objectives of different partitions of the rows do not compare: show the training on the last one.
    partition = np.asarray(estimator.trace_.get("partition", np.zeros(len(estimator.trace_["objective"]))))
    trace = {name: np.asarray(values)[partition == partition[-1]] for name, values in estimator.trace_.items()}
    num_steps = int(estimator.n_iter_)
    first_step = max(0, num_steps + 1 - len(trace["objective"]))  # some methods record the start as well
    if "noise_variance" in trace and _noise_sd(estimator) is not None:
        # Training standardises targets; the reader has theirs.
        trace["noise"] = np.sqrt(np.maximum(trace["noise_variance"], 0)) * np.ravel(estimator.target_scale_)[0]
    if not estimator.is_bound:
        trace["energy"] = trace.pop("objective")
    likelihood = getattr(estimator.model_, "likelihood", None)
    parameters = [] if likelihood is None else [name.split(".")[-1] for name in named_parameters(likelihood)]
    step = "epoch" if "steps_per_second" in trace else "iteration"
    at_limit = estimator.stop_reason_ == StopReason.STEP_LIMIT.value
    wanted = dict.fromkeys(["objective", "energy", "noise", "v", "validation", *parameters])
    traces = [_trace(name, first_step, trace[name]) for name in wanted if name in trace]
    return Training(
        objective=float(estimator.objective_),
        converged=bool(estimator.converged_),
        message=f"stopped at the {step} limit" if at_limit else estimator.message_,
        seconds=float(estimator.seconds_),
        num_steps=num_steps,
        step=step,
        traces=tuple([one for one in traces if one is not None][:4]),
        by_time=estimator.stop_reason_ == StopReason.TIME_LIMIT.value,
    )


def _trace(name: str, first_step: int, values: np.ndarray) -> Trace | None:
    """The finite values, thinned where there are many; None if there are fewer than two."""
    values = np.ravel(values).astype(float)
    finite = np.flatnonzero(np.isfinite(values))
    if len(finite) < 2:
        return None
    shown = finite[np.unique(np.linspace(0, len(finite) - 1, min(len(finite), _MOST_STEPS)).round().astype(int))]
    return Trace(name, tuple((first_step + shown).astype(float).tolist()), tuple(values[shown].tolist()))


def _evidence(estimator, num_rows: int) -> Evidence:
    finite = [step for step in estimator.inducing_path_ if np.isfinite(step["bound"])]
    path = tuple(PathStep(s["n_inducing"], float(s["bound"]), _finite(s["upper"]), s["seconds"]) for s in finite)
    bracket = estimator.evidence_bracket_
    more = path, estimator.inducing_message_, estimator.is_bound, distance_sentence(estimator)
    if bracket is None or not np.isfinite(bracket.gap):
        return Evidence(num_rows, None, None, *more)
    return Evidence(bracket.num_data, float(bracket.lower), float(bracket.upper), *more)


def _scales(estimator, num_rows: int) -> Scales | None:
    if estimator.scales_ is None:
        return None
    v = np.ravel(np.asarray(estimator.scales_, float))
    histogram = np.histogram(np.clip(v, 0.0, 1.0), bins=25, range=(0.0, 1.0))[0].tolist()
    return Scales(
        count=len(v),
        low=float(v.min()),
        high=float(v.max()),
        median=float(np.median(v)),
        share_below_half=float(np.mean(v < 0.5)),
        share_above_nine_tenths=float(np.mean(v > 0.9)),
        histogram=tuple(histogram) if len(v) == num_rows else (),
    )


def _finite(value) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)
