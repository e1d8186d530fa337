"""Small stand-ins with the interface of the estimators: closed forms, nothing to train."""

import numpy as np
from scipy import stats

from tightgp import EvidenceBracket
from tightgp.conditionals import DIAGONAL
from tightgp.encoding import Encoding


class _Fake:
    inducing_path_ = ()

    def get_params(self, deep=True):
        return {"kernel": "matern52", "n_inducing": "auto", "random_state": 0}

    def _account(self, X, rng):
        self.encoding_ = Encoding.of(X)
        steps = 60
        self.trace_ = {
            "objective": -500.0 - 4000.0 * np.exp(-np.arange(steps) / 3.0),
            "gradient_norm": np.exp(-np.arange(steps) / 9.0),
        }
        self.objective_, self.converged_, self.message_ = -500.0, True, "relative gain below 1e-9"
        self.seconds_, self.n_iter_, self.n_inducing_ = 3.21, steps, 64
        self.training_ = "L-BFGS on all rows, since they fit in memory."
        self.evidence_bracket_, self.scales_ = None, None
        names = [column.name for column in self.encoding_.columns]
        self.relevance_ = {name: 2.0 / (1 + i) ** 2 for i, name in enumerate(names)}
        self.model_ = Model()
        return np.column_stack([np.ones(len(X)), self.encoding_.transform(X)])

    def _features(self, X):
        return np.column_stack([np.ones(len(X)), self.encoding_.transform(X)])


class Model:
    bound = DIAGONAL

    def __repr__(self):
        return "SGPR, bound diagonal, M = 64, float64\n  parameter  value\n  noise_variance  0.1"


class FakeRegressor(_Fake):
    """A linear model with Gaussian noise; ``inflate`` makes its standard deviations wrong."""

    def __init__(self, inflate=1.0):
        self.inflate = inflate

    def fit(self, X, y):
        rng, y = np.random.default_rng(0), np.asarray(y, float)
        F = self._account(X, rng)
        self.weights = np.linalg.lstsq(F, y, rcond=None)[0]
        self.sd = np.std(y - F @ self.weights, axis=0) * self.inflate
        self.target_scale_ = np.std(y, axis=0)
        self.noise_variance_ = self.sd**2
        ratio = float(np.ravel(self.sd / self.target_scale_)[0])
        self.trace_["noise_variance"] = ratio**2 * (1 + 3 * np.exp(-np.arange(60) / 8.0))
        self.scales_ = rng.beta(8, 0.6, len(X))
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

    def predict(self, X, return_std=False):
        mean = self._features(X) @ self.weights
        return (mean, np.broadcast_to(self.sd, mean.shape)) if return_std else mean

    def predict_interval(self, X, level=0.95):
        z = stats.norm.ppf((1 + level) / 2) * self.sd
        return self.predict(X) - z, self.predict(X) + z

    def log_density(self, X, y):
        return stats.norm.logpdf(y, self.predict(X), self.sd)

    def predict_cdf(self, X, y):
        return stats.norm.cdf(y, self.predict(X), self.sd)


class FakeStudent(FakeRegressor):
    """The same with heavier tails, so that nothing of it is Gaussian."""

    def predict_interval(self, X, level=0.95):
        z = stats.t.ppf((1 + level) / 2, 4) * self.sd
        return self.predict(X) - z, self.predict(X) + z

    def predict_quantile(self, X, q):
        return self.predict(X)[:, None] + stats.t.ppf(q, 4) * self.sd

    def log_density(self, X, y):
        return stats.t.logpdf(y, 4, self.predict(X), self.sd)

    def predict_cdf(self, X, y):
        return stats.t.cdf(y, 4, self.predict(X), self.sd)


class FakeCountRegressor(_Fake):
    """Poisson counts with a log-linear rate."""

    def fit(self, X, y):
        rng = np.random.default_rng(0)
        F = self._account(X, rng)
        self.weights = np.linalg.lstsq(F, np.log(np.asarray(y, float) + 0.5), rcond=None)[0]
        self.weights[0] += np.log(np.mean(y) / np.mean(np.exp(F @ self.weights)))
        self.trace_["v"] = np.linspace(1, 0.7, 60)
        self.scales_ = np.array([0.7])
        return self

    def predict(self, X, return_std=False):
        rate = np.exp(self._features(X) @ self.weights)
        return (rate, np.sqrt(rate)) if return_std else rate

    def predict_interval(self, X, level=0.95):
        rate = self.predict(X)
        return stats.poisson.ppf((1 - level) / 2, rate), stats.poisson.ppf((1 + level) / 2, rate)

    def predict_quantile(self, X, q):
        return stats.poisson.ppf(q, self.predict(X)[:, None])

    def log_density(self, X, y):
        return stats.poisson.logpmf(y, self.predict(X))

    def predict_cdf(self, X, y):
        return stats.poisson.cdf(y, self.predict(X))


class FakeClassifier(_Fake):
    """Probabilities by the distance from each class's mean; ``sharpness`` makes them over- or underconfident."""

    def __init__(self, sharpness=1.0):
        self.sharpness = sharpness

    def fit(self, X, y):
        F = self._account(X, np.random.default_rng(0))
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
