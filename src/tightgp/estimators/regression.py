"""Regression with Gaussian noise."""

from functools import partial

import numpy as np
from jax import random
from scipy.special import ndtr, ndtri
from sklearn.base import RegressorMixin

from tightgp import checks, distributed, local
from tightgp.data import Dataset
from tightgp.estimators import choice
from tightgp.estimators.base import SparseGP, ask, ends_of, levels_of, targets_like
from tightgp.estimators.recipes import Collapsed, Recipe, Variational
from tightgp.estimators.settings import seed_of
from tightgp.estimators.start import begin
from tightgp.likelihoods import Gaussian
from tightgp.means import Zero
from tightgp.models.sgpr import PRECISIONS


class SparseGPRegressor(RegressorMixin, SparseGP):
    """Sparse Gaussian process regression.

    Targets are standardised inside; every answer is in their own units. What is said of the bound (``objective_``,
    ``evidence_bracket_``, ``inducing_path_``, ``trace_``) is in nats, of the standardised targets.

    Args:
        n_inducing: number of inducing points, at most the number of different rows; "auto" tries 32, 64, 128, ... up
            to ``max_inducing``, for as long as they help: until ``tolerance`` is met, or a new point gains less than
            0.1 nats.
        kernel: None is a Matérn-3/2 with a lengthscale for each feature; a name ("matern12", "matern32", "matern52",
            "squared_exponential", "rational_quadratic") another such kernel; or one of ``tightgp.kernels`` to start
            from, over standardised features.
        bound: "standard", "spherical", "diagonal", "block", "power_ep", or an object such as ``tightgp.Block(32)`` or
            ``tightgp.PowerEP(0.5, block=64)``, which is no bound. None is blocks of 64 neighbours with "collapsed", and
            "diagonal" with "minibatch".
        neighbours: each prediction also uses this many of the nearest training rows, which the model keeps for it;
            0 predicts from the inducing points alone and keeps no row.
        precision: "full", or "mixed": training with "collapsed" makes the kernel values between rows and inducing
            points in float32, and keeps sums over rows and all small factors in float64.
        method: "collapsed" (L-BFGS on all rows), "minibatch" (natural gradients and Adam), or "auto": the collapsed
            bound where rows × inducing points² is at most 7e9, about a second an evaluation on two cores.
        max_iter: most iterations of L-BFGS (None: 400), or passes through the data (None: enough for 3000 batches).
        batch_size: rows of a minibatch.
        learning_rate: Adam's, for the first half of minibatch training; then it falls to a hundredth.
        max_inducing: most inducing points under ``n_inducing="auto"``.
        tolerance: nats a row. "auto" stops where the evidence bracket is narrower than this; with minibatches, which
            have none, where the last new points gained less.
        random_state: decides first inducing points and order of minibatches.
        checkpoint: a folder for unfinished work; a fit that was killed goes on from there with ``resume=True``.
        resume: go on from ``checkpoint``, which stays until it is removed.
        verbose: 1 shows progress, and each number of inducing points that was tried.

    X is an array of numbers or a pandas frame; missing cells, texts and dates are encoded (``encoding_``). y is (n,)
    or (n, P); several outputs share kernel and noise.

    Several processes that `tightgp.distributed.start` joined fit one model, each to the rows that it passes: by the
    collapsed bound, "diagonal" where ``bound`` is None, and without neighbours.

    >>> model = SparseGPRegressor().fit(X, y)
    >>> mean, sd = model.predict(X_new, return_std=True)
    """

    neighbours = 0  # of models from before there were any
    precision = "full"  # likewise
    _together = True

    def __init__(
        self,
        n_inducing=256,
        *,
        kernel=None,
        bound=None,
        neighbours=64,
        precision="full",
        method="auto",
        max_iter=None,
        batch_size=1024,
        learning_rate=0.1,
        max_inducing=1024,
        tolerance=0.01,
        random_state=0,
        checkpoint=None,
        resume=False,
        verbose=0,
    ):
        self.n_inducing = n_inducing
        self.kernel = kernel
        self.bound = bound
        self.neighbours = neighbours
        self.precision = precision
        self.method = method
        self.max_iter = max_iter
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.max_inducing = max_inducing
        self.tolerance = tolerance
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.resume = resume
        self.verbose = verbose

    def _methods(self):
        return ("collapsed", "minibatch")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags

    def check_parameters(self):
        self._settings()
        checks.seed("neighbours", self.neighbours)
        checks.choice("precision", self.precision, PRECISIONS)
        if self.method == "minibatch":
            self._check_minibatch()
            if distributed.several():
                raise ValueError('several processes do not train by minibatches; use method="collapsed"')

    def _check_minibatch(self):
        if self.precision != "full":
            raise ValueError(
                f'precision={self.precision!r} goes with method="collapsed", and minibatches are in full precision; '
                'pass method="collapsed", or precision="full"'
            )

    def fit(self, X, y):
        """Train on rows ``X`` and targets ``y``; where several processes do, on the rows of all of them."""
        self.check_parameters()
        settings = self._settings()
        encoding, features, y = self._learn_inputs(X, y, multi_output=True, y_numeric=True)
        y = np.asarray(y, np.float64)
        mean, scale = _standard(y)
        data = Dataset(features, (y - mean) / scale)
        kernel, noise = begin(self.kernel, encoding.feature_names, features, data.targets, settings.seed)
        num_data = distributed.total_count(data.num_data)
        plan = choice.for_regression(settings, num_data)
        self.by_several_ = distributed.several()
        keep = self.neighbours > 0 and not self.by_several_
        if plan.method == "collapsed":
            bound = self.bound or ("diagonal" if distributed.several() else "block")
            recipe: Recipe = Collapsed(kernel, bound, plan, noise, keep, self.precision)
        else:
            self._check_minibatch()
            likelihood = Gaussian(noise)
            recipe = Variational(kernel, likelihood, self.bound or "diagonal", plan, Zero(), data.num_outputs, keep)
        self._train(recipe, data, encoding, settings)
        if keep:
            self.training_ += f" Predictions also use the {min(self.neighbours, num_data)} nearest training rows."
        elif self.neighbours:
            self.training_ += " Predictions use the inducing points alone: several processes keep no training rows."
        self.target_mean_, self.target_scale_ = _plain(mean), _plain(scale)
        self.noise_variance_ = _plain(np.asarray(self.posterior_.noise_variance) * scale**2)
        return self

    def predict(self, X, return_std=False, return_cov=False, include_noise=True):
        """Mean of a target at each row (n,) or (n, P); and if wanted its standard deviation, and the joint covariance.

        Both are those of a new target, or with ``include_noise=False`` of the function behind it. The covariance
        is (n, n) or (n, n, P), given the neighbours of all rows together; where these are more than 5000, given fewer
        of each row's. Asked for both, it returns mean, standard deviation, covariance.
        """
        features = self._features(X)
        scale = np.asarray(self.target_scale_)
        mean, sd = self._marginals(features, include_noise)
        answer = [mean] + [sd] * bool(return_std)
        if return_cov:
            ask_jointly = self.posterior_.predict_y if include_noise else self.posterior_.predict_f
            cov = np.asarray(ask_jointly(features, full_cov=True, neighbours=self._near(features))[1])
            answer.append((cov if cov.ndim == 2 else np.moveaxis(cov, 0, 2)) * scale**2)
        return tuple(answer) if len(answer) > 1 else mean

    def predict_quantile(self, X, q):
        """Quantiles of a new target: (n,) or (n, P) for a number ``q``, with a last axis for a list."""
        levels, one = levels_of(q)
        mean, sd = self._marginals(self._features(X))
        answer = mean[..., None] + sd[..., None] * ndtri(levels)
        return answer[..., 0] if one else answer

    def predict_interval(self, X, level=0.95):
        """Lower and upper ends of central intervals that hold a new target with probability ``level``."""
        ends = self.predict_quantile(X, ends_of(level))
        return ends[..., 0], ends[..., 1]

    def predict_cdf(self, X, y):
        """Probability that a new target at each row is at most ``y``, one number or one for each."""
        mean, sd = self._marginals(self._features(X))
        return ndtr((targets_like("y", y, mean.shape) - mean) / sd)

    def log_density(self, X, y):
        """Log density of each target under its predictive distribution, in the shape of ``y``."""
        features = self._features(X)
        y = targets_like("y", y, (len(features), *np.shape(self.target_mean_)))
        standardised = (y - self.target_mean_) / self.target_scale_
        method = partial(self.posterior_.log_density, neighbours=self._near())
        return ask(method, features, standardised) - np.log(self.target_scale_)

    def sample_y(self, X, n_samples=1, random_state=0):
        """Joint draws of new targets: (n, n_samples), or (n, P, n_samples)."""
        checks.count("n_samples", n_samples)
        features = self._features(X)
        key, near = random.key(seed_of(random_state)), self._near(features)
        draws = np.asarray(self.posterior_.sample_y(key, features, n_samples, neighbours=near))
        return np.moveaxis(draws * self.target_scale_ + self.target_mean_, 0, -1)

    def _marginals(self, features, include_noise=True) -> tuple[np.ndarray, np.ndarray]:
        method = self.posterior_.predict_y if include_noise else self.posterior_.predict_f
        mean, var = ask(partial(method, neighbours=self._near()), features)
        return mean * self.target_scale_ + self.target_mean_, np.sqrt(var) * self.target_scale_

    def _near(self, jointly: np.ndarray | None = None) -> int | None:
        """How many neighbours of each row a prediction uses, also of some rows together; None predicts without."""
        checks.seed("neighbours", self.neighbours)
        if getattr(self, "by_several_", False):
            return None
        if self.neighbours and self.posterior_.training is None:
            raise ValueError(
                f"neighbours={self.neighbours} needs the training rows, which this model was fitted or saved without; "
                "set_params(neighbours=0) predicts from the inducing points alone"
            )
        if jointly is None or not self.neighbours:
            return self.neighbours or None
        return local.feasible(self.posterior_, jointly, self.neighbours) or None


def _standard(y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of all targets."""
    if distributed.several():
        distributed.check_same("the number of columns of y", str(y.shape[1:]).encode())
        y = distributed.gather(y)
    return y.mean(axis=0), _spread(y)


def _spread(y: np.ndarray) -> np.ndarray:
    """Standard deviations; one where targets differ by rounding alone."""
    spread = y.std(axis=0)
    return np.where(spread > 16 * np.finfo(np.float64).eps * np.abs(y).max(axis=0), spread, 1.0)


def _plain(value: np.ndarray):
    return value if np.ndim(value) else float(value)
