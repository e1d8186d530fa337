"""The "what if" panel: a surrogate of a model's predictions, small enough for a page that a browser can evaluate.

Each output of the surrogate is ``w₀ + wᵀφ + Σₖ aₖ ρ(‖φ − cₖ‖)``: linear in the scaled features φ of the inputs, and a
sum over a few hundred centres c. `Panel.predict` and the page's script evaluate the same numbers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from tightgp.estimators.dense import CORRELATIONS

#: Logarithms of outputs beyond this are cut off.
_LARGEST_LOG = 80.0


@dataclass(frozen=True)
class PanelInput:
    """One input that the reader can change.

    A number (of seconds since 1970 for a time, of days for a duration) at x has the features ``base + slope ⊙ r(x)``,
    where r(x) holds x, the sine and cosine of x in each of the ``periods``, and zeros. A category has ``labels``, with
    the features ``levels`` of each. ``start`` is a typical value, or the position of a typical label.
    """

    name: str
    kind: str
    start: float
    low: float = 0.0
    high: float = 0.0
    whole: bool = False
    periods: tuple[float, ...] = ()
    base: tuple[float, ...] = ()
    slope: tuple[float, ...] = ()
    labels: tuple[str, ...] = ()
    levels: tuple[tuple[float, ...], ...] = ()

    def features(self, values: np.ndarray) -> np.ndarray:
        """Scaled features (n, p) at values, or positions of labels, (n,)."""
        if self.labels:
            return np.array(self.levels)[np.asarray(values, int)]
        values = np.asarray(values, float)
        raw = np.zeros((len(values), len(self.base)))
        raw[:, 0] = values
        for i, period in enumerate(self.periods):
            phase = 2 * np.pi * np.mod(values, period) / period
            raw[:, 1 + 2 * i], raw[:, 2 + 2 * i] = np.sin(phase), np.cos(phase)
        return np.array(self.base) + np.array(self.slope) * raw


@dataclass(frozen=True)
class Agreement:
    """How far the surrogate is from the model on rows that it was not made from, as root mean squares.

    ``centre`` is the difference of means (or of probabilities), ``ends`` that of the ends of intervals, ``width`` half
    the length of an interval, and ``tolerance`` what ``centre`` may be at most for the panel to be shown.
    """

    num_rows: int
    centre: float
    ends: float
    width: float
    tolerance: float


@dataclass(frozen=True)
class Panel:
    """The surrogate, and what the page needs to show it.

    Attributes:
        inputs: what the reader can change; other inputs stay at typical values.
        link: "identity" or "log" of the mean, whose intervals at ``level`` have the logs of their two half-widths as
            further outputs; or "softmax" of an output for each of the ``labels`` of classes.
        kernel: the name of the correlation ρ.
        centres: (K, D).
        weights: (1 + D + K, Q): the constant, the linear part, the centres.
        support: features (S, D) of rows like the training rows, of which none is further than ``radius`` from them all.
        extent: where most predictions lie, for the axis of the chart.
        positive, whole: whether targets cannot be negative; whether they are whole numbers.
        num_fixed: how many inputs stay at typical values.
    """

    inputs: tuple[PanelInput, ...]
    link: str
    kernel: str
    centres: tuple[tuple[float, ...], ...]
    weights: tuple[tuple[float, ...], ...]
    support: tuple[tuple[float, ...], ...]
    radius: float
    extent: tuple[float, float]
    labels: tuple[str, ...] = ()
    level: float | None = None
    positive: bool = False
    whole: bool = False
    num_fixed: int = 0
    agreement: Agreement | None = None

    def features(self, values: Sequence[np.ndarray]) -> np.ndarray:
        """Scaled features (n, D), given the values (n,) of each input."""
        return np.hstack([one.features(v) for one, v in zip(self.inputs, values, strict=True)])

    def predict(self, features: np.ndarray) -> np.ndarray:
        """Mean, lower and upper end (n, 3), or the probability of each label (n, C), at scaled features (n, D)."""
        r2 = cdist(features, np.array(self.centres), "sqeuclidean")
        basis = design(features, CORRELATIONS[self.kernel](r2, 1.0).value)
        return from_outputs(basis @ np.array(self.weights), self.link, self.positive)

    def is_known(self, features: np.ndarray) -> np.ndarray:
        """Whether there are training rows near scaled features (n, D)."""
        return cdist(features, np.array(self.support)).min(axis=1) <= self.radius


def design(features: np.ndarray, correlations: np.ndarray) -> np.ndarray:
    """What the weights multiply: one, the features (n, D), and the correlations (n, K) with the centres."""
    return np.hstack([np.ones((len(features), 1)), features, correlations])


def from_outputs(outputs: np.ndarray, link: str, positive: bool) -> np.ndarray:
    """What is shown, from the outputs (n, Q) of the surrogate."""
    if link == "softmax":
        p = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)
    centre, above, below = outputs.T
    mean = np.exp(np.minimum(centre, _LARGEST_LOG)) if link == "log" else centre
    low, high = (mean + sign * np.exp(np.minimum(log, _LARGEST_LOG)) for sign, log in ((-1, below), (1, above)))
    return np.column_stack([mean, np.maximum(low, 0.0) if positive else low, high])


def to_outputs(shown: np.ndarray, link: str) -> np.ndarray:
    """Outputs whose `from_outputs` are means with lower and upper ends, or probabilities."""
    if link == "softmax":
        return np.log(np.maximum(shown, 1e-4))
    mean, low, high = shown.T
    narrowest = max(1e-3 * float(np.median(high - low)), 1e-300)
    above, below = (np.log(np.maximum(width, narrowest)) for width in (high - mean, mean - low))
    return np.column_stack([np.log(mean) if link == "log" else mean, above, below])
