"""Regression of counts."""

from typing import Any

import numpy as np
from jax import random
from sklearn.base import RegressorMixin

from tightgp import checks
from tightgp.data import Dataset
from tightgp.estimators import choice
from tightgp.estimators.base import SparseGP, ask, ends_of, levels_of, targets_like
from tightgp.estimators.recipes import Variational
from tightgp.estimators.settings import seed_of
from tightgp.estimators.start import begin
from tightgp.likelihoods import Likelihood, NegativeBinomial, Poisson
from tightgp.means import Constant

LIKELIHOODS = ("poisson", "negative_binomial")


class SparseGPCountRegressor(RegressorMixin, SparseGP):
    """Sparse Gaussian process regression of counts: whole numbers from 0 on, whose log rate is a Gaussian process.

    Args:
        n_inducing: number of inducing points, at most the number of different rows; "auto" tries 32, 64, 128, ... up
            to ``max_inducing``, for as long as they help: until ``tolerance`` is met, or a new point gains less than
            0.1 nats.
        likelihood: "poisson", or "negative_binomial" for counts that vary more than their rate says.
        kernel: None is a Matérn-3/2 with a lengthscale for each feature; a name ("matern12", "matern32", "matern52",
            "squared_exponential", "rational_quadratic") another such kernel; or one of ``tightgp.kernels`` to start
            from, over standardised features.
        bound: "spherical" (None) or "standard".
        method: "full" (natural gradients on all rows), "minibatch", or "auto": on all rows up to 4000 of them.
        max_iter: steps on all rows (None: 500), or passes through the data (None: enough for 3000 batches).
        batch_size: rows of a minibatch.
        learning_rate: Adam's, for the first half of training; then it falls to a hundredth.
        max_inducing: most inducing points under ``n_inducing="auto"``.
        tolerance: nats a row of the bound; "auto" stops where the last new points gained less.
        random_state: decides first inducing points and order of minibatches.
        checkpoint: a folder for unfinished work; a fit that was killed goes on from there with ``resume=True``.
        resume: go on from ``checkpoint``, which stays until it is removed.
        verbose: 1 shows progress, and each number of inducing points that was tried.

    X is an array of numbers or a pandas frame; missing cells, texts and dates are encoded (``encoding_``).

    >>> low, high = SparseGPCountRegressor().fit(X, counts).predict_interval(X_new, level=0.9)
    """

    def __init__(
        self,
        n_inducing=256,
        *,
        likelihood="poisson",
        kernel=None,
        bound=None,
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
        self.likelihood = likelihood
        self.kernel = kernel
        self.bound = bound
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
        return ("full", "minibatch")

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def fit(self, X, y):
        """Train on rows ``X`` and counts ``y``."""
        settings = self._settings()
        checks.choice("likelihood", self.likelihood, LIKELIHOODS)
        encoding, features, y = self._learn_inputs(X, y, y_numeric=True)
        y = np.asarray(y, np.float64)
        Poisson().check_targets(y[:, None])
        likelihood, level = _start(y, self.likelihood)
        data = Dataset(features, y)
        kernel, _ = begin(self.kernel, encoding.feature_names, features, np.log1p(y)[:, None], settings.seed)
        plan = choice.for_likelihood(settings, data.num_data)
        self._train(Variational(kernel, likelihood, self.bound, plan, Constant(level)), data, encoding, settings)
        self.noise_variance_ = self.target_mean_ = self.target_scale_ = None
        return self

    def predict(self, X, return_std=False):
        """Mean of a new count at each row (n,); and if wanted its standard deviation."""
        features = self._features(X)
        mean, var = ask(self.posterior_.predict_y, features)
        return (mean, np.sqrt(var)) if return_std else mean

    def predict_quantile(self, X, q):
        """Quantiles of a new count, the smallest that reach their level: (n,) for a number ``q``, else (n, len(q))."""
        levels, one = levels_of(q)
        mean, var = self._latents(X)
        likelihood: Any = self.posterior_.likelihood
        columns = [likelihood.predictive_quantile(mean, var, level) for level in levels]
        return columns[0][:, 0] if one else np.concatenate(columns, axis=1)

    def predict_interval(self, X, level=0.95):
        """Lower and upper ends of central intervals that hold a new count with probability ``level`` or more."""
        ends = self.predict_quantile(X, ends_of(level))
        return ends[:, 0], ends[:, 1]

    def predict_cdf(self, X, y):
        """Probability that a new count at each row is at most ``y``, one number or one for each."""
        mean, var = self._latents(X)
        y = targets_like("y", y, (len(mean),))
        return self.posterior_.likelihood.predictive_cdf(mean, var, y[:, None])[:, 0]

    def log_density(self, X, y):
        """Log probability of each count under its predictive distribution (n,)."""
        features = self._features(X)
        y = targets_like("y", y, (len(features),))
        self.posterior_.likelihood.check_targets(y[:, None])
        return ask(self.posterior_.log_density, features, y)

    def sample_y(self, X, n_samples=1, random_state=0):
        """Draws of new counts, given joint draws of their rates: (n, n_samples)."""
        checks.count("n_samples", n_samples)
        features = self._features(X)
        return np.asarray(self.posterior_.sample_y(random.key(seed_of(random_state)), features, n_samples)).T

    def _latents(self, X) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the log rate, (n, 1)."""
        features = self._features(X)
        mean, var = ask(self.posterior_.predict_f, features)
        return mean[:, None], var[:, None]


def _start(y: np.ndarray, name: str) -> tuple[Likelihood, float]:
    """The likelihood, and the log rate of all rows alike; half a count keeps it finite where all are zero."""
    mean = (y.sum() + 0.5) / len(y)
    if name == "poisson":
        return Poisson(), float(np.log(mean))
    extra = (y.var() - mean) / mean**2
    return NegativeBinomial(float(np.clip(extra, 0.01, 10.0))), float(np.log(mean))
