"""Monotone transforms of targets, so that skewed targets have the Gaussian noise that training assumes (maths 13)."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from tightgp import checks, distributed
from tightgp.data.scaling import mean_and_scale
from tightgp.estimators import processes
from tightgp.estimators.profile import ProfiledGP

#: What ``target_transform`` may be.
NAMES = ("auto", "none", "log", "sqrt", "yeo-johnson", "sinh-arcsinh")
#: "auto" leaves the targets alone unless a transform gains this many nats of evidence in all, and this many a row.
LEAST_GAIN, LEAST_GAIN_PER_ROW = 4.0, 0.02
#: The most rows to choose by, and of many.
_ROWS, _ROWS_OF_MANY, _MANY = 256, 512, 10_000
#: The powers of Yeo and Johnson that are tried: within these limits every number has an inverse.
_POWERS = np.linspace(0, 2, 33)
#: A value that more than this share of the targets have makes densities of what is learnt meaningless.
_MOST_TIES = 0.05
#: The exponential of anything larger overflows.
_MOST_EXPONENT = 690.0
#: Under "auto", targets of less skewness and excess kurtosis stay as they are: on few rows a transform can gain in
#: tails that inputs explain on all rows (Kin40k, skewness −0.4: RMSE 0.35 under the transform chosen, 0.12 without).
_SKEWNESS, _KURTOSIS = 0.5, 1.0


@dataclass(frozen=True)
class Warp:
    """A monotone transform of one target, ``z = w((y − centre)/scale)``.

    Attributes:
        name: "none", "log", "sqrt", "yeo-johnson", or "sinh-arcsinh".
        power: the power λ of Yeo-Johnson, from 0 to 2.
        tail, skew: δ and ε of ``sinh(δ asinh(t) − ε)``.
        of_log: whether "sinh-arcsinh" is of the logarithm of the target.
        lowest: targets are known to be at least this; -inf if nothing is known.
    """

    name: str = "none"
    centre: float = 0.0
    scale: float = 1.0
    power: float = 1.0
    tail: float = 1.0
    skew: float = 0.0
    of_log: bool = False
    lowest: float = -np.inf

    @property
    def least(self) -> float:
        """The transformed value of the lowest target."""
        return -np.inf if self.lowest == -np.inf or self._is_of_log else float(self.forward(np.array(self.lowest)))

    @property
    def _is_of_log(self) -> bool:
        return self.name == "log" or self.of_log

    def forward(self, y: np.ndarray) -> np.ndarray:
        """Transformed targets. Targets below the lowest one count as that."""
        t = self._standard(y)
        if self.name == "sqrt":
            return np.sqrt(t)
        if self.name == "yeo-johnson":
            grown, shrunk = 1 + np.maximum(t, 0), 1 - np.minimum(t, 0)
            return _power(grown, self.power) - _power(shrunk, 2 - self.power)
        return np.sinh(self.tail * np.arcsinh(t) - self.skew) if self.name == "sinh-arcsinh" else t

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """The logarithm of dz/dy."""
        t = self._standard(y)
        slope = -np.log(self.scale) - (np.log(np.maximum(y, np.finfo(float).tiny)) if self._is_of_log else 0.0)
        if self.name == "sqrt":
            return slope - np.log(2) - 0.5 * np.log(t)
        if self.name == "yeo-johnson":
            return slope + (self.power - 1) * np.where(t < 0, -1.0, 1.0) * np.log1p(np.abs(t))
        if self.name == "sinh-arcsinh":
            angle = self.tail * np.arcsinh(t) - self.skew
            return slope + np.log(self.tail) + np.log(np.cosh(angle)) - 0.5 * np.log1p(t * t)
        return np.broadcast_to(slope, np.shape(y))

    def inverse(self, z: np.ndarray) -> np.ndarray:
        """Targets, given transformed ones."""
        t = np.asarray(z, float)
        if self.name == "sqrt":
            t = np.maximum(t, 0) ** 2
        elif self.name == "yeo-johnson":
            t = _unpower(np.maximum(t, 0), self.power) - _unpower(np.maximum(-t, 0), 2 - self.power)
        elif self.name == "sinh-arcsinh":
            t = np.sinh(np.clip((np.arcsinh(t) + self.skew) / self.tail, -_MOST_EXPONENT, _MOST_EXPONENT))
        y = self.centre + self.scale * t
        return np.exp(np.clip(y, -_MOST_EXPONENT, _MOST_EXPONENT)) if self._is_of_log else np.maximum(y, self.lowest)

    def describe(self) -> str:
        """What is modelled, in a few words, such as "the logarithm of the target"."""
        of = "the logarithm of the target" if self.of_log else "the target"
        return {
            "none": "the target itself",
            "log": "the logarithm of the target",
            "sqrt": "the square root of the target",
            "yeo-johnson": f"the target under the transform of Yeo and Johnson with power {self.power:g}",
            "sinh-arcsinh": f"a learnt monotone transform of {of} (tail {self.tail:.2g}, skew {self.skew:.2g})",
        }[self.name]

    def _standard(self, y: np.ndarray) -> np.ndarray:
        y = np.maximum(y, self.lowest)
        if self._is_of_log:
            y = np.log(np.maximum(y, np.finfo(float).tiny))
        return (y - self.centre) / self.scale


@dataclass(frozen=True)
class TargetTransform:
    """A `Warp` for each column of targets; one for targets without columns.

    >>> from tightgp.estimators.target_transform import TargetTransform, Warp
    >>> transform = TargetTransform((Warp("log"),))
    >>> transform.inverse(transform.forward(np.array([1.0, 100.0])))
    array([  1., 100.])
    """

    warps: tuple[Warp, ...]

    @property
    def is_identity(self) -> bool:
        """Whether all targets stay as they are."""
        return all(warp.name == "none" for warp in self.warps)

    @property
    def least(self) -> np.ndarray:
        """The least transformed value of each column (P,), or the one number (1,)."""
        return np.array([warp.least for warp in self.warps])

    def forward(self, y: np.ndarray) -> np.ndarray:
        """Transformed targets, in the shape (n,) or (n, P) of ``y``."""
        return self._by_column(Warp.forward, y, 1)

    def log_slope(self, y: np.ndarray) -> np.ndarray:
        """The logarithm of the transform's derivative at each target."""
        return self._by_column(Warp.log_slope, y, 1)

    def inverse(self, z: np.ndarray, axis: int = 1) -> np.ndarray:
        """Targets, given transformed ones; several columns lie along ``axis``."""
        return self._by_column(Warp.inverse, z, axis)

    def describe(self) -> str:
        """What is modelled, in one sentence."""
        if len(self.warps) == 1:
            return f"The model is of {self.warps[0].describe()}."
        return "The model is of " + "; ".join(f"{i}: {warp.describe()}" for i, warp in enumerate(self.warps)) + "."

    def _by_column(self, method: Callable, values: np.ndarray, axis: int) -> np.ndarray:
        if np.ndim(values) <= axis or len(self.warps) == 1:
            return method(self.warps[0], values)
        columns = zip(self.warps, np.moveaxis(values, axis, 0), strict=True)
        return np.stack([method(warp, column) for warp, column in columns], axis=axis)


