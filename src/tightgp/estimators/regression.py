"""Regression of numbers, with Gaussian or other noise."""

from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import _check_sample_weight, check_X_y

from tightgp import checks, distributed
from tightgp.data.scaling import check_targets, warn_of_outliers
from tightgp.estimators import plan as plans
from tightgp.estimators import target_transform as transforms
from tightgp.estimators.base import NumberPredictions, SparseGP
from tightgp.estimators.cells import as_table
from tightgp.estimators.distributions import Prediction, WarpedPrediction, on_padded_rows, prediction_of
from tightgp.estimators.mixture_prediction import MixturePrediction
from tightgp.estimators.mixtures import ScaleMixture
from tightgp.estimators.noise import NAMES as NOISES
from tightgp.estimators.noise import Noise
from tightgp.estimators.noise_training import LEAST_ROWS, without_outliers
from tightgp.estimators.regression_problem import Problem
from tightgp.estimators.settings import Settings
from tightgp.estimators.transform_check import confirmed
from tightgp.models import ExactGP
from tightgp.models.sgpr import PRECISIONS
from tightgp.numerics.threads import one_blas_thread


@dataclass(eq=False, repr=False)
class SparseGPRegressor(NumberPredictions, RegressorMixin, SparseGP):
    """Sparse Gaussian process regression.

    X is an array of numbers or a pandas frame; missing cells, texts and dates are encoded (``encoding_``). y is (n,)
    or (n, P); several outputs share kernel and noise. Targets are standardised inside; every answer is in their own
    units. What is said of the bound (``objective_``, ``evidence_bracket_``, ``inducing_path_``, ``trace_``) is in nats,
    of the standardised targets. Parameters and fitted attributes that are not listed here are those of `SparseGP`.

    Several processes that `tightgp.distributed.start` joined fit one model, each to the rows that it passes: by the
    collapsed bound, "diagonal" where ``bound`` is None, and without neighbours.

    Up to 2000 rows it is the exact GP, above that "vecchia" with 64 inducing points (on a GPU one for 50 rows, at most
    512, and fewer above 27 000 rows); parameters override this rule.
    Where these points are more numbers than there are rows, because X has many columns, they are not trained.

    Args:
        n_inducing: number of inducing points (None: none up to 2000 rows, else as above), or "auto".
        bound: "vecchia" (each row sees 32 neighbours: the most accurate, but no bound), "neighbours" (the bound with
            the same neighbours), "block", "diagonal", "spherical", "standard", "power_ep", or an object such as
            ``tightgp.Vecchia(16)``. None is "vecchia" with "collapsed", and "diagonal" with "minibatch".
        method: "exact" (no inducing points), "collapsed" (L-BFGS on all rows), "minibatch" (natural gradients and
            Adam), or "auto": "exact" up to 2000 rows if ``n_inducing`` and ``bound`` are None, else "collapsed" where
            rows × inducing points² is at most 7e9, about a second an evaluation on two cores.
        max_iter: most iterations of L-BFGS (None: 100), or passes through the data (None: enough for 3000 batches).
        neighbours: each prediction also uses this many of the nearest training rows, which the model keeps for it.
            "auto" takes the fewest of 16, 64 and 128 that predict training rows about best from their neighbours; 0
            predicts from the inducing points alone and keeps no row.
        precision: "full", or "mixed": training with "collapsed" makes the kernel values between rows and inducing
            points in float32, and keeps sums over rows and all small factors in float64.
        target_transform: "log", "sqrt", "yeo-johnson", "sinh-arcsinh" (learnt tails and skew) or "none": what is
            modelled with Gaussian noise. "auto" takes the one of most evidence, if it gains enough
            (``target_transform_``). Densities, quantiles, intervals and draws are those of the targets themselves, and
            intervals of transformed targets that are never negative are not either.
        noise: "gaussian" (one variance), "student-t" (outliers count little), "heteroscedastic" (its variance is a
            function of its own of the inputs), or "auto": the one under which left-out training rows have the highest
            density, Gaussian unless another gains enough, or where more than 5 % of the targets are equal.

    Attributes:
        noise_: Student's t or heteroscedastic noise, in units of standardised targets; None for one Gaussian.
        target_transform_: what was taken. Where it is not the target itself, ``target_mean_``, ``target_scale_`` and
            ``noise_variance_`` are those of the transformed targets.

    >>> model = tgp.SparseGPRegressor(n_inducing=16, max_iter=20).fit(X, y)
    >>> mean, sd = model.predict(X[:2], return_std=True)
    >>> mean.shape, sd.shape
    ((2,), (2,))
    """

    _: KW_ONLY
    neighbours: int | str = "auto"
    precision: str = "full"
    target_transform: str = "auto"
    noise: str = "auto"

    task = "regression"
    _methods = ("exact", "collapsed", "minibatch")
    _inducing = plans.FEW_POINTS

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def check_parameters(self) -> Settings:
        settings = super().check_parameters()
        _checked_neighbours(self.neighbours)
        checks.choice("precision", self.precision, PRECISIONS)
        checks.choice("target_transform", self.target_transform, transforms.NAMES)
        checks.choice("noise", self.noise, NOISES)
        if self.method == "minibatch":
            self._check_minibatch()
            if distributed.is_multiprocess():
                raise ValueError('several processes do not train by minibatches; use method="collapsed"')
        return settings

    def _check_minibatch(self):
        if self.precision != "full":
            raise ValueError(
                f'precision={self.precision!r} goes with method="collapsed", and minibatches are in full precision; '
                'pass method="collapsed", or precision="full"'
            )

    def fit(self, X, y, sample_weight=None, *, noise_variance=None):
        """Train on rows ``X`` and targets ``y``; where several processes do, on the rows of all of them.

        ``sample_weight`` (n,) are precisions: the noise variance of a row is the learnt one, which new targets have,
        divided by the row's weight. Rows of weight zero are left out.

        ``noise_variance`` (n,) is a part of each row's noise that is known, in the targets' units squared, such as the
        square of a measurement's standard error. The rest is learnt, and is that of new targets. A row that stands for
        the mean of w others has the known noise s²/w, if s² is that of one of them.
        """
        return self._fit(X, y, sample_weight, noise_variance, self.noise)

    def _fit(self, X, y, sample_weight, noise_variance, wanted: str):
        """`fit` with noise of the ``wanted`` name."""
        settings = self.check_parameters()
        if sample_weight is not None:
            X, y, sample_weight, noise_variance = _of_positive_weight(X, y, sample_weight, noise_variance)
        encoding, features, y = self._learn_inputs(X, y, multi_output=True, y_numeric=True)
        y = np.asarray(y, np.float64)
        rows = distributed.total_count(len(y))
        if self.n_inducing is None:
            settings = replace(settings, n_inducing=plans.few_points(rows))
        distributed.check_same("the number of columns of y", str(y.shape[1:]).encode())
        known = self._checked_noise(noise_variance, y)
        noise = self._possible_noise(wanted, y, known)
        check_targets(distributed.gather(y))
        plan = plans.for_regression(settings, rows, exact=known is None and self._leaves_it_open())
        with one_blas_thread():
            self.target_transform_ = self._transform(features, y, noise, known, settings)
        z = self.target_transform_.forward(y)
        self.fitted_by_processes_ = distributed.is_multiprocess()
        keep_rows = self.neighbours != 0 and not self.fitted_by_processes_ and plan.method != "exact"
        weights = None if sample_weight is None else 1 / sample_weight
        problem = Problem(self, settings, encoding, features, z, weights, known, plan, keep_rows)
        fitted = problem.fitted(noise)
        self._record(fitted.trained, encoding)
        self.noise_ = fitted.noise
        if fitted.noise is None:
            robust = 'fit noise="student-t" (--noise student-t), which they do not sway'
            warn_of_outliers(distributed.gather(y), "" if self._why_gaussian(y, known) else robust)
        if keep_rows:
            used = self.posterior_.neighbours if self.neighbours == "auto" else min(self.neighbours, len(y))
            self.training_ += f" Predictions also use the {used} nearest training rows."
        elif self.neighbours and plan.method != "exact":
            self.training_ += " Predictions use the inducing points alone: several processes keep no training rows."
        if not self.target_transform_.is_identity:
            self.training_ += f" {self.target_transform_.describe()}"
        if self.noise_ is not None:
            self.training_ += f" {self.noise_.describe()}"
        own = self.posterior_.noise_variance if self.noise_ is None else self.noise_.typical_variance
        self.target_mean_, self.target_scale_ = _plain(fitted.mean), _plain(fitted.scale)
        self.noise_variance_ = _plain(np.asarray(own) * fitted.scale**2)
        return self

    def partial_fit(self, X, y, *, noise_variance=None, window: int | None = None):
        """Learn from more rows without training again: hyperparameters, encoding and scales stay those of `fit`.

        Predictions are then those of the same model given all rows. The first call of an estimator that is not fitted
        is `fit`, in which ``noise="auto"`` counts as "gaussian". Attributes that say how training went stay as they
        are.

        Args:
            X: more rows, with the columns of the rows before.
            y: their targets.
            noise_variance: as in `fit`.
            window: predict from the last so many rows alone; None forgets none.

        >>> model = tgp.SparseGPRegressor(n_inducing=8, max_iter=10).fit(X[:50], y[:50])
        >>> model.partial_fit(X[50:], y[50:]).predict(X[50:52]).shape
        (2,)
        """
        if not hasattr(self, "posterior_"):
            wanted = "gaussian" if self.noise == "auto" else self.noise  # later rows need Gaussian noise
            return self._fit(X, y, None, noise_variance, wanted)
        if self.fitted_by_processes_:
            raise ValueError("partial_fit needs one process, and this model was fitted by several; fit again")
        if self.noise_ is not None:
            raise ValueError(f"partial_fit needs Gaussian noise: fit with noise='gaussian'. {self.noise_.describe()}")
        features = self._features(X)
        y = np.asarray(check_X_y(features, y, estimator=self, multi_output=True, y_numeric=True)[1], np.float64)
        known, scale = self._checked_noise(noise_variance, y), np.asarray(self.target_scale_)
        if known is not None and not self.target_transform_.is_identity:
            raise ValueError("noise_variance is in the units of the target, and this model was fitted to its transform")
        if y.shape[1:] != scale.shape:
            raise ValueError(f"y must have shape (n{', ' * scale.ndim}{', '.join(map(str, scale.shape))}) as in fit")
        with np.errstate(invalid="ignore", divide="ignore"):
            z = (self.target_transform_.forward(y) - self.target_mean_) / scale
        if not np.all(np.isfinite(z)):
            raise ValueError(f"y has targets that the transform of this model cannot take: {self.target_transform_}")
        known = None if known is None else known / scale**2
        self.posterior_ = self.posterior_.condition(features, z, noise_variance=known, window=window)
        return self

    def _transform(self, features, y, noise: str, known, settings: Settings) -> transforms.TargetTransform:
        """The transform of the targets; "auto" chooses without outliers where noise is robust against them."""
        name = self.target_transform if known is None else "none"
        moved = without_outliers(y) if name == "auto" and noise in ("auto", "student-t") else None
        if moved is not None and moved.min() > y.min():  # what is learnt of them need not hold for smaller ones
            name = "none"
        some = slice(None) if moved is None else moved == y
        found = transforms.choose(name, features[some], y[some], settings.seed)
        return confirmed(found, features[some], y[some], noise, settings.seed) if name == "auto" else found

    def _possible_noise(self, wanted: str, y: np.ndarray, known: np.ndarray | None) -> str:
        """The noise to fit; "auto" where the rest of the problem allows other noise than Gaussian."""
        why = self._why_gaussian(y, known)
        if why and wanted not in ("auto", "gaussian"):
            raise ValueError(f"noise={wanted!r} needs {why}, or pass noise='gaussian'")
        if why or (wanted == "auto" and (len(y) < LEAST_ROWS or transforms.has_ties(y))):
            return "gaussian"
        return wanted

    def _why_gaussian(self, y: np.ndarray, known: np.ndarray | None) -> str:
        """What other noise than Gaussian needs and this problem has not; empty if nothing."""
        if y.ndim == 2:
            return "one target a row; fit each output by itself"
        if known is not None:
            return "noise that is not known; leave out noise_variance"
        return "one process" if distributed.is_multiprocess() else ""

    def _checked_noise(self, noise_variance, y: np.ndarray) -> np.ndarray | None:
        """Known noise variances (n,), or None."""
        if noise_variance is None:
            return None
        known = np.asarray(checks.not_negative("noise_variance", noise_variance, y.dtype), np.float64)
        if known.shape != (len(y),):
            raise ValueError(f"noise_variance must have shape ({len(y)},), one number a row; got {known.shape}")
        if y.ndim == 2:
            raise ValueError("noise_variance goes with one target a row; fit each output by itself")
        if self.target_transform not in ("auto", "none"):
            raise ValueError(
                f"noise_variance is in the units of the target itself, not of its {self.target_transform}; pass "
                "target_transform='none'"
            )
        return known

    def _leaves_it_open(self) -> bool:
        """Whether nothing that the user passed needs inducing points."""
        plain = self.n_inducing is None and self.bound is None and self.precision == "full"
        return plain and not distributed.is_multiprocess()

    def predict_distribution(self, X, include_noise=True) -> Prediction:
        """The distribution of a new target at each row, or with ``include_noise=False`` of the function behind it.

        Where targets were transformed, the function is the median of new targets.

        >>> model = tgp.SparseGPRegressor(n_inducing=16, max_iter=20).fit(X, y)
        >>> prediction = model.predict_distribution(X[:3])
        >>> low, high = prediction.interval(0.9)
        >>> bool(np.all((low < prediction.mean) & (prediction.mean < high)))
        True
        """
        features = self._features(X)
        shift, scale = self.target_mean_, np.asarray(self.target_scale_)
        if include_noise and self.noise_ is not None:
            return self._mixture(self.noise_, features, np.asarray(shift), scale)
        method = self.posterior_.predict_y if include_noise else self.posterior_.predict_f
        mean, var = on_padded_rows(partial(method, neighbours=self.neighbours_used()), features)
        sample = self.posterior_.sample_y if include_noise else self.posterior_.sample_f

        def draw(key, n_samples):
            neighbours = self.neighbours_used(jointly=features)
            return np.asarray(sample(key, features, n_samples, neighbours=neighbours)) * scale + shift

        return prediction_of(self.target_transform_, mean * scale + shift, np.sqrt(var) * scale, draw)

    def _mixture(self, noise: Noise, features: np.ndarray, shift: np.ndarray, scale: np.ndarray) -> MixturePrediction:
        """The distribution of new targets under noise that is not one Gaussian."""
        mean, var = on_padded_rows(partial(self.posterior_.predict_f, neighbours=self.neighbours_used()), features)
        found = noise.mixture(features, mean, var)

        def draw(key, n_samples):
            function_key, noise_key = jax.random.split(key)
            neighbours = self.neighbours_used(jointly=features)
            F = np.asarray(self.posterior_.sample_f(function_key, features, n_samples, neighbours=neighbours))
            return noise.draw(noise_key, features, mean, F) * scale + shift

        in_units = ScaleMixture(found.mean * scale + shift, found.variance * scale**2, found.log_weight)
        return MixturePrediction(self.target_transform_, in_units, draw)

    def traced_outputs(self):
        if not self.target_transform_.is_identity:
            raise ValueError(
                f"{self.target_transform_.describe()} An exported program has no such transform: fit with "
                "target_transform='none', or export posterior_, which predicts transformed and standardised targets"
            )
        if self.noise_ is not None:
            raise ValueError(
                f"{self.noise_.describe()} An exported program has no such noise: fit with noise='gaussian', or export "
                "posterior_, which predicts standardised targets"
            )
        return super().traced_outputs()

    def traced_predictions(self, features):
        mean, var = self.posterior_.predict_y(features, neighbours=self.neighbours_used())
        scale = np.asarray(self.target_scale_)
        return mean * scale + np.asarray(self.target_mean_), jnp.sqrt(var) * scale

    def predict(self, X, return_std=False, return_cov=False, include_noise=True):
        """Mean of a target at each row (n,) or (n, P); and if wanted its standard deviation, and the joint covariance.

        Both are those of a new target, or with ``include_noise=False`` of the function behind it. The covariance
        is (n, n) or (n, n, P), given the neighbours of all rows together; where these are more than 5000, given fewer
        of each row's. Asked for both, it returns mean, standard deviation, covariance. Where targets were transformed
        and noise is not one Gaussian, correlations are those of the transformed targets.
        """
        prediction = self.predict_distribution(X, include_noise)
        answer = [prediction.mean] + [prediction.sd] * bool(return_std)
        if return_cov:
            answer.append(self._covariance(self._features(X), prediction, include_noise))
        return tuple(answer) if len(answer) > 1 else prediction.mean

    def _covariance(self, features: np.ndarray, prediction: Prediction, include_noise: bool) -> np.ndarray:
        """The joint covariance of new targets, or of the function behind them."""
        noise = self.noise_ if include_noise else None
        method = self.posterior_.predict_y if include_noise and noise is None else self.posterior_.predict_f
        mean, cov = map(np.asarray, method(features, full_cov=True, neighbours=self.neighbours_used(jointly=features)))
        if noise is not None:
            cov = cov + np.diag(noise.variance(features, mean))
        cov = (cov if cov.ndim == 2 else np.moveaxis(cov, 0, 2)) * np.asarray(self.target_scale_) ** 2
        if isinstance(prediction, WarpedPrediction):
            return prediction.covariance(_correlation(cov))
        if noise is not None and not self.target_transform_.is_identity:
            return _correlation(cov) * prediction.sd[:, None] * prediction.sd
        return cov

    def neighbours_used(self, jointly: np.ndarray | None = None) -> int | None:
        """How many neighbours of each row a prediction uses, of single rows or of some jointly; None for none."""
        neighbours = _checked_neighbours(self.neighbours)
        if not neighbours or self.fitted_by_processes_ or isinstance(self.model_, ExactGP):
            return 0 if self.posterior_.training is not None else None
        if self.posterior_.training is None:
            raise ValueError(
                f"neighbours={neighbours!r} needs the training rows, which this model was fitted or saved without; "
                "set_params(neighbours=0) predicts from the inducing points alone"
            )
        count = self.posterior_.neighbours if isinstance(neighbours, str) else neighbours
        return count if jointly is None else self.posterior_.feasible_neighbours(jointly, count)


def _checked_neighbours(neighbours: Any) -> int | str:
    if isinstance(neighbours, str) and neighbours == "auto":
        return neighbours
    if isinstance(neighbours, str):
        raise ValueError(f"neighbours must be a whole number of at least 0, or 'auto'; got {neighbours!r}")
    return checks.seed("neighbours", neighbours)


def _of_positive_weight(X, y, sample_weight, noise_variance) -> tuple[Any, Any, np.ndarray, Any]:
    """The rows of positive weight, and their weights."""
    X = as_table(X)
    weights = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    keep = np.flatnonzero(weights > 0)
    if len(keep) < len(weights):
        if y is not None:
            y = _safe_indexing(y, keep)
        if noise_variance is not None:
            noise_variance = np.asarray(noise_variance)[keep]
        X = _safe_indexing(X, keep)
    return X, y, weights[keep], noise_variance


def _correlation(cov: np.ndarray) -> np.ndarray:
    """Correlations, given covariances (n, n) or (n, n, P)."""
    sd = np.sqrt(np.einsum("ii...->i...", cov))
    return cov / (sd[:, None] * sd[None])


def _plain(values: np.ndarray) -> Any:
    """An array of several outputs as it is, that of one as a number."""
    return values if np.ndim(values) else float(values)
