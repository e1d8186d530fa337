"""Scores on held-out rows. Baselines know only the training targets; ``notes`` collects what the reader should know."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from scipy.stats import norm
from sklearn import metrics

from tightgp.app import scores
from tightgp.app.report.content import (
    Classes,
    Coverage,
    Heldout,
    LevelShares,
    OutputScores,
    ReliabilityBin,
    Score,
    Worst,
    WorstRow,
)
from tightgp.app.report.importance import permutation_importance
from tightgp.app.report.regions import worst_regions
from tightgp.app.report.rivals import rival_predictions
from tightgp.app.report.slices import by_relevance, first_output
from tightgp.app.report.table import Table, cell_text, read_targets
from tightgp.estimators.distributions import ClassPrediction, GaussianPrediction, Prediction

LEVELS = (0.5, 0.8, 0.9, 0.95)
_MOST_POINTS, _MOST_BINS, _MOST_LABELS = 1500, 20, 12
#: Levels of quantiles for the CRPS, and the rows it is computed on, where each quantile takes a search.
_NUM_QUANTILES, _QUANTILE_ROWS = 40, 4000
#: The table of the worst rows shows at most so many rows and input columns.
_MOST_WORST, _MOST_COLUMNS = 10, 12
#: Regions are looked for along so many columns.
_MOST_REGION_COLUMNS = 30
#: Fewer rows than these are not split in five.
_LEAST_FOR_FIFTHS = 50


def score(
    estimator, heldout, row_numbers, fitted: Table, training: np.ndarray, names: list[str], notes: list[str]
) -> Heldout | None:
    """Scores of the predictions of ``heldout``, a pair (X, y); None if no row is left.

    ``fitted`` are the training inputs, ``training`` the training targets as `read_targets` gives them, and ``names``
    those of the outputs.
    """
    if not isinstance(heldout, tuple | list) or len(heldout) != 2:
        raise ValueError(f"heldout must be None or a pair (X, y), got {type(heldout).__name__}")
    X, y = heldout
    table = Table.of("X of heldout", X, estimator.encoding_.columns)
    targets, found = read_targets("y of heldout", y, table, estimator)
    if len(found) != len(names):
        raise ValueError(f"y of heldout has {len(found)} column(s) where {len(names)} were fitted")
    if row_numbers is not None:
        row_numbers = np.asarray(row_numbers)
        if row_numbers.shape != (len(targets),) or row_numbers.dtype.kind not in "iu":
            raise ValueError(f"heldout_rows must be {len(targets)} whole numbers, one for each held-out row")
    if estimator.task == "classification" and not (known := targets >= 0).all():
        labels = ", ".join(sorted({str(label) for label in np.asarray(y).ravel()[~known]})[:5])
        notes.append(f"{np.sum(~known)} held-out row(s) of classes without training rows ({labels}) are left out.")
        if not known.any():
            return None
        table, targets = table.rows(known), targets[known]
        row_numbers = None if row_numbers is None else row_numbers[known]
    prediction = estimator.predict_distribution(table.as_inputs(table.frame))
    columns = list(range(len(table.columns)))
    columns = columns if len(columns) <= _MOST_COLUMNS else by_relevance(estimator)[:_MOST_COLUMNS]
    worst = partial(_worst, table, row_numbers, columns)
    importance = permutation_importance(estimator, table, targets)
    rivals = rival_predictions(estimator, fitted, training, table)
    if estimator.task == "classification":
        ordered = getattr(estimator, "is_ordinal", False) and len(prediction.classes) > 2
        scored = _score_classes(prediction, targets, training, rivals, worst, ordered)
        given = prediction.log_probability[np.arange(len(targets)), targets]
        losses, inside = -np.maximum(given, np.log(1e-12)), prediction.log_probability.argmax(axis=1) == targets
    else:
        counts = estimator.task == "counts"
        scored = _score_numbers(prediction, targets, training, rivals, names, counts, worst, notes)
        y, low, high = map(first_output, (targets, *prediction.interval(LEVELS[-1])))
        losses, inside = (y - first_output(prediction.mean)) ** 2, (low <= y) & (y <= high)
    regions = worst_regions(table, by_relevance(estimator)[:_MOST_REGION_COLUMNS], losses, inside)
    return replace(scored, importance=importance, regions=regions)


def _worst(
    table: Table, row_numbers, columns: list[int], density: np.ndarray, level: float | None, observed, predicted, **more
) -> Worst:
    """The rows of lowest ``density`` (n,), or log density; ``more`` holds arrays for the other fields of a row."""
    rows = []
    for row in np.argsort(density, kind="stable")[:_MOST_WORST].tolist():
        number = row + 1 if row_numbers is None else int(row_numbers[row])
        inputs = tuple(table.cell(row, i) for i in columns)
        fields = {name: float(values[row]) for name, values in more.items()}
        rows.append(WorstRow(number, cell_text(observed[row]), cell_text(predicted[row]), inputs, **fields))
    return Worst(level, row_numbers is not None, tuple(table.columns[i].name for i in columns), tuple(rows))


def _score_numbers(
    prediction: Prediction,
    targets: np.ndarray,
    training: np.ndarray,
    rivals: dict[str, np.ndarray],
    names: list[str],
    counts: bool,
    worst: Callable[..., Worst],
    notes: list[str],
) -> Heldout:
    y, mean, baseline = (first_output(values) for values in (targets, prediction.mean, training))
    sd = first_output(prediction.sd) if isinstance(prediction, GaussianPrediction) else None
    constant = np.full(len(y), baseline.mean())
    densities = prediction.log_density(targets)
    intervals = [prediction.interval(level) for level in LEVELS]
    inside = [scores.coverage(y, first_output(low), first_output(high)) for low, high in intervals]
    low, high = map(first_output, intervals[-1])
    deviations = {} if sd is None else {"deviations": (y - mean) / sd}
    pit = _pit(prediction, targets, counts)
    points = np.random.default_rng(0).permutation(np.column_stack([mean, y]))[:_MOST_POINTS]
    return Heldout(
        num_rows=len(y),
        scores=(
            *_r_squared(y, mean, constant, rivals),
            _beside("RMSE", partial(metrics.root_mean_squared_error, y), mean, constant, rivals),
            _beside("MAE", partial(metrics.mean_absolute_error, y), mean, constant, rivals),
            *_nlpd(first_output(densities), y, None if counts else baseline, notes),
            _crps(prediction, y, mean, sd, baseline, notes),
        ),
        worst=worst(first_output(densities), LEVELS[-1], y, mean, low=low, high=high, **deviations),
        coverage=_coverage(LEVELS, inside, len(y)),
        by_prediction=_coverage_by_prediction(mean, (low <= y) & (y <= high)),
        calibration=_coverage(scores.LEVELS.tolist(), scores.coverage_curve(pit).tolist(), len(y)),
        pit=tuple(np.histogram(pit, bins=min(_MOST_BINS, max(4, len(y) // 10)), range=(0.0, 1.0))[0].tolist()),
        points=tuple(map(tuple, points.tolist())),
        outputs=_outputs(targets, training, names, prediction.mean, densities, intervals[-1]),
    )


def _beside(name: str, error: Callable, model, baseline, rivals: dict[str, np.ndarray]) -> Score:
    """A score of the model, of the baseline and of the rivals."""
    return Score(name, float(error(model)), float(error(baseline)), **{k: float(error(p)) for k, p in rivals.items()})


def _r_squared(y, mean, constant, rivals) -> list[Score]:
    """The share of the squared error of a constant that predictions take away."""
    worst = np.mean((y - constant) ** 2)
    return [] if worst == 0 else [_beside("R²", lambda p: 1 - np.mean((y - p) ** 2) / worst, mean, constant, rivals)]


def _coverage_by_prediction(mean: np.ndarray, inside: np.ndarray) -> tuple[Coverage, ...]:
    """Coverage of the widest intervals in fifths of the rows, by their predictions."""
    if len(mean) < _LEAST_FOR_FIFTHS:
        return ()
    fifths = np.array_split(inside[np.argsort(mean, kind="stable")], 5)
    return tuple(one for part in fifths for one in _coverage(LEVELS[-1:], [float(np.mean(part))], len(part)))


def _nlpd(log_density: np.ndarray, y: np.ndarray, baseline: np.ndarray | None, notes: list[str]) -> list[Score]:
    if count := int(np.sum(~np.isfinite(log_density))):
        notes.append(f"The predictive density is zero at {count} held-out target(s): NLPD is infinite and not shown.")
        return []
    constant = None
    if baseline is not None and baseline.std() > 0:
        constant = float(-np.mean(norm.logpdf(y, baseline.mean(), baseline.std())))
    return [Score("NLPD", float(-np.mean(log_density)), constant)]


def _crps(prediction: Prediction, y, mean, sd, baseline, notes: list[str]) -> Score:
    """In closed form for Gaussian predictions, else from quantiles and against those of the training targets."""
    if sd is not None:
        constant = scores.crps_gaussian(y, np.full(len(y), baseline.mean()), np.full(len(y), baseline.std()))
        return Score("CRPS", scores.crps_gaussian(y, mean, sd), constant)
    sample = np.sort(np.random.default_rng(0).permutation(len(y))[:_QUANTILE_ROWS])
    if len(sample) < len(y):
        notes.append(f"CRPS is the mean over {len(sample)} of the held-out rows, drawn at random.")
    levels = scores.midpoints(_NUM_QUANTILES)
    quantiles = np.asarray(prediction.take(sample).quantile(levels.tolist()))
    usual = np.broadcast_to(np.quantile(baseline, levels), quantiles.shape)
    return Score("CRPS", *(scores.crps_from_quantiles(y[sample], q) for q in (quantiles, usual)))


def _pit(prediction: Prediction, targets: np.ndarray, counts: bool) -> np.ndarray:
    upto = first_output(prediction.cdf(targets))
    if not counts:
        return np.clip(upto, 0.0, 1.0)
    below = np.where(targets > 0, prediction.cdf(np.maximum(targets - 1, 0)), 0.0)
    return scores.randomised_pit(np.minimum(below, upto), upto)


def _coverage(levels, observed, count: int) -> tuple[Coverage, ...]:
    pairs = zip(levels, observed, strict=True)
    return tuple(Coverage(level, share, *scores.binomial_range(count, level)) for level, share in pairs)


def _outputs(targets, training, names, means, densities, interval) -> tuple[OutputScores, ...]:
    if targets.ndim == 1:
        return ()
    baseline = np.broadcast_to(training.mean(axis=0), targets.shape)
    errors = [metrics.root_mean_squared_error(targets, p, multioutput="raw_values") for p in (means, baseline)]
    nlpd = -np.mean(densities, axis=0)
    inside = np.mean((interval[0] <= targets) & (targets <= interval[1]), axis=0)
    return tuple(
        OutputScores(name, float(rmse), float(base), float(n) if np.isfinite(n) else None, float(share))
        for name, rmse, base, n, share in zip(names, *errors, nlpd, inside, strict=True)
    )


def _score_classes(
    prediction: ClassPrediction,
    observed: np.ndarray,
    training: np.ndarray,
    rivals: dict[str, np.ndarray],
    worst: Callable[..., Worst],
    ordered: bool,
) -> Heldout:
    """Scores of classes; ``observed`` and ``training`` are positions of classes, whose order means something or not."""
    p = prediction.probability / prediction.probability.sum(axis=1, keepdims=True)
    names = np.array([cell_text(label) for label in prediction.classes], object)
    every = range(len(names))
    frequencies = np.bincount(training, minlength=len(names)) / len(training)
    baseline = np.broadcast_to(frequencies, p.shape)
    predicted, most_frequent = p.argmax(axis=1), frequencies.argmax()
    right, stated, given = observed == predicted, p.max(axis=1), p[np.arange(len(p)), observed]
    labels, place = _shown_labels(observed, predicted, names.tolist())
    confusion = metrics.confusion_matrix(place[observed], place[predicted], labels=range(len(labels)))
    two = len(names) == 2
    return Heldout(
        num_rows=len(observed),
        scores=(
            _beside("accuracy", lambda q: np.mean(observed == q.argmax(axis=1)), p, baseline, rivals),
            *_level_error(observed, p, baseline, rivals, ordered),
            _beside("log loss", partial(_log_loss, observed), p, baseline, rivals),
            _beside("Brier score", lambda q: metrics.brier_score_loss(observed, q, labels=every), p, baseline, rivals),
        ),
        worst=worst(given, None, names[observed], names[predicted], probability=given),
        classes=Classes(
            labels=tuple(labels),
            confusion=tuple(map(tuple, confusion.tolist())),
            most_frequent=names[most_frequent],
            reliability_of=names[1] if two else None,
            reliability=_reliability(p[:, 1], observed == 1) if two else _reliability(stated, right),
            predicted=float(np.mean(stated)),
            observed=float(np.mean(right)),
            standard_error=float(np.sqrt(np.sum(stated * (1 - stated))) / len(stated)),
            levels=tuple(_level_shares(names[k], p[:, k], observed == k) for k in every) if ordered else (),
        ),
    )


def _level_error(observed, p, baseline, rivals, ordered: bool) -> list[Score]:
    """How many levels the most probable one is from the observed one on average, if levels have an order."""
    if not ordered:
        return []
    return [_beside("level error", lambda q: np.mean(np.abs(q.argmax(axis=1) - observed)), p, baseline, rivals)]


def _level_shares(label: str, stated: np.ndarray, happened: np.ndarray) -> LevelShares:
    likeliest = np.argsort(-stated, kind="stable")[: max(1, len(stated) // 5)]
    return LevelShares(label, _bin(stated, happened), _bin(stated[likeliest], happened[likeliest]))


def _bin(stated: np.ndarray, happened: np.ndarray) -> ReliabilityBin:
    """The rows of one bin of the reliability diagram."""
    mean = min(float(np.mean(stated)), 1.0)
    return ReliabilityBin(mean, float(np.mean(happened)), *scores.binomial_range(len(stated), mean), len(stated))


def _log_loss(observed: np.ndarray, probability: np.ndarray) -> float:
    """The mean negative log probability of the observed classes; a probability of zero counts as a very small one."""
    return metrics.log_loss(observed, np.maximum(probability, 1e-15), labels=range(probability.shape[1]))


def _reliability(stated: np.ndarray, happened: np.ndarray) -> tuple[ReliabilityBin, ...]:
    """The mean of ``stated`` probabilities and the observed frequency, in bins of a tenth that hold any row."""
    place = np.minimum((10 * np.asarray(stated)).astype(int), 9)
    return tuple(_bin(stated[place == k], happened[place == k]) for k in np.unique(place))


def _shown_labels(observed: np.ndarray, predicted: np.ndarray, names: list[str]) -> tuple[list[str], np.ndarray]:
    """The labels of the confusion matrix, and the place of each class in it: rare classes are shown as one."""
    if len(names) <= _MOST_LABELS:
        return names, np.arange(len(names))
    sizes = np.bincount(np.concatenate([observed, predicted]), minlength=len(names))
    shown = np.sort(np.argsort(-sizes, kind="stable")[: _MOST_LABELS - 1])
    place = np.full(len(names), len(shown))
    place[shown] = np.arange(len(shown))
    return [*(names[k] for k in shown), f"{len(names) - len(shown)} others"], place
