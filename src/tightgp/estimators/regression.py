"""Regression with Gaussian noise."""

import warnings
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin

from tightgp import checks, distributed
from tightgp.data import Dataset
from tightgp.data.scaling import check_targets, mean_and_scale
from tightgp.estimators import plan as plans
from tightgp.estimators import target_transform as transforms
from tightgp.estimators.base import NumberPredictions, SparseGP
from tightgp.estimators.distributions import Prediction, WarpedPrediction, on_padded_rows, prediction_of
from tightgp.estimators.exact import Exact
from tightgp.estimators.recipes import Collapsed, Recipe, Variational
from tightgp.estimators.settings import DEFAULT_KERNEL, Settings
from tightgp.estimators.start import Start, begin, noise_alone, search
from tightgp.kernels import Kernel
from tightgp.likelihoods import Gaussian
from tightgp.means import Zero
from tightgp.models import ExactGP
from tightgp.models.sgpr import PRECISIONS
from tightgp.numerics.threads import one_blas_thread

#: From how many nearest rows to predict, of which ``neighbours="auto"`` takes the best.
NEIGHBOURS = (16, 64, 128)
#: Fewer neighbours, which are quicker, are preferred to a gain of less than so many nats a row.
_LITTLE = 0.01
#: Nats that a model must gain on noise alone to have found anything.
_SIGNAL = 1.0
#: Reasons why training ended before it was done, so that its result says nothing of the inputs.
_CUT_SHORT = ("step limit", "time limit", "callback", "interrupted")
#: The share of a time limit after which the search for a start ends.
_SEARCHING = 0.4


