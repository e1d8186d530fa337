"""Scores of targets that are numbers, on held-out rows."""

from typing import Any

import numpy as np
from scipy.stats import norm
from sklearn.metrics import mean_absolute_error, root_mean_squared_error

from tightgp.app import scores
from tightgp.app.report.content import Coverage, Heldout, OutputScores, Score
from tightgp.app.report.slices import first_output
from tightgp.app.report.table import HeldoutRows, cell_text
from tightgp.estimators.distributions import GaussianPrediction, Prediction

LEVELS = (0.5, 0.8, 0.9, 0.95)
_MOST_POINTS = 1500
#: Levels of quantiles for the CRPS, and the rows it is computed on, where each quantile takes a search.
_NUM_QUANTILES, _QUANTILE_ROWS = 40, 4000
_MOST_BINS = 20


def score(
    prediction: Prediction, rows: HeldoutRows, training: np.ndarray, names: list[str], counts: bool, notes: list[str]
) -> Heldout:
    """Scores of held-out numbers. The baseline knows only the ``training`` targets; ``notes`` collects remarks."""
    y, mean, baseline = (first_output(values) for values in (rows.targets, prediction.mean, training))
    sd = first_output(prediction.sd) if isinstance(prediction, GaussianPrediction) else None
    constant = np.full(len(y), baseline.mean())
    densities = prediction.log_density(rows.targets)
    intervals = [prediction.interval(level) for level in LEVELS]
    inside = [scores.coverage(y, first_output(low), first_output(high)) for low, high in intervals]
    low, high = map(first_output, intervals[-1])
    pit = _pit(prediction, rows.targets, counts)
    sample = np.random.default_rng(0).permutation(len(y))[:_MOST_POINTS]

    def describe(row: int) -> dict[str, Any]:
        deviations = None if sd is None else float((y[row] - mean[row]) / sd[row])
        ends = {"low": float(low[row]), "high": float(high[row])}
        return {"observed": cell_text(y[row]), "predicted": cell_text(mean[row]), "deviations": deviations, **ends}

    return Heldout(
        num_rows=len(y),
        scores=(
            Score("RMSE", root_mean_squared_error(y, mean), root_mean_squared_error(y, constant)),
            Score("MAE", mean_absolute_error(y, mean), mean_absolute_error(y, constant)),
            *_nlpd(first_output(densities), y, None if counts else baseline, notes),
            _crps(prediction, y, mean, sd, baseline, notes),
        ),
        worst=rows.worst(first_output(densities), LEVELS[-1], describe),
        coverage=_coverage(LEVELS, inside, len(y)),
        calibration=_coverage(scores.LEVELS.tolist(), scores.coverage_curve(pit).tolist(), len(y)),
        pit=tuple(np.histogram(pit, bins=min(_MOST_BINS, max(4, len(y) // 10)), range=(0.0, 1.0))[0].tolist()),
        points=tuple((float(mean[i]), float(y[i])) for i in sample),
        outputs=_outputs(rows.targets, training, names, prediction.mean, densities, intervals[-1]),
    )


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
    return tuple(
        Coverage(level, share, *scores.binomial_range(count, level))
        for level, share in zip(levels, observed, strict=True)
    )


def _outputs(targets, training, names, means, densities, interval) -> tuple[OutputScores, ...]:
    if targets.ndim == 1:
        return ()
    baseline = np.broadcast_to(training.mean(axis=0), targets.shape)
    errors = [root_mean_squared_error(targets, p, multioutput="raw_values") for p in (means, baseline)]
    nlpd = -np.mean(densities, axis=0)
    inside = np.mean((interval[0] <= targets) & (targets <= interval[1]), axis=0)
    return tuple(
        OutputScores(name, float(rmse), float(base), float(n) if np.isfinite(n) else None, float(share))
        for name, rmse, base, n, share in zip(names, *errors, nlpd, inside, strict=True)
    )
