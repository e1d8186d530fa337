"""Train with Student's t or heteroscedastic noise, and choose between them and one Gaussian (maths 14.4, 14.5).

All three use the Gaussian process with Gaussian noise, whose variance differs from row to row: Student's t weighs rows
by how far they lie from what the others predict, and heteroscedastic noise by a second Gaussian process.
"""

import time
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from tightgp.data.dataset import Dataset
from tightgp.estimators.left_out import left_out
from tightgp.estimators.mixtures import ScaleMixture, rates, student_t
from tightgp.estimators.noise import Noise, StudentTNoise
from tightgp.estimators.noise_function import cross_fitted, noise_function
from tightgp.estimators.settings import Settings
from tightgp.estimators.trained import Trained, retrain

#: "auto" takes other noise than Gaussian from this many rows on, and if it raises the log density of left-out rows by
#: more than so many nats a row and so many standard errors; a wrong choice of more general noise costs little.
LEAST_ROWS, LEAST_GAIN, LEAST_ERRORS = 100, 0.01, 1.0
#: Rows that are left out to choose by, to see first whether anything is worth trying, and to learn numbers from.
_ROWS, FIRST_ROWS, _MANY_ROWS = 2000, 500, 10_000
#: Rounds of weighing rows and training with these weights: on few rows, and on many.
_ROUNDS, _ROUNDS_OF_MANY, _MANY = 4, 2, 5000
#: Steps of a training that starts where the last one ended.
_STEPS = 15
#: Neighbours for the weights of rows: fewer than for predictions, because all rows are predicted.
_NEIGHBOURS = 16
#: The most neighbours that predictions take by themselves.
MOST_NEIGHBOURS = 128
#: Degrees of freedom from 2.1 on, so that there is a variance, to where Student's distribution is nearly normal.
_DF = (2.1, 60.0)
#: Targets further from their prediction than so many standard deviations count as if they were as far as that.
_REACH = 100.0
#: Before anything is learnt, targets further from the median than so many robust standard deviations do.
FIRST_REACH = 10.0
#: Outliers spoil a fit with Gaussian noise if they, at most this share of the rows, make the standard deviation so many
#: times as large as it is with them moved near the others.
_MOST_OUTLIERS, _SPOILT = 0.05, 3.0


@dataclass(frozen=True)
class Fitted:
    """A trained model, its noise (None for one Gaussian), and the log densities of some left-out rows."""

    trained: Trained
    noise: Noise | None
    density: np.ndarray


def without_outliers(y: np.ndarray) -> np.ndarray | None:
    """Targets (n,) with outliers moved near the others, if a few outliers spoil a fit with Gaussian noise; else None.

    Outliers lie beyond `FIRST_REACH` robust standard deviations from the median, and are moved there.
    """
    if y.ndim > 1:
        return None
    middle = np.median(y)
    reach = FIRST_REACH * 1.4826 * float(np.median(np.abs(y - middle)))
    moved = np.clip(y, middle - reach, middle + reach)
    spoilt = np.std(y) > _SPOILT * np.std(moved) > 0
    return moved if spoilt and np.mean(moved != y) <= _MOST_OUTLIERS else None


