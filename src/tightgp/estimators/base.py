"""What the estimators share: parameters, checks of inputs, training and fitted attributes."""

import abc
import json
import os
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data

from tightgp import distributed
from tightgp.bounds.structures import Structure
from tightgp.data import Dataset
from tightgp.estimators import compilation, processes
from tightgp.estimators.cells import as_table, columns_of, is_frame
from tightgp.estimators.conformal import calibrated_level, interval_scores
from tightgp.estimators.encoding import Encoding
from tightgp.estimators.exact import Exact
from tightgp.estimators.levels import numeric_targets
from tightgp.estimators.plan import POINTS, Plan
from tightgp.estimators.recipes import Recipe, has_converged
from tightgp.estimators.settings import Settings
from tightgp.estimators.trained import Trained, train
from tightgp.kernels import Kernel
from tightgp.training import FitResult


@dataclass(eq=False, repr=False)
class GPEstimator(BaseEstimator):
    """Parameters and fitted attributes of all estimators. Cells of X may be missing."""

    _: KW_ONLY
    kernel: Kernel | str | None = None
    method: str = "auto"
    max_iter: int | None = None
    time_limit: float | None = None
    batch_size: int = 1024
    random_state: Any = 0
    checkpoint: str | os.PathLike | None = None
    resume: bool = False
    verbose: int = 0

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = tags.input_tags.sparse = True
        return tags

    def _checked_rows(self, X, *, training: bool, as_frame: bool, least: int = 1) -> Any:
        """Rows, checked as scikit-learn does, but a frame may have cells of any kind if it stays one."""
        if not as_frame:
            options: dict[str, Any] = {"ensure_all_finite": "allow-nan", "ensure_min_samples": least}
            return validate_data(self, X, reset=training, dtype=np.float64, **options)
        validate_data(self, X, reset=training, skip_check_array=True)
        if len(X) < least or not X.shape[1]:
            raise ValueError(f"X has shape {X.shape}; it needs at least {least} row(s) and one column")
        return X

    def _record_training(self, result: FitResult, plan: Plan, num_data: int, seconds: float) -> None:
        """Set the attributes that say how training went."""
        self.trace_ = result.trace
        self.converged_ = has_converged(result, plan, num_data)
        self.stop_reason_, self.message_ = result.reason.value, result.message
        self.n_iter_, self.seconds_ = max(1, result.steps), seconds
        self.training_ = plan.reason