@dataclass(eq=False, repr=False)
class SparseGPRegressor(NumberPredictions, RegressorMixin, SparseGP):
    """Sparse Gaussian process regression.

    X is an array of numbers or a pandas frame; missing cells, texts and dates are encoded (``encoding_``). y is (n,)
    or (n, P); several outputs share kernel and noise. Targets are standardised inside; every answer is in their own
    units. What is said of the bound (``objective_``, ``evidence_bracket_``, ``inducing_path_``, ``trace_``) is in nats,
    of the standardised targets. Parameters and fitted attributes that are not listed here are those of `SparseGP`.

    Several processes that `tightgp.distributed.start` joined fit one model, each to the rows that it passes: by the
    collapsed bound, "diagonal" where ``bound`` is None, and without neighbours.

    Up to 2000 rows it is the exact GP, above that "vecchia" with 64 inducing points; parameters override this rule.
    Where these points are more numbers than there are rows, because X has many columns, they are not trained.

    Args:
        n_inducing: number of inducing points (None: none up to 2000 rows, else 64), or "auto".
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

    Attributes:
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

    def fit(self, X, y, *, noise_variance=None):
        """Train on rows ``X`` and targets ``y``; where several processes do, on the rows of all of them.

        ``noise_variance`` (n,) is a part of each row's noise that is known, in the targets' units squared, such as the
        square of a measurement's standard error. The rest is learnt, and is that of new targets. A row that stands for
        the mean of w others has the known noise s²/w, if s² is that of one of them.
        """
        settings = self.check_parameters()
        encoding, features, y = self._learn_inputs(X, y, multi_output=True, y_numeric=True)
        y = np.asarray(y, np.float64)
        distributed.check_same("the number of columns of y", str(y.shape[1:]).encode())
        known = self._checked_noise(noise_variance, y)
        transform = self.target_transform if known is None else "none"
        check_targets(distributed.gather(y))
        with one_blas_thread():
            self.target_transform_ = transforms.choose(transform, features, y, settings.seed)
        y = self.target_transform_.forward(y)
        # Rows with much known noise say little about the mean and the scale.
        mean, scale = mean_and_scale(distributed.gather(y if known is None else y[known <= np.median(known)]))
        data = Dataset(features, (y - mean) / scale, None if known is None else known / np.square(scale))
        num_data = distributed.total_count(data.num_data)
        self.fitted_by_processes_ = distributed.is_multiprocess()
        plan = plans.for_regression(settings, num_data, exact=known is None and self._leaves_it_open())
        keep_rows = self.neighbours != 0 and not self.fitted_by_processes_ and plan.method != "exact"
        start = self._start(encoding.feature_names, features, data, settings)
        kernel, noise = start.kernel, start.noise
        recipe: Recipe | Exact
        if plan.method == "exact":
            own = isinstance(self.kernel, Kernel) or known is not None
            recipe = Exact(start, plan, None if own else str(self.kernel or DEFAULT_KERNEL))
        elif plan.method == "collapsed":
            plain = self.fitted_by_processes_ or self.precision != "full"
            bound = self.bound or ("diagonal" if plain else "vecchia" if keep_rows else "neighbours")
            fixed = self.n_inducing is None and self._inducing * data.num_inputs > num_data
            recipe = Collapsed(kernel, bound, plan, noise, keep_rows, self.precision, start.others, fixed)
        else:
            self._check_minibatch()
            bound, likelihood = self.bound or "diagonal", Gaussian(noise)
            recipe = Variational(kernel, likelihood, bound, plan, Zero(), data.num_outputs, keep_rows)
        self._train(recipe, data, encoding, settings)
        self._compare_with_noise(data, start)
        if keep_rows:
            if self.neighbours == "auto":
                self.posterior_ = self.posterior_.with_best_neighbours(
                    NEIGHBOURS, num_rows=500, seed=settings.seed, tolerance=_LITTLE
                )
            used = self.posterior_.neighbours if self.neighbours == "auto" else min(self.neighbours, num_data)
            self.training_ += f" Predictions also use the {used} nearest training rows."
        elif self.neighbours and plan.method != "exact":
            self.training_ += " Predictions use the inducing points alone: several processes keep no training rows."
        if not self.target_transform_.is_identity:
            self.training_ += f" {self.target_transform_.describe()}"
        noise = np.asarray(self.posterior_.noise_variance) * scale**2
        self.target_mean_, self.target_scale_, self.noise_variance_ = map(_plain, (mean, scale, noise))
        return self

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

    def _start(self, names: tuple[str, ...], features: np.ndarray, data: Dataset, settings: Settings) -> Start:
        if distributed.is_multiprocess():
            return Start(*begin(self.kernel, names, features, data.targets, settings.seed))
        with one_blas_thread():
            return search(self.kernel, names, data, settings, settings.part_of_time(_SEARCHING))

    def _compare_with_noise(self, data: Dataset, start: Start) -> None:
        """Say so if the model is no better than noise alone."""
        alone = noise_alone(data.targets)
        cut_short = self.stop_reason_ in _CUT_SHORT
        if self.fitted_by_processes_ or cut_short or not np.isfinite(alone) or self.objective_ >= alone + _SIGNAL:
            return
        told = "The inputs seem to say nothing about the target: the objective is no better than that of noise alone"
        warnings.warn(f"{told} ({self.objective_:.6g} and {alone:.6g} nats; tried {start.tried})", stacklevel=3)

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
        method = self.posterior_.predict_y if include_noise else self.posterior_.predict_f
        mean, var = on_padded_rows(partial(method, neighbours=self._neighbours_used()), features)
        sample = self.posterior_.sample_y if include_noise else self.posterior_.sample_f

        def draw(key, n_samples):
            neighbours = self._neighbours_used(jointly=features)
            return np.asarray(sample(key, features, n_samples, neighbours=neighbours)) * scale + shift

        return prediction_of(self.target_transform_, mean * scale + shift, np.sqrt(var) * scale, draw)

    def predict(self, X, return_std=False, return_cov=False, include_noise=True):
        """Mean of a target at each row (n,) or (n, P); and if wanted its standard deviation, and the joint covariance.

        Both are those of a new target, or with ``include_noise=False`` of the function behind it. The covariance
        is (n, n) or (n, n, P), given the neighbours of all rows together; where these are more than 5000, given fewer
        of each row's. Asked for both, it returns mean, standard deviation, covariance.
        """
        prediction = self.predict_distribution(X, include_noise)
        answer = [prediction.mean] + [prediction.sd] * bool(return_std)
        if return_cov:
            features = self._features(X)
            method = self.posterior_.predict_y if include_noise else self.posterior_.predict_f
            cov = np.asarray(method(features, full_cov=True, neighbours=self._neighbours_used(jointly=features))[1])
            cov = (cov if cov.ndim == 2 else np.moveaxis(cov, 0, 2)) * np.asarray(self.target_scale_) ** 2
            if isinstance(prediction, WarpedPrediction):
                cov = prediction.covariance(_correlation(cov))
            answer.append(cov)
        return tuple(answer) if len(answer) > 1 else prediction.mean

    def _neighbours_used(self, jointly: np.ndarray | None = None) -> int | None:
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


def _correlation(cov: np.ndarray) -> np.ndarray:
    """Correlations, given covariances (n, n) or (n, n, P)."""
    sd = np.sqrt(np.einsum("ii...->i...", cov))
    return cov / (sd[:, None] * sd[None])


def _plain(values: np.ndarray) -> Any:
    """An array of several outputs as it is, that of one as a number."""
    return values if np.ndim(values) else float(values)
