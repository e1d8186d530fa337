"""What is said of held-out rows, as plain values: the part of the report's content that scores fill."""

from dataclasses import dataclass
from itertools import pairwise


def require(condition, words: str) -> None:
    """Refuse values that no page could show."""
    if not condition:
        raise ValueError(words)


def same_length(**named) -> None:
    """Refuse sequences of different lengths."""
    lengths = ", ".join(f"{name} ({len(values)})" for name, values in named.items())
    require(len({len(values) for values in named.values()}) == 1, f"{lengths} must have the same length")


@dataclass(frozen=True)
class Histogram:
    """Counts between edges, of which there is one more."""

    edges: tuple[float, ...]
    counts: tuple[int, ...]

    def __post_init__(self):
        enough = len(self.counts) and len(self.edges) == len(self.counts) + 1
        require(enough, f"edges ({len(self.edges)}) must be one more than counts ({len(self.counts)})")
        require(all(a < b for a, b in pairwise(self.edges)), "edges must increase")


@dataclass(frozen=True)
class Score:
    """A score of the model and of a prediction that ignores the inputs, where that has one."""

    name: str
    model: float
    baseline: float | None = None


@dataclass(frozen=True)
class Coverage:
    """Of intervals at ``level``: the share of rows inside, and between which shares chance alone keeps it."""

    level: float
    observed: float
    low: float
    high: float


@dataclass(frozen=True)
class Calibration:
    """Nominal and observed coverage of central intervals, and the histogram of P(Y ≤ y)."""

    levels: tuple[float, ...]
    observed: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    pit: Histogram

    def __post_init__(self):
        same_length(levels=self.levels, observed=self.observed, low=self.low, high=self.high)


@dataclass(frozen=True)
class Points:
    """Predicted and observed values of some rows."""

    predicted: tuple[float, ...]
    observed: tuple[float, ...]
    total: int

    def __post_init__(self):
        same_length(predicted=self.predicted, observed=self.observed)
        require(self.predicted, "there must be at least one point")


@dataclass(frozen=True)
class OutputScores:
    """One of several outputs, in short."""

    name: str
    rmse: float
    baseline: float
    nlpd: float
    coverage: float


@dataclass(frozen=True)
class ReliabilityBin:
    """Rows of about the same stated probability: its mean, how often it came true, and what chance allows."""

    stated: float
    observed: float
    low: float
    high: float
    count: int


@dataclass(frozen=True)
class Classes:
    """What is said of classes: the table of counts (seen, predicted) and the stated probabilities' reliability.

    ``reliability_of`` is the class whose probability is binned, or None for that of whichever class was predicted.
    ``stated`` is the mean probability of the predicted class, ``observed`` how often it came true, and
    ``stated_error`` the standard deviation of that share if the stated probabilities were true.
    """

    labels: tuple[str, ...]
    confusion: tuple[tuple[int, ...], ...]
    most_frequent: str
    reliability_of: str | None
    reliability: tuple[ReliabilityBin, ...]
    stated: float
    observed: float
    stated_error: float

    def __post_init__(self):
        same_length(labels=self.labels, confusion=self.confusion)
        for row in self.confusion:
            same_length(labels=self.labels, **{"a row of confusion": row})


@dataclass(frozen=True)
class WorstRow:
    """A held-out row that the model found surprising; ``deviations`` is its residual in predicted deviations."""

    row: int
    observed: str
    predicted: str
    low: float | None
    high: float | None
    probability: float | None
    deviations: float | None
    log_density: float
    inputs: tuple[str, ...]


@dataclass(frozen=True)
class Worst:
    """The most surprising rows, the most surprising first, with the columns that are shown."""

    level: float | None
    in_file: bool
    columns: tuple[str, ...]
    rows: tuple[WorstRow, ...]

    def __post_init__(self):
        for row in self.rows:
            same_length(columns=self.columns, inputs=row.inputs)
            known = row.probability is not None if self.level is None else None not in (row.low, row.high)
            require(known, "rows need a probability, or with a level the ends of an interval")


@dataclass(frozen=True)
class Heldout:
    """How the model did on rows that it was not fitted to."""

    num_rows: int
    scores: tuple[Score, ...]
    coverage: tuple[Coverage, ...]
    calibration: Calibration | None
    points: Points | None
    classes: Classes | None
    worst: Worst
    outputs: tuple[OutputScores, ...] = ()

    def __post_init__(self):
        require(self.num_rows >= 1, "num_rows must be at least 1")
        require(bool(self.coverage) != (self.classes is not None), "coverage goes with numbers, classes with classes")

    def score(self, name: str) -> Score | None:
        """The score of this name."""
        return next((score for score in self.scores if score.name == name), None)
