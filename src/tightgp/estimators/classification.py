"""Classification, of two classes or more, and of levels that have an order."""

from dataclasses import KW_ONLY, dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy.special import logit, ndtri
from sklearn.base import ClassifierMixin
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets

from tightgp import checks
from tightgp.data import Dataset
from tightgp.estimators import ordered
from tightgp.estimators import plan as plans
from tightgp.estimators.base import SparseGP
from tightgp.estimators.distributions import ClassPrediction, class_log_probabilities, on_padded_rows
from tightgp.estimators.recipes import Variational
from tightgp.estimators.start import begin
from tightgp.likelihoods import Bernoulli, Likelihood, Softmax
from tightgp.means import Constant, Mean, Zero

LIKELIHOODS = ("classes", "ordinal")


@dataclass(eq=False, repr=False)
class SparseGPClassifier(ClassifierMixin, SparseGP):
    """Sparse Gaussian process classification: one latent function for two classes, one for each of more.

    Ordered levels (ratings, grades, stages) have one latent function, and edges between the levels that are learnt.

    The labels may be any that scikit-learn accepts as classes; ``classes_`` lists those of the training rows, ordered
    levels from the lowest to the highest. X is an array of numbers or
    a pandas frame; missing cells, texts and dates are encoded (``encoding_``). Parameters and fitted attributes that
    are not listed here are those of `SparseGP`.

    Args:
        bound: "spherical" (None) or "standard".
        method: "full" (natural gradients on all rows), "minibatch", or "auto": on all rows up to 4000 of them.
        max_iter: steps on all rows (None: 500), or passes through the data (None: enough for 3000 batches).
        link: "probit" or "logit", which gives the probability of the second of two classes from the latent function.
        likelihood: "classes", or "ordinal" for levels that have an order: that of numbers, of ``levels``, or of an
            ordered pandas Categorical. Two levels are two classes.
        levels: the labels of ordered levels, lowest first; None where numbers or a Categorical say their order.

    >>> model = tgp.SparseGPClassifier(n_inducing=8, max_iter=20).fit(X, np.where(y > 0, "up", "down"))
    >>> model.predict_proba(X[:2]).shape
    (2, 2)
    >>> grades = np.array(["poor", "fair", "good"])[np.digitize(y, [-0.5, 0.5])]
    >>> order = ["poor", "fair", "good"]
    >>> model = tgp.SparseGPClassifier(n_inducing=8, max_iter=20, likelihood="ordinal", levels=order).fit(X, grades)
    >>> model.classes_.tolist()
    ['poor', 'fair', 'good']
    """

    _: KW_ONLY
    link: str = "probit"
    likelihood: str = "classes"
    levels: Any = None

    task = "classification"

    def fit(self, X, y):
        """Train on rows ``X`` and labels ``y``."""
        settings = self.check_parameters()
        self._check_likelihood()
        order = ordered.declared_order(self.levels, y) if self.is_ordinal else None
        encoding, features, y = self._learn_inputs(X, y)
        if order is None:
            check_classification_targets(y)
        if self.is_ordinal:
            classes, codes, counts = ordered.find_levels(y, order)
        else:
            classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        if len(classes) < 2:
            raise ValueError(f"The number of classes has to be greater than one; got 1 class: {classes[0]}")
        data = Dataset(features, codes.astype(np.float64))
        one_function = self.is_ordinal and len(classes) > 2
        # What the start is chosen by: a number for each level, or an indicator of each class but the first.
        numbers = ordered.normal_scores(counts)[:, None] if one_function else np.eye(len(classes))[:, 1:]
        kernel, _ = begin(self.kernel, encoding.feature_names, features, numbers[codes], settings.seed)
        likelihood, mean = likelihood_and_mean(counts / len(y), self.link)
        if one_function:
            variance = float(jnp.mean(kernel.variances(jnp.asarray(features))))
            likelihood, mean = ordered.likelihood_of_levels(counts / len(y), variance), Zero()
        plan = plans.for_likelihood(settings, data.num_data)
        self._train(Variational(kernel, likelihood, self.bound, plan, mean), data, encoding, settings)
        self.classes_ = classes
        return self

    @property
    def is_ordinal(self) -> bool:
        """Whether the classes have an order."""
        return self.likelihood == "ordinal"

    def _check_likelihood(self) -> None:
        Bernoulli(self.link)  # refuses an unknown link
        checks.choice("likelihood", self.likelihood, LIKELIHOODS)
        if self.is_ordinal and self.link != "probit":
            raise ValueError(f"link must be 'probit' for likelihood='ordinal'; got {self.link!r}")
        if self.levels is not None and not self.is_ordinal:
            raise ValueError(f"levels goes with likelihood='ordinal'; got it with likelihood={self.likelihood!r}")

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

    def score(self, X, y, sample_weight=None):
        """The share of rows, or of their weights, whose most probable class is that in ``y`` (n,)."""
        right = self.predict(X) == column_or_1d(y)
        return float(np.average(right, weights=sample_weight))

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
