"""Fitted estimators in closed form, with the attributes and methods that the report uses."""

import numpy as np
from scipy import stats

from tightgp import EvidenceBracket
from tightgp.bounds.structures import DIAGONAL
from tightgp.estimators.base import NumberPredictions
from tightgp.estimators.distributions import ClassPrediction, GaussianPrediction, Prediction
from tightgp.estimators.encoding import Encoding


class _Fake:
    inducing_path_ = ()
    inducing_message_ = ""
    noise_variance_ = None
    is_bound = True

    def get_params(self, deep=True):
        return {"kernel": "matern52", "n_inducing": "auto", "random_state": 0}

    def log_density(self, X, y):
        return self.predict_distribution(X).log_density(np.asarray(y))

    def _learn_features(self, X):
        """The features of the training rows. Sets the attributes that all estimators have."""
        self.encoding_ = Encoding.fit(X)
        steps = 60
        self.trace_ = {
            "objective": -500.0 - 4000.0 * np.exp(-np.arange(steps) / 3.0),
            "gradient_norm": np.exp(-np.arange(steps) / 9.0),
        }
        self.objective_, self.converged_ = -500.0, True
        self.stop_reason_, self.message_ = "tolerance", "relative gain below 1e-9"
        self.seconds_, self.n_iter_, self.n_inducing_ = 3.21, steps, 64
        self.training_ = "L-BFGS on all rows, since they fit in memory."
        self.evidence_bracket_, self.scales_ = None, None
        names = [column.name for column in self.encoding_.columns]
        self.relevance_ = {name: 2.0 / (1 + i) ** 2 for i, name in enumerate(names)}
        self.model_ = Model()
        return self._features(X)

    def _features(self, X):
        return np.column_stack([np.ones(len(X)), self.encoding_.transform(X)])


class Model:
    bound = DIAGONAL

    def __repr__(self):
        return "SGPR, bound diagonal, M = 64, float64\n  parameter  value\n  noise_variance  0.1"


class FakeRegressor(NumberPredictions, _Fake):
    """A linear model with Gaussian noise; ``inflate`` makes its standard deviations wrong."""

    task = "regression"

    def __init__(self, inflate=1.0):
        self.inflate = inflate

    def fit(self, X, y):
        y, F = np.asarray(y, float), self._learn_features(X)
        self.weights = np.linalg.lstsq(F, y, rcond=None)[0]
        self.sd = np.std(y - F @ self.weights, axis=0) * self.inflate
        self.target_scale_ = np.std(y, axis=0)
        self.noise_variance_ = self.sd**2
        ratio = float(np.ravel(self.sd / self.target_scale_)[0])
        self.trace_["noise_variance"] = ratio**2 * (1 + 3 * np.exp(-np.arange(60) / 8.0))
        self.scales_ = np.random.default_rng(0).beta(8, 0.6, len(X))
        self.evidence_bracket_ = EvidenceBracket(-500.0, -500.0 + 0.004 * len(X), len(X))
        self.inducing_path_ = [
            {
                "n_inducing": m,
                "bound": -500.0 - 900 / m,
                "upper": -490 + 900 / m,
                "gain_per_point": None,
                "seconds": 0.01 * m,
            }
            for m in (8, 16, 32, 64)
        ]
        return self

    def predict(self, X):
        return self._features(X) @ self.weights

    def predict_distribution(self, X):
        mean = self.predict(X)
        return GaussianPrediction(mean, np.broadcast_to(self.sd, mean.shape), None)


class FakeStudent(FakeRegressor):
    """The same model with Student noise: its predictions are not Gaussian."""

    def predict_distribution(self, X):
        return Known(stats.t(4, self.predict(X), self.sd))


class Known(Prediction):
    """A distribution of SciPy as a prediction."""

    def __init__(self, known):
        self._known = known
        self.mean, self.sd = known.mean(), known.std()

    def take(self, rows):
        return Known(self._known.dist(*(np.broadcast_to(a, self.mean.shape)[rows] for a in self._known.args)))

    def quantile(self, q):
        return self._known.ppf(q) if np.ndim(q) == 0 else np.stack([self._known.ppf(one) for one in q], axis=1)

    def cdf(self, y):
        return self._known.cdf(y)

    def log_density(self, y):
        y = np.asarray(y)
        return self._known.logpdf(y) if hasattr(self._known.dist, "pdf") else self._known.logpmf(y)

    def sample(self, n_samples=1, random_state=0):
        raise NotImplementedError


class FakeCountRegressor(NumberPredictions, _Fake):
    """Poisson counts with a log-linear rate."""

    task = "counts"

    def fit(self, X, y):
        F = self._learn_features(X)
        self.weights = np.linalg.lstsq(F, np.log(np.asarray(y, float) + 0.5), rcond=None)[0]
        self.weights[0] += np.log(np.mean(y) / np.mean(np.exp(F @ self.weights)))
        self.trace_["v"] = np.linspace(1, 0.7, 60)
        self.scales_ = np.array([0.7])
        return self

    def predict(self, X):
        return np.exp(self._features(X) @ self.weights)

    def predict_distribution(self, X):
        return Known(stats.poisson(self.predict(X)))


class FakeClassifier(_Fake):
    """Probabilities by the distance from each class's mean; ``sharpness`` makes them over- or underconfident."""

    task = "classification"

    def __init__(self, sharpness=1.0):
        self.sharpness = sharpness

    def fit(self, X, y):
        F = self._learn_features(X)
        self.classes_, numbers = np.unique(np.asarray(y), return_inverse=True)
        self.centres = np.stack([F[numbers == c].mean(axis=0) for c in range(len(self.classes_))])
        self.trace_["v"] = np.linspace(1, 0.8, 60)
        self.scales_ = np.full(len(self.classes_), 0.95)
        return self

    def predict_proba(self, X):
        F = self._features(X)
        logits = -0.5 * self.sharpness * np.sum((F[:, None] - self.centres) ** 2, axis=2)
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        return p / p.sum(axis=1, keepdims=True)

    def predict(self, X):
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def predict_distribution(self, X):
        return ClassPrediction(self.classes_, np.log(self.predict_proba(X)))