class NoiseTraining:
    """Trainings on the same rows.

    Args:
        data: all rows with their targets (n,), whose own factors of the noise variance stay.
        neighbours: of predictions; 0 for none, None where the model is exact.
        settings: the estimator's.
    """

    def __init__(self, data: Dataset, neighbours: int | None, settings: Settings):
        self.data, self.neighbours = data, neighbours
        self.settings = replace(settings, checkpoint=None, resume=False)
        self.y, self.X = np.asarray(data.y), np.asarray(data.X)
        self.factor = np.ones(len(self.y)) if data.noise_factor is None else np.asarray(data.noise_factor)
        self.order = np.random.default_rng(settings.seed).permutation(len(self.y))

    def gaussian(self, trained: Trained) -> Fitted:
        """One Gaussian."""
        return Fitted(trained, None, self._densities(trained, None))

    def best(self, trained: Trained) -> Fitted:
        """The noise under which left-out rows have the highest density, after training with it."""
        name = self._promising(trained)
        if name is None or self._is_late():
            return Fitted(trained, None, np.empty(0))
        found = self.student_t(trained) if name == "student-t" else self.heteroscedastic(trained)
        plain = self.gaussian(trained)
        return found if gains(found.density - plain.density) else plain

    def student_t(self, trained: Trained) -> Fitted:
        """Student's t: rows are weighed by E[λ | y], given what the others predict, and so on from there."""
        many = len(self.y) > _MANY
        last = _ROUNDS_OF_MANY if many else _ROUNDS
        noise = None
        for number in range(last):
            mean, variance = self._left_out(trained, np.arange(len(self.y)), self._few_neighbours)
            noise = self._student_t(mean, variance, self.order[:_MANY_ROWS], noise)
            if self._is_late():
                break
            data = self._reweighed(noise, mean, variance)
            trained = self._retrained(trained, data, 0 if many and number == last - 1 else _STEPS)
        rows = self.order[:_MANY_ROWS] if self.neighbours is None else self.order[:_ROWS]
        mean, variance = self._left_out(trained, rows, self.neighbours)
        found = np.empty(len(self.y)), np.empty(len(self.y))
        found[0][rows], found[1][rows] = mean, variance
        noise = self._student_t(*found, rows, noise)
        return Fitted(trained, noise, self._densities(trained, noise))

    def heteroscedastic(self, trained: Trained) -> Fitted:
        """A second Gaussian process for the log variance, with which the first is trained again."""
        noise = self._noise_function(trained)
        everything = np.arange(len(self.y))
        if self.neighbours is None:
            mean = self._left_out(trained, everything, None)[0]
        else:
            mean = np.asarray(trained.posterior.predict_f(self.X, neighbours=0)[0])
        log_variance = noise.log_variance(self.X, mean)[0]
        factor = np.exp(log_variance - np.mean(log_variance)) * self.factor
        trained = self._retrained(trained, replace_noise(self.data, self.y, factor), _STEPS)
        return Fitted(trained, self._noise_function(trained), self._densities(trained, None, cross=True))

    def _promising(self, trained: Trained) -> str | None:
        """Which noise the errors of left-out rows suggest, if any but one Gaussian does."""
        rows = self.order[: _ROWS if self.neighbours is None else FIRST_ROWS]
        mean, variance = left_out(trained.posterior, trained.data, rows, self.neighbours, most=MOST_NEIGHBOURS)
        y, factor = self.y[rows], self.factor[rows]
        own = float(np.asarray(trained.posterior.noise_variance))
        plain = _normal(mean, variance + own * factor).log_density(y)
        heavy = learn_student_t(y, mean, variance, factor)
        found = {
            "student-t": student_t(mean, variance, heavy.df, heavy.scale * np.sqrt(factor)).log_density(y),
            "heteroscedastic": cross_fitted(self.X[rows], y, mean, variance, factor, self.settings.seed),
        }
        best = max(found, key=lambda name: float(np.mean(found[name])))
        return best if gains(found[best] - plain) else None

    def _densities(self, trained: Trained, noise: Noise | None, cross: bool = False) -> np.ndarray:
        """Log densities of left-out rows; ``cross`` learns heteroscedastic noise anew from half of them at a time."""
        rows = self.order[:_ROWS]
        mean, variance = self._left_out(trained, rows, self.neighbours)
        y, factor = self.y[rows], self.factor[rows]
        if cross:
            return cross_fitted(self.X[rows], y, mean, variance, factor, self.settings.seed)
        if isinstance(noise, StudentTNoise):
            return student_t(mean, variance, noise.df, noise.scale * np.sqrt(factor)).log_density(y)
        own = float(np.asarray(trained.posterior.noise_variance))
        return _normal(mean, variance + own * factor).log_density(y)

    def _noise_function(self, trained: Trained):
        rows = self.order[: _MANY_ROWS if self.neighbours is None else 2 * _ROWS]
        mean, variance = self._left_out(trained, rows, self.neighbours)
        return noise_function(self.X[rows], self.y[rows], mean, variance, self.factor[rows], self.settings.seed)

    def _student_t(self, mean, variance, rows: np.ndarray, start: StudentTNoise | None) -> StudentTNoise:
        return learn_student_t(self.y[rows], mean[rows], variance[rows], self.factor[rows], start)

    def _reweighed(self, noise: StudentTNoise, mean: np.ndarray, variance: np.ndarray) -> Dataset:
        """The rows with noise variances over E[λ | y], and outliers moved to where they still count for nothing."""
        scale = noise.scale * np.sqrt(self.factor)
        reach = _REACH * np.sqrt(variance + scale**2)
        y = np.clip(self.y, mean - reach, mean + reach)
        log_rate, _ = rates(noise.df)
        weight = np.empty(len(y))
        for part in np.array_split(np.arange(len(y)), -(-len(y) // 10_000)):
            mixture = student_t(mean[part], variance[part], noise.df, scale[part])
            weight[part] = mixture.responsibilities(y[part]) @ np.exp(log_rate)
        return replace_noise(self.data, y, self.factor / weight)

    def _retrained(self, trained: Trained, data: Dataset, steps: int) -> Trained:
        return retrain(trained, data, self.settings, 0 if self._is_late() else steps)

    def _is_late(self) -> bool:
        return time.perf_counter() > self.settings.deadline

    def _left_out(self, trained: Trained, rows: np.ndarray, neighbours: int | None) -> tuple[np.ndarray, np.ndarray]:
        return left_out(trained.posterior, trained.data, rows, neighbours)

    @property
    def _few_neighbours(self) -> int | None:
        return min(self.neighbours, _NEIGHBOURS) if self.neighbours and len(self.y) > _MANY else self.neighbours


def replace_noise(data: Dataset, y: np.ndarray, factor: np.ndarray) -> Dataset:
    """The rows with other targets and other factors of their noise."""
    return Dataset(data.X, y, data.noise_variance, noise_factor=factor)


def learn_student_t(
    y: np.ndarray, mean: np.ndarray, variance: np.ndarray, factor: np.ndarray, start: StudentTNoise | None = None
) -> StudentTNoise:
    """The degrees of freedom and the scale of highest density of targets, given the others' predictions (n,)."""
    usual = float(np.median(np.abs(y - mean) / np.sqrt(factor)))
    first = start or StudentTNoise(4.0, max(usual, 1e-3 * float(np.median(np.sqrt(variance))), 1e-6))

    def noise(numbers) -> StudentTNoise:
        return StudentTNoise(float(np.exp(numbers[0])), float(np.exp(numbers[1])))

    def loss(numbers) -> float:
        one = noise(numbers)
        return -float(np.mean(student_t(mean, variance, one.df, one.scale * np.sqrt(factor)).log_density(y)))

    middle = np.log(first.scale)
    limits = [tuple(np.log(_DF)), (middle - 6, middle + 3)]
    options = {"maxfev": 80, "xatol": 1e-2, "fatol": 1e-4}
    return noise(minimize(loss, [np.log(first.df), middle], method="Nelder-Mead", bounds=limits, options=options).x)


def gains(gain: np.ndarray) -> bool:
    """Whether the mean of these gains in log density is enough, and no accident."""
    if len(gain) < LEAST_ROWS // 2:
        return False
    mean, error = float(np.mean(gain)), float(np.std(gain)) / np.sqrt(len(gain))
    return bool(mean > max(LEAST_GAIN, LEAST_ERRORS * error))


def _normal(mean: np.ndarray, variance: np.ndarray) -> ScaleMixture:
    return ScaleMixture(mean, variance[:, None], np.zeros(1))
