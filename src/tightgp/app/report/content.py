"""Everything that the report shows, as plain values that JSON can hold. Unknown values are None."""

import json
from dataclasses import dataclass, is_dataclass, replace
from typing import Any

from tightgp.app.report.panel import Agreement, Panel, PanelInput
from tightgp.io import serialise

#: Raised whenever a field is added, removed or changes its meaning.
VERSION = 7
TASKS = ("regression", "classification", "counts")
#: Larger numbers are read as infinite: their differences must stay finite.
_LARGEST = 1e300


@dataclass(frozen=True)
class Column:
    """An input column. Its kind is "number", "category", "time" or "duration"; a category has ``num_levels``."""

    name: str
    kind: str
    num_levels: int | None = None


@dataclass(frozen=True)
class Subject:
    """What was fitted, to which data, and how."""

    estimator: str
    source: str
    target: str
    num_rows: int
    num_heldout: int
    columns: tuple[Column, ...]
    encoding: tuple[str, ...]
    training: str
    num_inducing: int
    parameters: str
    settings: tuple[tuple[str, str], ...] = ()
    seed: int | None = None


@dataclass(frozen=True)
class Trace:
    """A number recorded during training: ``values`` at ``steps``."""

    name: str
    steps: tuple[float, ...]
    values: tuple[float, ...]

    def __post_init__(self):
        _require(len(self.steps) == len(self.values) > 0, "a trace needs a value for each step, and at least one")


@dataclass(frozen=True)
class Training:
    """How training went. ``step`` is the unit of ``num_steps``: "iteration" or "epoch".

    ``by_time`` says whether the time limit ended it.
    """

    objective: float
    converged: bool
    message: str
    seconds: float
    num_steps: int
    step: str
    traces: tuple[Trace, ...]
    by_time: bool = False


@dataclass(frozen=True)
class PathStep:
    """One number of inducing points that was tried, with its bounds on the log evidence."""

    num_inducing: int
    bound: float
    upper: float | None
    seconds: float | None

    def __post_init__(self):
        _require(self.num_inducing >= 1, "num_inducing must be at least 1")


@dataclass(frozen=True)
class Evidence:
    """The evidence bracket if there is one, the numbers of inducing points tried, and why the search stopped.

    ``is_bound`` says whether what was maximised is a lower bound on the log evidence; ``exact`` is a sentence on how
    far the exact Gaussian process is, where that was quick to find.
    """

    num_data: int
    lower: float | None
    upper: float | None
    path: tuple[PathStep, ...] = ()
    stopped: str = ""
    is_bound: bool = True
    exact: str = ""

    def __post_init__(self):
        _require(self.num_data >= 1, "num_data must be at least 1")
        _require((self.lower is None) == (self.upper is None), "lower and upper must both be known, or neither")


@dataclass(frozen=True)
class Scales:
    """Summary of the v of each training row, or of each latent function.

    ``histogram`` counts the rows in equal bins of [0, 1]; it is empty if the v belong to latent functions.
    """

    count: int
    low: float
    high: float
    median: float
    share_below_half: float
    share_above_nine_tenths: float
    histogram: tuple[int, ...] = ()


@dataclass(frozen=True)
class Curve:
    """Predicted means along a slice, and the ends of intervals if there are any."""

    label: str
    mean: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


@dataclass(frozen=True)
class Slice:
    """Predictions along one input column, the others held fixed.

    ``at`` holds the values of the column: numbers, or seconds since 1970 for times. Categories have ``labels`` instead.
    ``rug`` holds quantiles of the column over the training rows, and ``level`` the probability of the intervals.
    ``known`` says for each point whether training rows are like it; empty if all are.
    """

    column: str
    kind: str
    curves: tuple[Curve, ...]
    level: float | None
    at: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()
    rug: tuple[float, ...] = ()
    known: tuple[bool, ...] = ()

    def __post_init__(self):
        n = len(self.labels if self.kind == "category" else self.at)
        lengths = {(len(one.mean), len(one.low), len(one.high)) for one in self.curves}
        fits = n and lengths and lengths <= {(n, n, n), (n, 0, 0)} and len(self.known) in (0, n)
        _require(fits, "a slice needs curves with a value for each of its points")


@dataclass(frozen=True)
class Score:
    """A score of the model, of the baseline if that has one, and of two models of the same features."""

    name: str
    model: float
    baseline: float | None = None
    linear: float | None = None
    boosting: float | None = None


@dataclass(frozen=True)
class Coverage:
    """The share of rows inside their intervals at ``level``, and the range of it that chance alone explains."""

    level: float
    observed: float
    low: float
    high: float


@dataclass(frozen=True)
class OutputScores:
    """Scores of one of several outputs. ``nlpd`` is None where it is infinite."""

    name: str
    rmse: float
    baseline: float
    nlpd: float | None
    coverage: float


@dataclass(frozen=True)
class ReliabilityBin:
    """Rows of similar predicted probability: its mean, the observed frequency, and the range chance explains."""

    predicted: float
    observed: float
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class LevelShares:
    """The probability of an ordered level and its frequency: in every row, and in the fifth where it is likeliest."""

    label: str
    every: ReliabilityBin
    likeliest: ReliabilityBin