def choose(name: str, X: np.ndarray, y: np.ndarray, seed: int) -> TargetTransform:
    """The transform of this name for targets (n,) or (n, P) at features X, or with "auto" the one of most evidence.

    The evidence is that of an exact GP on some rows, with the Jacobian, its scale at the optimum, and its lengthscale
    and noise the best of a few (maths 13.2). A transform that predicts those rows worse, each from the others, than the
    targets as they are, is not taken. Where several processes fit together, each passes its rows.
    """
    checks.choice("target_transform", name, NAMES)
    all_y = distributed.gather(y)
    columns = all_y.T if all_y.ndim == 2 else [all_y]
    candidates = [_candidates(name, column) for column in columns]
    if all(len(found) == 1 and found[0].name != "sinh-arcsinh" for found in candidates):
        return TargetTransform(tuple(found[0] for found in candidates))
    count = len(all_y)
    size = 2 ** (
        min(count, _ROWS if count < _MANY else _ROWS_OF_MANY).bit_length() - 1
    )  # few sizes, because JAX compiles a program for each
    chosen = np.sort(np.random.default_rng(seed).choice(count, size, replace=False))
    gp, some = ProfiledGP.of(distributed.rows_at(X, chosen)), all_y[chosen]
    some_columns = some.T if some.ndim == 2 else [some]
    warps = [_best(gp, column, found) for column, found in zip(some_columns, candidates, strict=True)]
    return TargetTransform(tuple(_agreed(warp) for warp in warps))


def has_ties(y: np.ndarray) -> bool:
    """Whether so many targets (n,) are equal that no density tells transforms or noise apart."""
    return bool(np.unique(y, return_counts=True)[1].max() > max(1, _MOST_TIES * len(y)))


def _looks_gaussian(y: np.ndarray) -> bool:
    z = (y - y.mean()) / y.std()
    return bool(abs(np.mean(z**3)) < _SKEWNESS and np.mean(z**4) - 3 < _KURTOSIS)


