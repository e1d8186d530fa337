"""Make the "what if" panel of a fitted estimator: a surrogate of its predictions, checked on other rows."""

import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.spatial.distance import cdist

from tightgp.app.report.numbers import number
from tightgp.app.report.panel import Agreement, Panel, PanelInput, design, from_outputs, to_outputs
from tightgp.app.report.slices import LEVEL, as_cells, by_relevance, first_output
from tightgp.app.report.support import Support, clusters, inverse_lengthscales
from tightgp.app.report.table import UNITS, Table, cell_text
from tightgp.estimators.dense import CORRELATIONS
from tightgp.estimators.encoding import PERIODS

_MOST_INPUTS, _MOST_LABELS, _MOST_CLASSES = 12, 60, 8
#: Rows that the surrogate is made from: training rows, those with one input changed, and with all inputs mixed.
_ROWS, _CHANGED, _MIXED = 1500, 2000, 500
#: Of each kind, the held-out rows that it is checked on.
_CHECKED = 400
#: Fewer of them do not tell how close the surrogate is.
_LEAST_CHECKED = 20
_CENTRES = 300
#: What is tried: correlations, how much longer than the model's their lengthscales are, and ridges.
_KERNELS, _STRETCHES, _RIDGES = ("matern32", "matern52"), (1.0, 2.5, 6.0), (1e-8, 1e-6, 1e-4, 1e-2)
#: The panel may be off by this share of half an interval (of 95 % intervals, 94 % are left then), or of the spread of
#: the predictions; by this probability.
_OF_WIDTH, _OF_SPREAD, _PROBABILITY = 0.2, 0.02, 0.03
#: Squares of predictions from here on are not finite.
_LARGEST = 1e150
_NOT_FINITE = "There is no “what if” panel: some predictions are not finite, or too large to compute with."
#: Decimal digits of the numbers that the page holds.
_DIGITS = 7


