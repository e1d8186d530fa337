"""From standardised rows to a trained model of `SparseGPRegressor`: starts, recipe, neighbours, noise."""

import time
import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tightgp import distributed
from tightgp.data import Dataset
from tightgp.data.scaling import mean_and_scale
from tightgp.estimators.encoding import Encoding
from tightgp.estimators.exact import Exact
from tightgp.estimators.noise import Noise
from tightgp.estimators.noise_training import (
    FIRST_ROWS,
    MOST_NEIGHBOURS,
    Fitted,
    NoiseTraining,
    gains,
    without_outliers,
)
from tightgp.estimators.plan import Plan
from tightgp.estimators.recipes import Collapsed, Recipe, Variational
from tightgp.estimators.settings import DEFAULT_KERNEL, Settings
from tightgp.estimators.start import Start, begin, noise_alone, search
from tightgp.estimators.trained import Trained, train
from tightgp.kernels import Kernel
from tightgp.likelihoods import Gaussian
from tightgp.means import Zero
from tightgp.numerics.threads import one_blas_thread

#: From how many nearest rows to predict, of which ``neighbours="auto"`` takes the best.
NEIGHBOURS = (16, 64, MOST_NEIGHBOURS)
#: Fewer neighbours, which are quicker, are preferred to a gain of less than so many nats a row.
_LITTLE = 0.01
#: Nats that a model must gain on noise alone to have found anything.
_SIGNAL = 1.0
#: Reasons why training ended before it was done, so that its result says nothing of the inputs.
_CUT_SHORT = ("step limit", "time limit", "callback", "interrupted")
#: A log density that is never chosen.
_NEVER = -1e300
#: The share of a time limit after which the search for a start ends.
_SEARCHING = 0.4


@dataclass(frozen=True)
class FittedInUnits:
    """A trained model, its noise, and the mean and scale of the targets that it was trained on."""

    trained: Trained
    noise: Noise | None
    mean: Any
    scale: Any


@dataclass(frozen=True)
class Problem:
    """Features, transformed targets ``z``, factors of each row's noise or None, and known noise or None."""

    estimator: Any
    settings: Settings
    encoding: Encoding
    features: np.ndarray
    z: np.ndarray
    factor: np.ndarray | None
    known: np.ndarray | None
    plan: Plan
    keep_rows: bool

    def fitted(self, noise: str) -> FittedInUnits:
        """Train with noise of this name; "auto" chooses."""
        outliers = without_outliers(self.z) if noise in ("student-t", "auto") else None
        if noise == "student-t":
            return self._student_t(outliers if outliers is not None else self.z)[0]
        (mean, scale), trained = self._gaussian(self.z)
        if noise == "gaussian" or trained.grown.result.interrupted:
            return FittedInUnits(trained, None, mean, scale)
        training, plain = self._training(trained, trained.data), FittedInUnits(trained, None, mean, scale)
        if noise == "auto" and outliers is not None:
            if time.perf_counter() > self.settings.deadline:
                return plain
            # The checkpoint holds the training before.
            again = replace(self, settings=replace(self.settings, checkpoint=None, resume=False))
            robust, density = again._student_t(outliers)
            with one_blas_thread():
                before = training.gaussian(trained).density - np.log(scale)
            return robust if gains(density - before) else plain
        with one_blas_thread():
            found = training.best(trained) if noise == "auto" else training.heteroscedastic(trained)
        return FittedInUnits(found.trained, found.noise, mean, scale)

    def _student_t(self, moved: np.ndarray) -> tuple[FittedInUnits, np.ndarray]:
        """Student's t from a start on targets of which outliers were moved; and left-out log densities of z."""
        (mean, scale), trained = self._gaussian(moved)
        if trained.grown.result.interrupted:  # the model so far
            return FittedInUnits(trained, None, mean, scale), np.full(1, _NEVER)
        data = Dataset(self.features, (self.z - mean) / scale, noise_factor=self.factor)
        with one_blas_thread():
            found: Fitted = self._training(trained, data).student_t(trained)
        return FittedInUnits(found.trained, found.noise, mean, scale), found.density - np.log(scale)

    def _training(self, trained: Trained, data: Dataset) -> NoiseTraining:
        exact = isinstance(trained.recipe, Exact)
        neighbours = self.estimator.neighbours
        used = trained.posterior.neighbours if isinstance(neighbours, str) else min(neighbours, data.num_data - 1)
        return NoiseTraining(data, None if exact else used if self.keep_rows else 0, self.settings)

    def _gaussian(self, z: np.ndarray) -> tuple[tuple[Any, Any], Trained]:
        """Train with one Gaussian noise; the mean and the scale of targets, and the model."""
        known, settings = self.known, self.settings
        # Rows with much known noise say little about the mean and the scale.
        mean, scale = mean_and_scale(distributed.gather(z if known is None else z[known <= np.median(known)]))
        known = None if known is None else known / np.square(scale)
        data = Dataset(self.features, (z - mean) / scale, known, noise_factor=self.factor)
        start = self._start(data)
        trained = train(self._recipe(start, data), data, settings)
        self._compare_with_noise(trained, start)
        if self.keep_rows and self.estimator.neighbours == "auto":
            best = trained.posterior.with_best_neighbours(
                NEIGHBOURS, num_rows=FIRST_ROWS, seed=settings.seed, tolerance=_LITTLE
            )
            trained = replace(trained, posterior=best)
        return (mean, scale), trained

    def _start(self, data: Dataset) -> Start:
        kernel, names, settings = self.estimator.kernel, self.encoding.feature_names, self.settings
        if distributed.is_multiprocess():
            return Start(*begin(kernel, names, self.features, data.targets, settings.seed))
        with one_blas_thread():
            return search(kernel, names, data, settings, settings.part_of_time(_SEARCHING))

    def _recipe(self, start: Start, data: Dataset) -> Recipe | Exact:
        e, plan, keep_rows = self.estimator, self.plan, self.keep_rows
        if plan.method == "exact":
            own = isinstance(e.kernel, Kernel) or self.known is not None
            return Exact(start, plan, None if own else str(e.kernel or DEFAULT_KERNEL))
        if plan.method == "collapsed":
            plain = distributed.is_multiprocess() or e.precision != "full"
            bound = e.bound or ("diagonal" if plain else "vecchia" if keep_rows else "neighbours")
            fixed = e.n_inducing is None and e._inducing * data.num_inputs > data.num_data
            return Collapsed(start.kernel, bound, plan, start.noise, keep_rows, e.precision, start.others, fixed)
        e._check_minibatch()
        bound, likelihood = e.bound or "diagonal", Gaussian(start.noise)
        return Variational(start.kernel, likelihood, bound, plan, Zero(), data.num_outputs, keep_rows)

    def _compare_with_noise(self, trained: Trained, start: Start) -> None:
        """Say so if the model is no better than noise alone."""
        objective, reason = trained.grown.bound, trained.grown.result.reason.value
        alone = noise_alone(trained.data.targets, trained.data.noise_factor)
        if distributed.is_multiprocess() or reason in _CUT_SHORT or not np.isfinite(alone):
            return
        if objective >= alone + _SIGNAL:
            return
        told = "The inputs seem to say nothing about the target: the objective is no better than that of noise alone"
        warnings.warn(f"{told} ({objective:.6g} and {alone:.6g} nats; tried {start.tried})", stacklevel=5)
