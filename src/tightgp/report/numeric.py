"""Scores of targets that are numbers, on rows that the model was not fitted to."""

from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from tightgp import scores
from tightgp.report.scored import (
    Calibration,
    Coverage,
    Heldout,
    Histogram,
    OutputScores,
    Points,
    Score,
    Worst,
    WorstRow,
)
from tightgp.report.slices import LEVEL, output
from tightgp.report.svg import clean
from tightgp.report.table import Table, worded

LEVELS = (0.5, 0.8, 0.9, 0.95)
MOST_WORST, MOST_COLUMNS, MOST_POINTS = 10, 12, 1500
#: Where quantiles have no closed form, each takes a search: for the score by quantiles so many rows are enough.
_QUANTILES, _QUANTILE_ROWS = 40, 4000
_PIT_BINS = 20


@dataclass(frozen=True, eq=False)
class Rows:
    """Held-out rows: inputs, targets (n,) or (n, P), numbers in the file where known, columns in order of interest."""

    table: Table
    targets: np.ndarray
    numbers: np.ndarray | None
    order: list[int]

    @property
    def y(self) -> np.ndarray:
        """The first target."""
        return output(self.targets)

    def worst(self, log_density: np.ndarray) -> np.ndarray:
        """The rows that were least expected."""
        return np.argsort(log_density, kind="stable")[:MOST_WORST]

    def number(self, row: int) -> int:
        """Its number in the file, or its place here counted from 1."""
        return int(row) + 1 if self.numbers is None else int(self.numbers[row])

    def inputs(self, row: int) -> tuple[str, ...]:
        """Its cells in words."""
        return tuple(self.table.cell(i, int(row)) for i in self.order[:MOST_COLUMNS])

    def shown(self) -> tuple[str, ...]:
        """The columns of `inputs`."""
        return tuple(clean(self.table.columns[i].name) for i in self.order[:MOST_COLUMNS])


def score(estimator, rows: Rows, training: np.ndarray, names: list[str], counts: bool, notes: list[str]) -> Heldout:
    """All that is said of held-out numbers; ``training`` holds the training targets, for comparison."""
    X, y = rows.table.X, rows.y
    means, densities = estimator.predict(X), estimator.log_density(X, rows.targets)
    intervals = {level: estimator.predict_interval(X, level=level) for level in LEVELS}
    first = {level: (output(low), output(high)) for level, (low, high) in intervals.items()}
    mean, log_density, before = output(means), output(densities), output(training)
    sd = None if counts else gaussian_sd(mean, first)
    found = [
        _error("RMSE", scores.rmse, y, mean, before),
        _error("MAE", scores.mean_absolute_error, y, mean, before),
        *_nlpd(log_density, y, None if counts else before, notes),
        _crps(estimator, X, y, mean, sd, before, notes),
    ]
    return Heldout(
        num_rows=len(y),
        scores=tuple(found),
        coverage=tuple(_coverage(level, y, *first[level]) for level in LEVELS),
        calibration=_calibration(_pit(estimator, X, rows.targets, counts)),
        points=_points(mean, y),
        classes=None,
        worst=_worst(rows, mean, first[LEVEL], sd, log_density),
        outputs=_outputs(rows.targets, training, names, means, densities, intervals[LEVEL]),
    )


def gaussian_sd(mean: np.ndarray, intervals: dict[float, tuple[np.ndarray, np.ndarray]]) -> np.ndarray | None:
    """The standard deviations of predictive distributions that are Gaussian, as their intervals show; else None."""
    widths = {level: norm.ppf((1 + level) / 2) for level in intervals}
    widest = max(widths)
    sd = (intervals[widest][1] - intervals[widest][0]) / (2 * widths[widest])
    for level, (low, high) in intervals.items():
        ends = (mean - widths[level] * sd, mean + widths[level] * sd)
        if any(np.any(np.abs(a - b) > 1e-5 * sd) for a, b in zip(ends, (low, high), strict=True)):
            return None
    return sd


def _error(name: str, measure, y: np.ndarray, mean: np.ndarray, training: np.ndarray) -> Score:
    return Score(name, measure(y, mean), measure(y, np.full(len(y), training.mean())))