@dataclass(frozen=True)
class Classes:
    """Confusion matrix (observed, predicted) and reliability of the predicted probabilities.

    Ordered levels are also looked at one by one, from the lowest to the highest; ``levels`` is empty for other classes.
    ``reliability_of`` is the class whose probability is binned; None stands for the predicted class of each row.
    ``predicted`` is the mean probability of the predicted class, ``observed`` the share of rows where it was right, and
    ``standard_error`` the standard deviation of that share if the probabilities were right.
    """

    labels: tuple[str, ...]
    confusion: tuple[tuple[int, ...], ...]
    most_frequent: str
    reliability_of: str | None
    reliability: tuple[ReliabilityBin, ...]
    predicted: float
    observed: float
    standard_error: float
    levels: tuple[LevelShares, ...] = ()

    def __post_init__(self):
        sizes = {len(self.confusion), *map(len, self.confusion)}
        _require(sizes == {len(self.labels)}, "confusion needs a row and a column for each label")


@dataclass(frozen=True)
class WorstRow:
    """A held-out row with a low predictive density.

    Numbers have the ``low`` and ``high`` end of their interval, and if the prediction is Gaussian the ``deviations``:
    the error in predicted standard deviations. Classes have the ``probability`` of the observed class.
    """

    row: int
    observed: str
    predicted: str
    inputs: tuple[str, ...]
    low: float | None = None
    high: float | None = None
    deviations: float | None = None
    probability: float | None = None


@dataclass(frozen=True)
class Worst:
    """The rows of lowest predictive density, lowest first, with the input columns shown.

    ``level`` is the probability of the intervals, None for classes. ``in_file`` says whether rows have the numbers
    that they have in the file.
    """

    level: float | None
    in_file: bool
    columns: tuple[str, ...]
    rows: tuple[WorstRow, ...]


@dataclass(frozen=True)
class Region:
    """Rows of one level of a column, or of a part of its range, that are predicted worse than others.

    ``ratio`` is their mean squared error, or log loss, over that of all rows, and ``inside`` the share of them inside
    their widest intervals, or predicted correctly.
    """

    column: str
    part: str
    num_rows: int
    ratio: float
    inside: float


@dataclass(frozen=True)
class Heldout:
    """Scores on rows that the model was not fitted to.

    ``by_prediction`` is the coverage of the widest intervals in fifths of the rows, from the lowest predictions to the
    highest, and ``importance`` says how much larger the error is if a column is shuffled, the largest first.
    ``regions`` are parts of the inputs' ranges where errors are largest.
    ``calibration`` is the coverage of intervals at many levels, ``pit`` the number of rows with P(Y ≤ observed) in
    equal bins of [0, 1], and ``points`` are (predicted, observed) pairs of some rows.
    """

    num_rows: int
    scores: tuple[Score, ...]
    worst: Worst
    coverage: tuple[Coverage, ...] = ()
    by_prediction: tuple[Coverage, ...] = ()
    importance: tuple[tuple[str, float], ...] = ()
    regions: tuple[Region, ...] = ()
    calibration: tuple[Coverage, ...] = ()
    pit: tuple[int, ...] = ()
    points: tuple[tuple[float, float], ...] = ()
    outputs: tuple[OutputScores, ...] = ()
    classes: Classes | None = None

    def __post_init__(self):
        _require(self.num_rows >= 1, "num_rows must be at least 1")
        _require(bool(self.coverage) != (self.classes is not None), "either coverage or classes must be given")

    def score(self, name: str) -> Score | None:
        """The score of this name."""
        return next((score for score in self.scores if score.name == name), None)


@dataclass(frozen=True)
class Content:
    """Everything that the page shows. ``fixed`` holds the values of the inputs that a slice does not vary.

    ``noise`` is the name of noise that is not one Gaussian, as `SparseGPRegressor` has it, or None.
    """

    task: str
    made: str
    tightgp: str
    subject: Subject
    training: Training
    evidence: Evidence
    scales: Scales | None
    noise_sd: float | None
    heldout: Heldout | None
    relevance: tuple[tuple[str, float], ...]
    slices: tuple[Slice, ...]
    fixed: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    panel: Panel | None = None
    noise: str | None = None

    def __post_init__(self):
        _require(self.task in TASKS, f"task must be one of {', '.join(map(repr, TASKS))}, got {self.task!r}")
        if self.heldout is not None:
            classes = self.heldout.classes is not None
            _require(classes == (self.task == "classification"), "heldout.classes goes with task 'classification'")

    def to_json(self) -> str:
        """The content as JSON text for `from_json`."""
        return json.dumps({"version": VERSION, "content": serialise.encode(self, {})}, indent=1)

    @staticmethod
    def from_json(text: str, source: str = "the report's content") -> "Content":
        """The content that `to_json` wrote. Any other text is a ValueError that names ``source`` and the mistake."""
        try:
            stored = json.loads(text)
            if not isinstance(stored, dict) or stored.get("version") != VERSION:
                raise ValueError(f'there is no "version": {VERSION}, so this version of tightgp did not write it')
            content = serialise.decode(stored.get("content"), {}, _PARTS)
            if not isinstance(content, Content):
                raise ValueError(f"content must be a Content, got {type(content).__name__}")
            _check(content)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{source} cannot be read ({error}); make it again with `tightgp fit`") from None
        return content


_PARTS = [part for part in list(globals().values()) if isinstance(part, type) and is_dataclass(part)]
_PARTS += [Agreement, PanelInput]


def _check(value: Any) -> None:
    """Refuse infinite numbers, and run the checks of all dataclasses, which decoding does not run."""
    if isinstance(value, float | int) and not abs(value) < _LARGEST:
        raise ValueError("numbers must be finite")
    if isinstance(value, tuple):
        for item in value:
            _check(item)
    elif is_dataclass(value) and not isinstance(value, type):
        _check(tuple(vars(value).values()))
        replace(value)


def _require(condition, message: str) -> None:
    if not condition:
        raise ValueError(message)
