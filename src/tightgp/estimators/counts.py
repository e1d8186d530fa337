"""Regression of counts."""

from dataclasses import KW_ONLY, dataclass

import jax.numpy as jnp
import numpy as np
from sklearn.base import RegressorMixin

from tightgp import checks
from tightgp.data import Dataset
from tightgp.estimators import plan as plans
from tightgp.estimators.base import NumberPredictions, SparseGP
from tightgp.estimators.count_choice import compare_counts
from tightgp.estimators.distributions import CountPrediction, on_padded_rows
from tightgp.estimators.recipes import Variational
from tightgp.estimators.start import begin
from tightgp.likelihoods import Likelihood, NegativeBinomial, Poisson, ZeroInflated
from tightgp.means import Constant

LIKELIHOODS = ("auto", "poisson", "negative_binomial", "zero_inflated_poisson", "zero_inflated_negative_binomial")


@dataclass(eq=False, repr=False)
class SparseGPCountRegressor(NumberPredictions, RegressorMixin, SparseGP):
    """Sparse Gaussian process regression of counts 0, 1, 2, ..., whose log rate is a Gaussian process.

    X is an array of numbers or a pandas frame; missing cells, texts and dates are encoded (``encoding_``). Parameters
    and fitted attributes that are not listed here are those of `SparseGP`.

    Args:
        bound: "spherical" (None) or "standard".
        method: "full" (natural gradients on all rows), "minibatch", or "auto": on all rows up to 4000 of them.
        max_iter: steps on all rows (None: 500), or passes through the data (None: enough for 3000 batches).
        likelihood: "poisson", "negative_binomial" for counts with more variance than Poisson, "zero_inflated_poisson"
            or "zero_inflated_negative_binomial" for more zeros than these have, or "auto": the one that predicts some
            left-out rows best.

    >>> model = tgp.SparseGPCountRegressor(n_inducing=8, max_iter=20).fit(X, np.round(np.exp(1 + y)))
    >>> low, high = model.predict_interval(X[:2], level=0.9)
    >>> bool(np.all(low <= high))
    True
    """

    _: KW_ONLY
    likelihood: str = "auto"

    task = "counts"

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    def fit(self, X, y):
        """Train on rows ``X`` and counts ``y``."""
        settings = self.check_parameters()
        checks.choice("likelihood", self.likelihood, LIKELIHOODS)
        encoding, features, y = self._learn_inputs(X, y, y_numeric=True)
        y = np.asarray(y, np.float64)
        Poisson().check_targets(y[:, None])
        auto = self.likelihood == "auto"
        name = compare_counts(features, y, settings.seed).counts if auto else self.likelihood
        likelihood, log_rate = likelihood_and_log_rate(y, name)
        data = Dataset(features, y)
        kernel, _ = begin(self.kernel, encoding.feature_names, features, np.log1p(y)[:, None], settings.seed)
        plan = plans.for_likelihood(settings, data.num_data)
        self._train(Variational(kernel, likelihood, self.bound, plan, Constant(log_rate)), data, encoding, settings)
        return self

    def predict_distribution(self, X) -> CountPrediction:
        """The distribution of a new count at each row."""
        features = self._features(X)
        mean, var = on_padded_rows(self.posterior_.predict_f, features)

        def draw(key, n_samples):
            return np.asarray(self.posterior_.sample_y(key, features, n_samples))

        return CountPrediction(self.posterior_.likelihood, mean[:, None], var[:, None], draw)

    def traced_predictions(self, features):
        mean, var = self.posterior_.predict_y(features)
        return mean, jnp.sqrt(var)

    def predict(self, X, return_std=False):
        """Mean of a new count at each row (n,); and if wanted its standard deviation."""
        prediction = self.predict_distribution(X)
        return (prediction.mean, prediction.sd) if return_std else prediction.mean


def likelihood_and_log_rate(y: np.ndarray, name: str) -> tuple[Likelihood, float]:
    """The likelihood, and the log rate of all rows together."""
    mean = (y.sum() + 0.5) / len(y)  # half a count keeps the log finite if all are zero
    if name.startswith("zero_inflated_"):
        positive = y[y > 0] if np.any(y > 0) else np.ones(1)
        by_chance = np.exp(-positive.mean())
        share = float(np.clip((np.mean(y == 0) - by_chance) / (1 - by_chance), 0.05, 0.95))
        counts, log_rate = likelihood_and_log_rate(positive, name.removeprefix("zero_inflated_"))
        return ZeroInflated(counts, share), log_rate
    if name == "poisson":
        return Poisson(), float(np.log(mean))
    extra = (y.var() - mean) / mean**2
    return NegativeBinomial(float(np.clip(extra, 0.01, 10.0))), float(np.log(mean))