def _nlpd(log_density: np.ndarray, y: np.ndarray, training: np.ndarray | None, notes: list[str]) -> list[Score]:
    if gone := int(np.sum(~np.isfinite(log_density))):
        notes.append(f"The predictive density is zero at {gone} held-out target(s): NLPD is infinite and not shown.")
        return []
    plain = None
    if training is not None and training.std() > 0:
        plain = float(-np.mean(norm.logpdf(y, training.mean(), training.std())))
    return [Score("NLPD", float(-np.mean(log_density)), plain)]


def _crps(estimator, X, y, mean, sd, training, notes: list[str]) -> Score:
    """In closed form for Gaussian predictions, else by quantiles, and against the training targets' distribution."""
    if sd is not None:
        plain = scores.crps_gaussian(y, np.full(len(y), training.mean()), np.full(len(y), training.std()))
        return Score("CRPS", float(np.mean(scores.crps_gaussian(y, mean, sd))), float(np.mean(plain)))
    chosen = np.sort(np.random.default_rng(0).permutation(len(y))[:_QUANTILE_ROWS])
    inputs = X[chosen] if isinstance(X, np.ndarray) else X.iloc[chosen]
    levels = scores.midpoints(_QUANTILES)
    quantiles = np.asarray(estimator.predict_quantile(inputs, levels.tolist()), float)
    quantiles = quantiles[:, 0] if quantiles.ndim == 3 else quantiles
    if len(chosen) < len(y):
        notes.append(f"CRPS is that of {len(chosen)} of the held-out rows, drawn at random.")
    usual = np.broadcast_to(np.quantile(training, levels), quantiles.shape)
    model, plain = (np.mean(scores.crps_from_quantiles(y[chosen], q)) for q in (quantiles, usual))
    return Score("CRPS", float(model), float(plain))


def _pit(estimator, X, targets: np.ndarray, counts: bool) -> np.ndarray:
    upto = output(estimator.predict_cdf(X, targets))
    if not counts:
        return np.clip(upto, 0.0, 1.0)
    below = np.zeros(len(upto))
    some = output(targets) > 0
    below[some] = output(estimator.predict_cdf(X, np.maximum(targets - 1, 0)))[some]
    return scores.randomised_pit(np.minimum(below, upto), upto)


def _coverage(level: float, y: np.ndarray, low: np.ndarray, high: np.ndarray) -> Coverage:
    return Coverage(level, scores.coverage(y, low, high), *scores.binomial_range(len(y), level))


def _calibration(pit: np.ndarray) -> Calibration:
    levels, observed = scores.calibration_curve(pit)
    low, high = zip(*(scores.binomial_range(len(pit), float(level)) for level in levels), strict=True)
    counts, edges = np.histogram(pit, bins=min(_PIT_BINS, max(4, len(pit) // 10)), range=(0.0, 1.0))
    pits = Histogram(tuple(edges.tolist()), tuple(counts.tolist()))
    return Calibration(tuple(levels.tolist()), tuple(observed.tolist()), low, high, pits)


def _points(mean: np.ndarray, y: np.ndarray) -> Points:
    chosen = np.random.default_rng(0).permutation(len(y))[:MOST_POINTS]
    return Points(tuple(mean[chosen].tolist()), tuple(y[chosen].tolist()), len(y))


def _worst(rows: Rows, mean, interval, sd, log_density) -> Worst:
    found = []
    for row in rows.worst(log_density):
        y = float(rows.y[row])
        found.append(
            WorstRow(
                row=rows.number(row),
                observed=worded(y),
                predicted=worded(float(mean[row])),
                low=float(interval[0][row]),
                high=float(interval[1][row]),
                probability=None,
                deviations=None if sd is None or sd[row] <= 0 else (y - float(mean[row])) / float(sd[row]),
                log_density=max(float(log_density[row]), -1e300),
                inputs=rows.inputs(row),
            )
        )
    return Worst(LEVEL, rows.numbers is not None, rows.shown(), tuple(found))


def _outputs(targets, training, names, means, densities, interval) -> tuple[OutputScores, ...]:
    if targets.ndim == 1:
        return ()
    low, high = interval
    return tuple(
        OutputScores(
            name=name,
            rmse=scores.rmse(targets[:, k], output(means, k)),
            baseline=scores.rmse(targets[:, k], np.full(len(targets), training[:, k].mean())),
            nlpd=float(-np.mean(output(densities, k))),
            coverage=scores.coverage(targets[:, k], output(low, k), output(high, k)),
        )
        for k, name in enumerate(names)
    )
