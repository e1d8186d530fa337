"""Everything that the report's page shows, as plain values that JSON can hold. What is unknown is None."""

from dataclasses import dataclass, field

from tightgp.report import codec
from tightgp.report.scored import Heldout, Histogram, require, same_length

#: Raised whenever a field changes its meaning, comes or goes.
VERSION = 1
TASKS = ("regression", "classification", "counts")


@dataclass(frozen=True)
class Named:
    """A name and what goes with it, in words."""

    name: str
    value: str


@dataclass(frozen=True)
class Column:
    """An input column: its name, "number", "category" or "time", and how many levels a category has."""

    name: str
    kind: str
    num_levels: int | None = None


@dataclass(frozen=True)
class Subject:
    """What was fitted, to what, and how."""

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
    settings: tuple[Named, ...] = ()


@dataclass(frozen=True)
class Trace:
    """One number followed through training: ``values`` at ``steps``."""

    name: str
    steps: tuple[float, ...]
    values: tuple[float, ...]

    def __post_init__(self):
        same_length(steps=self.steps, values=self.values)
        require(self.values, "a trace needs at least one value")


@dataclass(frozen=True)
class Training:
    """How training went. ``step`` is what one step was: "iteration" or "epoch"."""

    objective: float
    converged: bool
    message: str
    seconds: float
    num_steps: int
    step: str
    traces: tuple[Trace, ...]


@dataclass(frozen=True)
class PathStep:
    """One stage of the search for the number of inducing points."""

    num_inducing: int
    bound: float
    upper: float | None
    seconds: float | None


@dataclass(frozen=True)
class Evidence:
    """The bracket of the log evidence, where there is one, and the path to M with why it ended there."""

    num_data: int
    lower: float | None
    upper: float | None
    path: tuple[PathStep, ...] = ()
    stopped: str = ""

    def __post_init__(self):
        require(self.num_data >= 1, "num_data must be at least 1")
        require((self.lower is None) == (self.upper is None), "lower and upper must both be known, or neither")
        require(all(step.num_inducing >= 1 for step in self.path), "num_inducing must be at least 1")


@dataclass(frozen=True)
class Scales:
    """The v_i of the training rows, or the v of each latent function."""

    per_row: bool
    values: tuple[float, ...]
    histogram: Histogram | None
    median: float
    share_below_half: float
    share_above_nine_tenths: float

    def __post_init__(self):
        known = self.histogram is not None if self.per_row else bool(self.values)
        require(known, "scales of rows need a histogram, those of functions values")


@dataclass(frozen=True)
class Relevance:
    """An input column's 1/lengthscale, in units where each input has unit scale."""

    column: str
    value: float


@dataclass(frozen=True)
class Curve:
    """One line of a slice: predictions, and a band where there is one."""

    label: str
    mean: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


@dataclass(frozen=True)
class Slice:
    """Predictions along one column. ``at`` are numbers, or seconds since 1970 for times; categories have ``labels``.

    ``rug`` says where the training rows are: quantiles of the column, or each level's share.
    """

    column: str
    kind: str
    at: tuple[float, ...]
    labels: tuple[str, ...]
    curves: tuple[Curve, ...]
    level: float | None
    rug: tuple[float, ...]

    def __post_init__(self):
        places = self.labels if self.kind == "category" else self.at
        require(places and self.curves, "a slice needs places and curves")
        for curve in self.curves:
            same_length(places=places, mean=curve.mean)
            if curve.low or curve.high:
                same_length(places=places, low=curve.low, high=curve.high)


@dataclass(frozen=True)
class Content:
    """Everything that the page shows.

    >>> Content.from_json(content.to_json()) == content
    True
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
    relevance: tuple[Relevance, ...]
    slices: tuple[Slice, ...]
    fixed: tuple[Named, ...]
    notes: tuple[str, ...]
    version: int = field(default=VERSION)

    def __post_init__(self):
        require(self.task in TASKS, f"task must be one of {', '.join(map(repr, TASKS))}, got {self.task!r}")
        classes = self.heldout is not None and self.heldout.classes is not None
        fits = self.heldout is None or classes == (self.task == "classification")
        require(fits, "heldout.classes goes with task 'classification'")

    def to_json(self) -> str:
        """As text that `from_json` reads."""
        return codec.dumps(self)

    @staticmethod
    def from_json(text: str, what: str = "the report's content") -> "Content":
        """What `to_json` wrote. Anything else is a ValueError that says where it is wrong; ``what`` names the file."""
        value = codec.parse(text, what)
        version = value.get("version") if isinstance(value, dict) else None
        if version != VERSION:
            raise ValueError(
                f"{what} has version {version!r} where {VERSION} is expected: another version of tightgp wrote it"
            )
        return codec.build(Content, value, what)