@dataclass(eq=False, repr=False)
class SparseGP(GPEstimator):
    """Parameters and fitted attributes that all sparse GP estimators share.

    What ``fit`` leaves is plain: numbers, texts, arrays and tightgp's own parts, which `tightgp.save` writes.

    Args:
        n_inducing: number of inducing points, at most the number of different rows; None chooses (256; regression says
            otherwise); "auto" tries 32, 64, 128, ... up to ``max_inducing``, for as long as they help: until
            ``tolerance`` is met, or a new point gains less than 0.1 nats.
        kernel: None is a Matérn-3/2 with a lengthscale for each feature; a name ("matern12", "matern32", "matern52",
            "squared_exponential", "rational_quadratic") another such kernel; or one of ``tightgp.kernels`` to start
            from, over standardised features.
        bound: which bound is maximised; None chooses.
        method: how to train; "auto" chooses by the number of rows.
        max_iter: most iterations, steps or passes through the data; None chooses.
        time_limit: seconds after which training ends with the best model so far; predictions are prepared after that.
        batch_size: rows of a minibatch.
        learning_rate: Adam's, for the first half of training; then it falls to a hundredth.
        max_inducing: most inducing points under ``n_inducing="auto"``.
        tolerance: nats a row; "auto" stops where the evidence bracket is narrower than this, or, without one, where the
            last new points gained less.
        random_state: decides the first inducing points and the order of minibatches.
        checkpoint: a folder for unfinished work; a fit that was killed goes on from there with ``resume=True``.
        resume: go on from ``checkpoint``, which stays until it is removed.
        verbose: 1 shows progress, and each number of inducing points that was tried.

    Attributes:
        model_, posterior_, encoding_: the trained model, its posterior, how X is encoded.
        training_: how it was trained and why so, in one sentence.
        converged_, stop_reason_, message_, n_iter_, seconds_: how training ended.
        objective_, evidence_bracket_: what was maximised, in nats: a bound on the log evidence, or under "vecchia"
            and "power_ep" an approximation of it; the evidence bracket, of a bound with Gaussian noise on all rows.
        trace_: the last training's numbers, step by step.
        n_inducing_, inducing_path_, inducing_message_: how many inducing points there are, what each number that was
            tried brought, and why there are not more.
        scales_: v of each training row by itself (Gaussian noise) or of each latent function; near 1 where the inducing
            points suffice. None where the bound has none.
        relevance_: for each column of X, one over the lengthscale of its most relevant feature; None where the kernel
            has no lengthscales.
        noise_variance_, target_mean_, target_scale_: of regression, in the targets' units; else None.
    """

    #: What is predicted: "regression", "classification" or "counts".
    task: ClassVar[str]
    #: The possible values of ``method`` beside "auto".
    _methods: ClassVar[tuple[str, ...]] = ("full", "minibatch")
    #: The number of inducing points if the user leaves it open.
    _inducing: ClassVar[int] = POINTS

    n_inducing: int | str | None = None
    _: KW_ONLY
    bound: Structure | str | None = None
    learning_rate: float = 0.1
    max_inducing: int = 1024
    tolerance: float = 0.01

    def check_parameters(self) -> Settings:
        """Check the parameters as `fit` does, without data."""
        if distributed.is_multiprocess() and self.task != "regression":
            raise ValueError(f"several processes fit SparseGPRegressor together, not {type(self).__name__}")
        return Settings.of(self, self._methods, self._inducing)

    def _learn_inputs(self, X, y, **options) -> tuple[Encoding, np.ndarray, np.ndarray]:
        """The encoding of the inputs, features (n, D) and checked targets; ``options`` go to the check of targets."""
        compilation.switch_on_if_free()
        X, y = distributed.all_succeed(lambda: self._checked(X, y, **options))
        if not distributed.is_multiprocess():
            return *Encoding.fit_transform(X, numeric_targets(y, self.task)), y
        names = distributed.all_succeed(lambda: list(columns_of(X)))
        distributed.check_same("the columns of X", json.dumps(names).encode())
        encoding = Encoding.fit(X, processes.read_all)
        return encoding, encoding.transform(X), y

    def _checked(self, X, y, **options) -> tuple[Any, np.ndarray]:
        """Inputs, as an array or a frame, and targets, checked as scikit-learn does."""
        X = as_table(X)
        X = self._checked_rows(X, training=True, as_frame=is_frame(X))
        return X, check_X_y(np.zeros((len(X), 1)), y, estimator=self, **options)[1]

    def _features(self, X) -> np.ndarray:
        """Features (n, D) of rows to predict."""
        check_is_fitted(self, "posterior_")
        compilation.switch_on_if_free()
        X = as_table(X)
        as_frame = is_frame(X)
        if as_frame and not hasattr(self, "feature_names_in_"):
            # Training saw no names: a frame with other columns than those of the encoding is taken as an array.
            as_frame = {column.name for column in self.encoding_.columns} <= set(map(str, X.columns))
        return self.encoding_.transform(self._checked_rows(X, training=False, as_frame=as_frame))

    @property
    def is_bound(self) -> bool:
        """Whether ``objective_`` is a lower bound on the log evidence, or the evidence itself."""
        return not hasattr(self.model_, "bound") or self.model_.bound.is_bound

    @abc.abstractmethod
    def predict_distribution(self, X) -> Any:
        """The distribution of a new target at each row of ``X``."""

    @abc.abstractmethod
    def traced_predictions(self, features: Any) -> tuple:
        """The arrays that `traced_outputs` names, of features (n, D) within a JAX transformation."""

    def traced_outputs(self) -> tuple[str, ...]:
        """The names of what an exported program gives."""
        return ("mean", "sd")

    def neighbours_used(self) -> int | None:
        """How many neighbours of each row a prediction uses; None for none."""
        return None

    def log_density(self, X, y):
        """Log density (or probability) of each target under its predictive distribution, in the shape of ``y``."""
        return self.predict_distribution(X).log_density(y)

    def sample_y(self, X, n_samples=1, random_state=0):
        """Draws of new targets: (n, n_samples), or (n, P, n_samples)."""
        return self.predict_distribution(X).sample(n_samples, random_state)

    def _train(self, recipe: Recipe | Exact, data: Dataset, encoding: Encoding, settings: Settings) -> None:
        """Train and set the fitted attributes."""
        self._record(train(recipe, data, settings), encoding)

    def _record(self, trained: Trained, encoding: Encoding) -> None:
        """Set the fitted attributes."""
        self.__dict__.pop("calibration_", None)  # of an earlier fit
        grown, num_data = trained.grown, trained.data.num_data
        self._record_training(grown.result, trained.plan, num_data, grown.seconds)
        self.encoding_ = encoding
        self.model_ = trained.model
        self.posterior_, self.scales_ = trained.posterior, trained.scales
        self.objective_, self.evidence_bracket_ = grown.bound, grown.bracket
        self.n_inducing_ = len(self.model_.Z) if hasattr(self.model_, "Z") else num_data
        self.inducing_path_, self.inducing_message_ = grown.path, grown.message
        self.relevance_ = _relevance(self.model_.kernel, encoding)
        self.noise_variance_ = self.target_mean_ = self.target_scale_ = None


class NumberPredictions:
    """The predictions of estimators of numbers, which all come from `SparseGP.predict_distribution`."""

    predict_distribution: Any

    def predict_quantile(self, X, q):
        """Quantiles of a new target: (n,) or (n, P) for a number ``q``, with a last axis for a list."""
        return self.predict_distribution(X).quantile(q)

    def predict_interval(self, X, level=0.95):
        """Lower and upper ends of central intervals that hold a new target with probability ``level``."""
        scores = getattr(self, "calibration_", None)
        return self.predict_distribution(X).interval(level if scores is None else calibrated_level(scores, level))

    def calibrate(self, X, y):
        """Widen or narrow the intervals of `predict_interval`, so that they hold as often as they say (maths 13.6).

        ``X`` and ``y`` are rows that the model was not fitted to, and that are like those to come: then an interval
        holds a new target with probability of at least its level, whatever the noise. Nothing else changes.

        >>> model = tgp.SparseGPRegressor(n_inducing=8, max_iter=10).fit(X[:30], y[:30]).calibrate(X[30:], y[30:])
        >>> low, high = model.predict_interval(X, level=0.9)
        >>> bool(np.all(low < high))
        True
        """
        self.calibration_ = interval_scores(self.predict_distribution(X), y)
        return self

    def predict_cdf(self, X, y):
        """Probability that a new target at each row is at most ``y``, one number or one for each."""
        return self.predict_distribution(X).cdf(y)


def _relevance(kernel, encoding: Encoding) -> dict[str, float] | None:
    """One over the lengthscale of each column's most relevant feature; None where the kernel has no lengthscale."""
    inverse = 1 / np.asarray(kernel.length_scales(len(encoding.feature_names)))
    if not np.any(inverse):
        return None
    owners = np.asarray(encoding.feature_columns)
    return {column.name: float(np.max(inverse[owners == i])) for i, column in enumerate(encoding.columns)}