def _candidates(name: str, y: np.ndarray) -> list[Warp]:
    """The transforms to choose from, with what is learnt from all targets; "none" is the first under "auto"."""
    low, positive = float(y.min()), y[y > 0]
    if (name == "log" and low <= 0) or (name == "sqrt" and low < 0):
        needed = "positive targets" if name == "log" else "targets of at least 0"
        raise ValueError(f"target_transform={name!r} needs {needed}, and the least is {low:g}; use 'yeo-johnson'")
    never_negative = low >= 0 and len(positive) > 0
    lowest = 0.0 if never_negative else -np.inf
    middle, spread = float(np.median(y)), _spread(y)
    yeo = Warp("yeo-johnson", middle, spread)
    if never_negative:
        yeo = Warp("yeo-johnson", 0.0, float(np.median(positive)), lowest=0.0)
    learnt = [Warp("sinh-arcsinh", middle, spread, lowest=lowest)]
    if low > 0:
        logs = np.log(y)
        learnt.append(Warp("sinh-arcsinh", float(np.median(logs)), _spread(logs), of_log=True, lowest=0.0))
    zeros = float(positive.min()) / 2 if low == 0 and len(positive) else 0.0
    named = {
        "none": [Warp()],
        "log": [Warp("log", lowest=0.0)],
        "sqrt": [Warp("sqrt", -zeros, lowest=0.0)],
        "yeo-johnson": [replace(yeo, power=float(power)) for power in _POWERS],
        "sinh-arcsinh": learnt,
    }
    if name != "auto":
        return named[name]
    if low == float(y.max()) or has_ties(y) or _looks_gaussian(y):
        return named["none"]
    found = ["none", "log" if low > 0 else "", "sqrt" if low > 0 else "", "yeo-johnson", "sinh-arcsinh"]
    return [warp for one in filter(None, found) for warp in named[one]]


def _best(gp: ProfiledGP, y: np.ndarray, candidates: list[Warp]) -> Warp:
    """The candidate of most evidence, less ½ log n for each number that it has learnt."""
    price = 0.5 * np.log(len(y))
    learnt = [_learn(gp, y, warp) if warp.name == "sinh-arcsinh" else warp for warp in candidates]
    prices = {"yeo-johnson": price, "sinh-arcsinh": 2 * price}
    values = [_evidence(gp, y, warp) - prices.get(warp.name, 0.0) for warp in learnt]
    best = int(np.argmax(values))
    if learnt[0].name != "none" or best == 0:
        return learnt[best]
    needed = max(LEAST_GAIN, LEAST_GAIN_PER_ROW * len(y))
    heldout = [_left_out(gp, y, warp) for warp in (learnt[0], learnt[best])]
    return learnt[best] if values[best] - values[0] >= needed and heldout[1] - heldout[0] > 0 else learnt[0]


def _learn(gp: ProfiledGP, y: np.ndarray, warp: Warp) -> Warp:
    """The tail and the skew of most evidence."""

    def with_numbers(numbers) -> Warp:
        return replace(warp, tail=float(np.exp(numbers[0])), skew=float(numbers[1]))

    def loss(numbers) -> float:
        return -_evidence(gp, y, with_numbers(numbers))

    # Heavier tails than these, or than those of a log-normal, would leave targets without a mean.
    tails = (0.0, np.log(2.0)) if warp.of_log else (np.log(0.4), np.log(1.5))
    limits, start = [tails, (-1.0, 1.0)], [np.log(1.1) if warp.of_log else np.log(0.8), 0.0]
    options = {"maxfev": 120, "xatol": 1e-2, "fatol": 1e-2}
    return with_numbers(minimize(loss, start, method="Nelder-Mead", bounds=limits, options=options).x)


def _evidence(gp: ProfiledGP, y: np.ndarray, warp: Warp) -> float:
    """Log evidence of targets, by the change of variables (maths 13.2)."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        value = gp.evidence(warp.forward(y)) + float(np.sum(warp.log_slope(y)))
    return value if np.isfinite(value) else -np.inf


def _left_out(gp: ProfiledGP, y: np.ndarray, warp: Warp) -> float:
    """The mean log density of each target, given all others."""
    return float(np.mean(gp.left_out_log_density(warp.forward(y)) + warp.log_slope(y)))


def _agreed(warp: Warp) -> Warp:
    """The first process's choice: others may round differently."""
    numbers = np.array([NAMES.index(warp.name), warp.power, warp.tail, warp.skew, warp.of_log, warp.centre, warp.scale])
    index, power, tail, skew, of_log, centre, scale = map(float, processes.from_leader(numbers))
    return replace(
        warp, name=NAMES[int(index)], power=power, tail=tail, skew=skew, of_log=bool(of_log), centre=centre, scale=scale
    )


def _spread(y: np.ndarray) -> float:
    """The range of the middle half of the targets; their standard deviation if that is nothing."""
    middle_half = float(np.ptp(np.quantile(y, [0.25, 0.75])))
    return middle_half if middle_half > 0 else float(mean_and_scale(y)[1])


def _power(base: np.ndarray, power: float) -> np.ndarray:
    """``(baseᵖ − 1)/p``, its limit the logarithm."""
    return np.log(base) if power == 0 else np.expm1(power * np.log(base)) / power


def _unpower(value: np.ndarray, power: float) -> np.ndarray:
    """``base − 1`` of `_power`."""
    exponent = value if power == 0 else np.log1p(power * value) / power
    return np.expm1(np.minimum(exponent, _MOST_EXPONENT))
