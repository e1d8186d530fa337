"""What the estimators share: their inputs, their training, and what they remember of it."""

import abc
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, check_X_y, validate_data

from tightgp import checks, distributed
from tightgp.batching import rounded_up
from tightgp.data import Dataset
from tightgp.encoding import Encoding
from tightgp.estimators import several
from tightgp.estimators.growth import grow
from tightgp.estimators.recipes import Recipe
from tightgp.estimators.settings import Settings


class SparseGP(BaseEstimator):
    """A table in, a trained model and its posterior out. Subclasses say what targets are and what is asked of them.

    What ``fit`` leaves is plain: numbers, texts, arrays and tightgp's own parts, which `tightgp.save` writes.

    Attributes:
        model_, posterior_, encoding_: the trained model, its posterior, how X is encoded.
        training_: how it was trained and why so, in one sentence.
        converged_, message_, n_iter_, seconds_: how that ended.
        objective_, evidence_bracket_: the bound on the log evidence in total nats; the bracket, or None.
        trace_: the last training's numbers, step by step.
        n_inducing_, inducing_path_, inducing_message_: how many inducing points, what each number of them that was
            tried brought, and why there are not more.
        scales_: v of each training row by itself (Gaussian noise) or of each latent function; near 1 where the inducing
            points suffice. None where the bound has none.
        relevance_: for each column of X one over the lengthscale of its most relevant feature; None where the kernel
            has no lengthscales.
        noise_variance_, target_mean_, target_scale_: of regression, in the targets' units; else None.
    """

    _together = False  # whether several processes can fit it

    @abc.abstractmethod
    def _methods(self) -> tuple[str, ...]:
        """How it can be trained."""

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def check_parameters(self) -> None:
        """Refuse parameters that `fit` would refuse, without data."""
        self._settings()

    def _settings(self) -> Settings:
        if distributed.several() and not self._together:
            raise ValueError(f"several processes fit SparseGPRegressor together, not {type(self).__name__}")
        return Settings.of(self, self._methods())

    def _learn_inputs(self, X, y, **how) -> tuple[Encoding, np.ndarray, np.ndarray]:
        """The encoding of the inputs, features (n, D) and checked targets; ``how`` goes to the check of the targets."""
        if not distributed.several():
            X, y, encoding = self._checked_inputs(X, y, Encoding.of, **how)
        else:
            X, y, _ = distributed.agreed(lambda: self._checked_inputs(X, y, lambda _: None, **how))
            names = [str(name) for name in X.columns] if _is_frame(X) else [f"x{i}" for i in range(X.shape[1])]
            several.check_alike(names, len(X))
            encoding = Encoding.of(X, several.whole_column)
        return encoding, encoding.transform(X), y

    def _checked_inputs(self, X, y, learn, **how) -> tuple[Any, Any, Any]:
        """Inputs and targets as they are used, and what ``learn`` makes of the inputs."""
        if not _is_frame(X):
            X, y = validate_data(self, X, y, dtype=np.float64, ensure_all_finite="allow-nan", **how)
            return X, y, learn(X)
        validate_data(self, X, skip_check_array=True)
        encoding = learn(X)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None")
        _, y = check_X_y(np.zeros((len(X), 1)), y, **how)
        return X, y, encoding

    def _features(self, X) -> np.ndarray:
        """Features (n, D) of rows to predict."""
        check_is_fitted(self, "posterior_")
        if _is_frame(X) and self._knows_columns_of(X):
            validate_data(self, X, skip_check_array=True, reset=False)
            if not len(X):
                raise ValueError("X has no rows; it needs at least one")
        else:
            X = validate_data(self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
        return self.encoding_.transform(X)

    def _knows_columns_of(self, X) -> bool:
        """Whether a frame's columns are found by name: not where training was on an array."""
        names = {column.name for column in self.encoding_.columns}
        return hasattr(self, "feature_names_in_") or names <= set(map(str, X.columns))

    def _train(self, recipe: Recipe, data: Dataset, encoding: Encoding, settings: Settings) -> None:
        """Train, and keep what came of it."""
        grown = grow(recipe, data, settings)
        result = grown.result
        posterior, self.scales_ = recipe.posterior(result.model, data)
        self.encoding_ = encoding
        self.model_ = result.model
        self.trace_ = result.trace
        self.objective_ = grown.bound
        self.converged_ = recipe.settled(result, data)
        self.message_ = result.message
        self.seconds_ = grown.seconds
        self.n_iter_ = recipe.steps(result)
        self.training_ = recipe.plan.reason
        self.evidence_bracket_ = grown.bracket
        self.n_inducing_ = len(result.model.Z)
        self.inducing_path_ = grown.path
        self.inducing_message_ = grown.message
        self.relevance_ = _relevance(result.model.kernel, encoding)
        self.posterior_ = posterior


def _relevance(kernel, encoding: Encoding) -> dict[str, float] | None:
    """One over the lengthscale of each column's most relevant feature; None where the kernel has no lengthscale."""
    inverse = 1 / np.asarray(kernel.length_scales(len(encoding.feature_names)))
    if not np.any(inverse):
        return None
    owners = np.asarray(encoding.feature_columns)
    return {column.name: float(np.max(inverse[owners == i])) for i, column in enumerate(encoding.columns)}


def _is_frame(X) -> bool:
    return hasattr(X, "iloc") and hasattr(X, "columns")


def ask(method, X: np.ndarray, *more: np.ndarray) -> Any:
    """A posterior's answer about each row, as arrays.

    Rows are repeated up to one of few numbers: for each number of rows JAX compiles a program.
    """
    n = len(X)
    extra = rounded_up(n) - n
    padded = (np.concatenate([a, np.repeat(a[-1:], extra, axis=0)]) for a in (X, *more))
    answer = method(*padded)
    return tuple(np.asarray(a)[:n] for a in answer) if isinstance(answer, tuple) else np.asarray(answer)[:n]


def levels_of(q) -> tuple[list[float], bool]:
    """Levels of quantiles as a list, and whether one number was given."""
    values = np.asarray(checks.floats("q", q), float)
    if values.ndim > 1 or not values.size or not np.all((values > 0) & (values < 1)):
        raise ValueError(f"q must be a number between 0 and 1, or a list of them; got {q!r}")
    return values.reshape(-1).tolist(), values.ndim == 0


def ends_of(level) -> list[float]:
    """The quantiles between which a central interval of this ``level`` lies."""
    if not 0 < checks.number("level", level) < 1:
        raise ValueError(f"level must lie between 0 and 1, such as 0.95; got {level!r}")
    return [(1 - level) / 2, (1 + level) / 2]


def targets_like(name: str, y, shape: tuple[int, ...]) -> np.ndarray:
    """Targets at the rows of X: of the predictions' shape, or one number for all."""
    values = np.asarray(checks.floats(name, y), float)
    if values.shape not in ((), shape):
        raise ValueError(f"{name} must have shape {shape}, like the predictions at X; got {values.shape}")
    if np.any(np.isnan(values)):
        raise ValueError(f"{name} has NaN; give a number for each row of X")
    return np.broadcast_to(values, shape)