def make_panel(estimator: Any, fitted: Table, heldout: Table, notes: list[str]) -> Panel | None:
    """The panel of a fitted estimator, or None and a note where no surrogate is close enough to it.

    ``fitted`` are training rows and ``heldout`` other rows, on which the surrogate is compared with the model, as they
    are and with one input changed.
    """
    columns = [i for i in by_relevance(estimator) if fitted.numbers(i).nunique() > 1][:_MOST_INPUTS]
    classes = estimator.task == "classification"
    if not columns or (classes and len(estimator.classes_) > _MOST_CLASSES):
        return None
    rng = np.random.default_rng(0)
    source = _Rows(estimator, fitted, columns)
    made = source.sample(fitted, _ROWS, rng)
    frames = [made, source.changed(made, _CHANGED, rng), source.mixed(made, _MIXED, rng)]
    check = source.sample(heldout, _CHECKED, rng)
    frames += [check, source.changed(check, _CHECKED, rng)]
    ends = np.cumsum([len(frame) for frame in frames])
    everything = pd.concat(frames, ignore_index=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of missing cells and new levels, which the scores warn of
        shown = _shown(estimator, fitted.as_inputs(everything))
        features = source.features(everything)
    if not np.max(np.abs(shown)) < _LARGEST:
        notes.append(_NOT_FINITE)
        return None
    first = slice(0, ends[2])
    whole, spread = estimator.task == "counts", shown[first, 0]
    positive = shown.shape[1] == 3 and bool(shown[:, 1].min() >= 0)
    link = "softmax" if classes else _link(spread, positive)
    support = Support.of(features[: ends[0]])
    panel = Panel(
        inputs=tuple(source.input_of(i) for i in columns),
        link=link,
        kernel="",
        centres=(),
        weights=(),
        support=_plain(support.points),
        radius=support.radius,
        extent=_extent(shown[: ends[1]]),
        labels=tuple(map(cell_text, estimator.classes_)) if link == "softmax" else (),
        level=None if link == "softmax" else LEVEL,
        positive=positive,
        whole=whole,
        num_fixed=len(fitted.columns) - len(columns),
    )
    # Where there are no training rows, neither the model nor the surrogate knows anything.
    known = support.holds(features)
    used, checked = known & (np.arange(len(known)) < ends[2]), known & (np.arange(len(known)) >= ends[2])
    if checked.sum() < _LEAST_CHECKED:
        return None
    panel = _fit(panel, features[used], to_outputs(shown[used], link), shown[used], rng)
    if not panel.kernel:
        notes.append(_NOT_FINITE)
        return None
    # Compared before the features are stretched, which the panel's own are.
    stretch = support.radius / panel.radius
    agreement = _agreement(panel.predict(features[checked] / stretch), shown[checked], link, whole)
    close = agreement.centre <= agreement.tolerance and agreement.ends <= 2 * agreement.tolerance
    if not close:
        off = f"off by {number(agreement.centre)} on held-out rows, where {number(agreement.tolerance)} is allowed"
        notes.append(f"There is no “what if” panel: a model small enough for a page would be {off}.")
        return None
    return replace(panel, agreement=agreement)


class _Rows:
    """Rows for the surrogate: some columns vary, the others have typical values."""

    def __init__(self, estimator: Any, table: Table, columns: list[int]):
        self._estimator, self._table, self._columns = estimator, table, columns
        self._typical = table.typical_row()
        owners = np.asarray(estimator.encoding_.feature_columns)
        self._positions = [np.flatnonzero(owners == i) for i in columns]
        self._inverse = inverse_lengthscales(estimator)

    def sample(self, table: Table, most: int, rng: np.random.Generator) -> pd.DataFrame:
        """Some rows of a table, with typical values in the columns that do not vary."""
        rows = np.sort(rng.permutation(len(table.frame))[:most])
        frame = table.frame.iloc[rows].reset_index(drop=True)
        for i in set(range(len(table.columns))) - set(self._columns):
            frame.isetitem(i, self._repeated(i, len(rows)))
        return frame

    def changed(self, frame: pd.DataFrame, count: int, rng: np.random.Generator) -> pd.DataFrame:
        """Rows with one input changed, each input in as many rows, and a few that are typical in all other inputs."""
        each = -(-count // len(self._columns))
        parts = []
        for i in self._columns:
            part = frame.iloc[rng.integers(len(frame), size=each)].reset_index(drop=True)
            for k in self._columns:
                if k != i:
                    cells = part.iloc[:, k].copy()
                    cells.iloc[: each // 4] = self._typical.iloc[0, k]
                    part.isetitem(k, cells)
            part.isetitem(i, self._drawn(i, each, rng))
            parts.append(part)
        return pd.concat(parts, ignore_index=True)

    def mixed(self, frame: pd.DataFrame, count: int, rng: np.random.Generator) -> pd.DataFrame:
        """Rows whose inputs come from different rows."""
        found = frame.iloc[rng.integers(len(frame), size=count)].reset_index(drop=True)
        for i in self._columns:
            found.isetitem(i, self._drawn(i, count, rng))
        return found

    def features(self, frame: pd.DataFrame) -> np.ndarray:
        """Features (n, D) of the columns that vary, in units of the model's lengthscales."""
        scaled = self._estimator.encoding_.transform(self._table.as_inputs(frame)) * self._inverse
        return scaled[:, np.concatenate(self._positions)]

    def input_of(self, i: int) -> PanelInput:
        """What the page needs to show column ``i``, and to compute its features."""
        column = self._table.columns[i]
        place = self._positions[self._columns.index(i)]
        start = self._table.typical(i)
        if column.kind == "category":
            rows = self._rows_of_levels(i)
            labels = tuple(self._table.cell(row, i) for row in rows)
            frame = self._typical.iloc[np.zeros(len(rows), int)].reset_index(drop=True)
            frame.isetitem(i, self._table.frame.iloc[rows, i].reset_index(drop=True))
            levels = self._estimator.encoding_.transform(self._table.as_inputs(frame))[:, place] * self._inverse[place]
            return PanelInput(
                column.name,
                "category",
                float(labels.index(self._table.cell(start, i))),
                labels=labels,
                levels=_plain(levels),
            )
        values, kind = self._table.numbers(i), column.cell_kind
        low, high = _range(values)
        whole = kind == "number" and bool((values.dropna() % 1 == 0).all())
        if whole:
            low, high = np.floor(low), np.ceil(high)
        slope = self._inverse[place] / np.array(column.scale)
        base = -slope * np.array(column.shift)
        if kind == "time":
            slope[0] /= 86_400.0
            base[0] -= slope[0] * (column.origin or 0) / UNITS["time"]
        return PanelInput(
            name=column.name + (" (days)" if kind == "duration" else ""),
            kind="time" if kind == "time" else "number",
            start=float(values[start]),
            low=float(low),
            high=float(high),
            whole=whole,
            periods=tuple(PERIODS[name] / UNITS["time"] for name in column.periods),
            base=_plain(base[None])[0] if kind != "time" else tuple(base.tolist()),
            slope=_plain(slope[None])[0] if kind != "time" else tuple(slope.tolist()),
        )

    def _rows_of_levels(self, i: int) -> list[int]:
        """A row with each of the most frequent levels, in the order of ordered levels or of the alphabet."""
        values = self._table.numbers(i)
        common = values.value_counts().index[:_MOST_LABELS]
        rows = [int((values == value).argmax()) for value in sorted(common)]
        return rows if self._table.columns[i].ordered else sorted(rows, key=lambda row: self._table.cell(row, i))

    def _drawn(self, i: int, count: int, rng: np.random.Generator) -> pd.Series:
        """Cells of a column: of random rows, and for half of the rows of numbers from the whole range."""
        column, kind = self._table.frame.iloc[:, i], self._table.columns[i].cell_kind
        if kind == "category":
            rows = self._rows_of_levels(i)
            return column.iloc[rng.choice(rows, size=count)].reset_index(drop=True)
        cells = column.iloc[rng.integers(len(column), size=count)].reset_index(drop=True)
        grid = as_cells(rng.uniform(*_range(self._table.numbers(i)), size=count), kind, column.dtype)
        if kind == "number":
            cells = pd.Series(cells.to_numpy(np.float64, na_value=np.nan))
        elif cells.dtype.kind == "M" and not isinstance(cells.dtype, pd.DatetimeTZDtype):
            grid = grid.astype(cells.dtype)
        elif cells.dtype != grid.dtype:
            return cells
        return grid.where(np.arange(count) % 2 == 0, cells)

    def _repeated(self, i: int, count: int) -> pd.Series:
        return self._typical.iloc[np.zeros(count, int), i].reset_index(drop=True)


def _range(values: pd.Series) -> tuple[float, float]:
    """Nearly the whole range of a column."""
    low, high = values.quantile([0.005, 0.995])
    return (float(low), float(high)) if low < high else (float(values.min()), float(values.max()))


def _shown(estimator: Any, X: Any) -> np.ndarray:
    """Mean with lower and upper end (n, 3), or the probability of each class (n, C)."""
    prediction = estimator.predict_distribution(X)
    if estimator.task == "classification":
        return prediction.probability
    return np.column_stack([first_output(values) for values in (prediction.mean, *prediction.interval(LEVEL))])


def _link(means: np.ndarray, positive: bool) -> str:
    """Means that are positive and of different sizes are better told by their logarithms."""
    low, high = np.quantile(means, [0.05, 0.95])
    return "log" if positive and means.min() > 0 and high > 4 * low else "identity"


def _extent(shown: np.ndarray) -> tuple[float, float]:
    if shown.shape[1] != 3:
        return 0.0, 1.0
    return float(np.quantile(shown[:, 1], 0.05)), float(np.quantile(shown[:, 2], 0.95))


def _fit(panel: Panel, features: np.ndarray, outputs: np.ndarray, shown: np.ndarray, rng) -> Panel:
    """The panel with the kernel, lengthscales and ridge whose predictions of left-out rows are closest.

    Where none is a finite number, it is the panel as it was.
    """
    left_out = rng.permutation(len(features)) < len(features) // 5
    shift, scale = outputs.mean(axis=0), np.maximum(outputs.std(axis=0), 1e-12)
    targets, best, found = (outputs - shift) / scale, np.inf, panel
    centres = clusters(features[~left_out], _CENTRES)
    distances = cdist(features, centres, "sqeuclidean")
    for kernel in _KERNELS:
        for stretch in _STRETCHES:
            basis = design(features / stretch, CORRELATIONS[kernel](distances / stretch**2, 1.0).value)
            values, vectors = np.linalg.eigh(basis[~left_out].T @ basis[~left_out])
            rotated = vectors.T @ (basis[~left_out].T @ targets[~left_out])
            for ridge in _RIDGES:
                weights = vectors @ (rotated / (np.maximum(values, 0) + ridge * len(basis))[:, None])
                told = from_outputs(basis[left_out] @ weights * scale + shift, panel.link, panel.positive)
                error = float(np.mean((told - shown[left_out]) ** 2))
                if error < best:
                    best = error
                    weights = weights * scale
                    weights[0] += shift
                    found = replace(
                        _stretched(panel, stretch),
                        kernel=kernel,
                        centres=_plain(centres / stretch),
                        weights=_plain(weights),
                    )
    return found


def _stretched(panel: Panel, stretch: float) -> Panel:
    """The panel with features divided by a number."""

    def divided(one: PanelInput) -> PanelInput:
        base, slope = (tuple(value / stretch for value in values) for values in (one.base, one.slope))
        return replace(one, base=base, slope=slope, levels=tuple(tuple(v / stretch for v in row) for row in one.levels))

    support = tuple(tuple(v / stretch for v in row) for row in panel.support)
    return replace(panel, inputs=tuple(map(divided, panel.inputs)), support=support, radius=panel.radius / stretch)


def _agreement(told: np.ndarray, shown: np.ndarray, link: str, whole: bool) -> Agreement:
    difference = np.sqrt(np.mean((told - shown) ** 2, axis=0))
    if link == "softmax":
        return Agreement(len(shown), float(difference.max()), 0.0, 0.0, _PROBABILITY)
    width = float(np.sqrt(np.mean(((shown[:, 2] - shown[:, 1]) / 2) ** 2)))
    tolerance = max(_OF_WIDTH * width, _OF_SPREAD * float(np.std(shown[:, 0])), 0.25 * whole)
    return Agreement(len(shown), float(difference[0]), float(difference[1:].max()), width, tolerance)


def _plain(values: np.ndarray) -> tuple[tuple[float, ...], ...]:
    """Rows of numbers of a few digits."""
    return tuple(tuple(float(f"{v:.{_DIGITS}g}") for v in row) for row in values.tolist())
