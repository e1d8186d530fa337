"""Classification, of two classes or more."""

from dataclasses import KW_ONLY, dataclass

import jax.numpy as jnp
import numpy as np
from scipy.special import logit, ndtri
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from tightgp.data import Dataset
from tightgp.estimators import plan as plans
from tightgp.estimators.base import SparseGP
from tightgp.estimators.distributions import ClassPrediction, class_log_probabilities, on_padded_rows
from tightgp.estimators.recipes import Variational
from tightgp.estimators.start import begin
from tightgp.likelihoods import Bernoulli, Likelihood, Softmax
from tightgp.means import Constant, Mean


@dataclass(eq=False, repr=False)
class SparseGPClassifier(ClassifierMixin, SparseGP):
    """Sparse Gaussian process classification: one latent function for two classes, one for each of more.

    The labels may be any that scikit-learn accepts as classes; ``classes_`` lists them. X is an array of numbers or
    a pandas frame; missing cells, texts and dates are encoded (``encoding_``). Parameters and fitted attributes that
    are not listed here are those of `SparseGP`.

    Args:
        bound: "spherical" (None) or "standard".
        method: "full" (natural gradients on all rows), "minibatch", or "auto": on all rows up to 4000 of them.
        max_iter: steps on all rows (None: 500), or passes through the data (None: enough for 3000 batches).
        link: "probit" or "logit", which gives the probability of the second of two classes from the latent function.

    >>> model = tgp.SparseGPClassifier(n_inducing=8, max_iter=20).fit(X, np.where(y > 0, "up", "down"))
    >>> model.predict_proba(X[:2]).shape
    (2, 2)
    """

    _: KW_ONLY
    link: str = "probit"

    task = "classification"

    def fit(self, X, y):
        """Train on rows ``X`` and labels ``y``."""
        settings = self.check_parameters()
        Bernoulli(self.link)  # refuses an unknown link
        encoding, features, y = self._learn_inputs(X, y)
        check_classification_targets(y)
        classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        if len(classes) < 2:
            raise ValueError(f"The number of classes has to be greater than one; got 1 class: {classes[0]}")
        likelihood, mean = likelihood_and_mean(counts / len(y), self.link)
        data = Dataset(features, codes.astype(np.float64))
        indicators = (codes[:, None] == np.arange(1, len(classes))).astype(np.float64)
        kernel, _ = begin(self.kernel, encoding.feature_names, features, indicators, settings.seed)
        plan = plans.for_likelihood(settings, data.num_data)
        self._train(Variational(kernel, likelihood, self.bound, plan, mean), data, encoding, settings)
        self.classes_ = classes
        return self

    def predict_distribution(self, X) -> ClassPrediction:
        """The probability of each class at each row, in the order of ``classes_``."""
        features = self._features(X)
        return ClassPrediction(self.classes_, on_padded_rows(self._log_probabilities, features))

    def _log_probabilities(self, features):
        mean, var = (f.reshape(features.shape[0], -1) for f in self.posterior_.predict_f(features))
        return class_log_probabilities(self.posterior_.likelihood, mean, var)

    def traced_outputs(self):
        return ("probability",)

    def traced_predictions(self, features):
        return (jnp.exp(self._log_probabilities(features)),)

    def predict(self, X):
        """The most probable class of each row."""
        return self.predict_distribution(X).mode

    def predict_proba(self, X):
        """The probability of each class (n, C), in the order of ``classes_``."""
        return self.predict_distribution(X).probability

    def predict_log_proba(self, X):
        """The logarithms of the classes' probabilities (n, C)."""
        return self.predict_distribution(X).log_probability


def likelihood_and_mean(rates: np.ndarray, link: str) -> tuple[Likelihood, Mean]:
    """The likelihood, and the mean at which the probabilities are the classes' rates."""
    if len(rates) == 2:
        return Bernoulli(link), Constant({"probit": ndtri, "logit": logit}[link](rates[1]))
    log_rates = np.log(rates)
    return Softmax(len(rates)), Constant(log_rates - log_rates.mean())
