"""Classification, of two classes or more."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logit, ndtri
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets

from tightgp.data import Dataset
from tightgp.estimators import choice
from tightgp.estimators.base import SparseGP, ask
from tightgp.estimators.recipes import Variational
from tightgp.estimators.start import begin
from tightgp.likelihoods import Bernoulli, Likelihood, Softmax
from tightgp.means import Constant, Mean

#: Probabilities of several classes are means over so many times the likelihood's own hundred draws.
_REPEATS = 20
#: Rows whose probabilities are computed at a time.
_PART = 1024


class SparseGPClassifier(ClassifierMixin, SparseGP):
    """Sparse Gaussian process classification: one latent function for two classes, one for each of several.

    The labels may be anything that scikit-learn takes for classes; ``classes_`` lists them.

    Args:
        n_inducing: number of inducing points, at most the number of different rows; "auto" tries 32, 64, 128, ... up
            to ``max_inducing``, for as long as they help: until ``tolerance`` is met, or a new point gains less than
            0.1 nats.
        kernel: None is a Matérn-3/2 with a lengthscale for each feature; a name ("matern12", "matern32", "matern52",
            "squared_exponential", "rational_quadratic") another such kernel; or one of ``tightgp.kernels`` to start
            from, over standardised features.
        link: how the probability of the second of two classes follows from the function: "probit" or "logit".
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

    >>> probabilities = SparseGPClassifier().fit(X, labels).predict_proba(X_new)
    """

    def __init__(
        self,
        n_inducing=256,
        *,
        kernel=None,
        link="probit",
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
        self.kernel = kernel
        self.link = link
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

    def fit(self, X, y):
        """Train on rows ``X`` and labels ``y``."""
        settings = self._settings()
        Bernoulli(self.link)  # refuses what is no link
        encoding, features, y = self._learn_inputs(X, y)
        check_classification_targets(y)
        classes, codes, counts = np.unique(y, return_inverse=True, return_counts=True)
        if len(classes) < 2:
            raise ValueError(f"The number of classes has to be greater than one; got 1 class: {classes[0]}")
        likelihood, mean = _start(counts / len(y), self.link)
        data = Dataset(features, codes.astype(np.float64))
        indicators = (codes[:, None] == np.arange(1, len(classes))).astype(np.float64)
        kernel, _ = begin(self.kernel, encoding.feature_names, features, indicators, settings.seed)
        plan = choice.for_likelihood(settings, data.num_data)
        self._train(Variational(kernel, likelihood, self.bound, plan, mean), data, encoding, settings)
        self.classes_ = classes
        self.noise_variance_ = self.target_mean_ = self.target_scale_ = None
        return self

    def predict(self, X):
        """The most probable class of each row."""
        chosen = np.argmax(self.predict_log_proba(X), axis=1)
        return self.classes_[chosen]

    def predict_proba(self, X):
        """The probability of each class (n, C), in the order of ``classes_``."""
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X):
        """The logarithms of the classes' probabilities (n, C)."""
        features = self._features(X)
        mean, var = (a.reshape(len(features), -1) for a in ask(self.posterior_.predict_f, features))
        return ask(lambda *q: _log_probabilities(self.posterior_.likelihood, *q), mean, var)

    def log_density(self, X, y):
        """The log probability of each row's own label in ``y`` (n,)."""
        log_proba = self.predict_log_proba(X)
        labels = np.asarray(y)
        if labels.shape != (len(log_proba),):
            raise ValueError(f"y must have shape ({len(log_proba)},), a label for each row of X; got {labels.shape}")
        places = {label: i for i, label in enumerate(self.classes_.tolist())}
        chosen = [places.get(label, -1) for label in labels.tolist()]
        if -1 in chosen:
            row = chosen.index(-1)
            raise ValueError(f"y has {labels[row]} in row {row}, which is none of classes_: {self.classes_.tolist()}")
        return log_proba[np.arange(len(labels)), chosen]


def _start(rates: np.ndarray, link: str) -> tuple[Likelihood, Mean]:
    """The likelihood, and a mean at which every row has the classes' own rates."""
    if len(rates) == 2:
        return Bernoulli(link), Constant({"probit": ndtri, "logit": logit}[link](rates[1]))
    levels = np.log(rates)
    return Softmax(len(rates)), Constant(levels - levels.mean())


@eqx.filter_jit
def _log_probabilities(likelihood: Likelihood, mean, var):
    """Log probabilities (n, C) under Gaussian functions; a row's depend on that row alone."""
    if isinstance(likelihood, Bernoulli):
        return jnp.concatenate([likelihood.predictive_log_density(mean, var, c + 0 * mean) for c in (0.0, 1.0)], axis=1)
    keys = jax.random.split(jax.random.key(0), _REPEATS)

    def of_row(row):
        m, v = row
        draws = jax.lax.map(lambda key: likelihood.predict(m[None], v[None], key)[0][0], keys)
        return jnp.log(jnp.mean(draws, axis=0))

    return jax.lax.map(of_row, (mean, var), batch_size=_PART)
