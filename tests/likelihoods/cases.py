"""A table of likelihoods for the tests, each with valid and invalid targets and a reference density."""

from collections.abc import Callable
from dataclasses import dataclass

import jax
import numpy as np
import pytest
from scipy import special, stats

from tightgp import likelihoods as L


def real_grid():
    t = np.linspace(-13, 13, 4001)
    return np.sinh(t), np.cosh(t) * (t[1] - t[0])


def positive_grid():
    t = np.linspace(-45, 25, 4001)
    return np.exp(t), np.exp(t) * (t[1] - t[0])


def fraction_grid():
    t = np.linspace(-30, 30, 4001)
    return special.expit(t), special.expit(t) * special.expit(-t) * (t[1] - t[0])


def counts_to(most):
    return lambda: (np.arange(most + 1.0), np.ones(most + 1))


@dataclass
class Case:
    """One likelihood.

    Attributes:
        make: builds the likelihood from two random numbers between 0.5 and 2.
        support: returns targets and weights that integrate over y.
        density: a reference for ``log p(y|f)``, as a function of the likelihood, f (L,) and y.
        valid: three targets that can occur.
        invalid: targets that cannot occur.
        message: what the error message about them says.
        classes: whether targets are labels of unordered classes.
    """

    make: Callable
    support: Callable
    density: Callable
    valid: tuple
    invalid: tuple
    message: str
    classes: bool = False

    def build(self, seed: int = 0):
        return self.make(*np.random.default_rng(seed).uniform(0.5, 2, size=2))

    def latents(self, seed: int = 0, rows: int = 3):
        return np.random.default_rng(100 + seed).normal(size=(rows, self.build().num_latents or 1))

    @property
    def targets(self):
        return np.array(self.valid)[:, None]


def log_interval(lik, f, y):
    edges = np.concatenate([[-np.inf], np.asarray(lik.edges), [np.inf]])
    k = int(y)
    return np.log(np.diff(stats.norm.cdf((edges[k : k + 2] - f[0]) / float(lik.scale)))[0])


def beta(lik, f, y):
    a, b = (float(lik.precision) * special.expit(s * f[0]) for s in (1, -1))
    return stats.beta(a, b).logpdf(y)


def zero_inflated(lik, f, y):
    share = float(lik.share)
    return np.log(share * (y == 0) + (1 - share) * np.exp(negative_binomial(lik.counts, f, y)))


def negative_binomial(lik, f, y):
    d = float(lik.dispersion)
    return stats.nbinom(1 / d, 1 / (1 + d * np.exp(f[0]))).logpmf(y)


def robust_max(lik, f, y):
    return np.log(1 - lik.epsilon if np.argmax(f) == y else lik.epsilon / (lik.num_classes - 1))


LABELS = (-1.0, 3.0, 0.5, np.inf)
CASES = {
    "gaussian": Case(
        lambda a, b: L.Gaussian(a),
        real_grid,
        lambda lik, f, y: stats.norm(f[0], np.sqrt(lik.noise_variance)).logpdf(y),
        valid=(-2.0, 0.1, 4.0),
        invalid=(np.inf, -np.inf),
        message="finite",
    ),
    "heteroscedastic": Case(
        lambda a, b: L.HeteroscedasticGaussian(),
        real_grid,
        lambda lik, f, y: stats.norm(f[0], np.exp(0.5 * f[1])).logpdf(y),
        valid=(-2.0, 0.1, 4.0),
        invalid=(np.inf, -np.inf),
        message="finite",
    ),
    "student": Case(
        lambda a, b: L.StudentT(8 + a, b),
        real_grid,
        lambda lik, f, y: stats.t(float(lik.df), f[0], float(lik.scale)).logpdf(y),
        valid=(-2.0, 0.1, 4.0),
        invalid=(np.inf, -np.inf),
        message="finite",
    ),
    "lognormal": Case(
        lambda a, b: L.LogNormal(0.4 * a),
        positive_grid,
        lambda lik, f, y: stats.lognorm(np.sqrt(lik.noise_variance), scale=np.exp(f[0])).logpdf(y),
        valid=(0.2, 1.0, 5.0),
        invalid=(0.0, -1.0, np.inf),
        message="positive",
    ),
    "gamma": Case(
        lambda a, b: L.Gamma(a),
        positive_grid,
        lambda lik, f, y: stats.gamma(float(lik.shape), scale=np.exp(f[0]) / float(lik.shape)).logpdf(y),
        valid=(0.2, 1.0, 5.0),
        invalid=(0.0, -1.0, np.inf),
        message="positive",
    ),
    "exponential": Case(
        lambda a, b: L.Exponential(),
        positive_grid,
        lambda lik, f, y: stats.expon(scale=np.exp(f[0])).logpdf(y),
        valid=(0.0, 1.0, 5.0),
        invalid=(-1.0, np.inf),
        message="not negative",
    ),
    "poisson": Case(
        lambda a, b: L.Poisson(),
        counts_to(500),
        lambda lik, f, y: stats.poisson(np.exp(f[0])).logpmf(y),
        valid=(0.0, 1.0, 7.0),
        invalid=(-1.0, 0.5, np.inf),
        message="counts",
    ),
    "negative_binomial": Case(
        lambda a, b: L.NegativeBinomial(0.5 * a),
        counts_to(2000),
        negative_binomial,
        valid=(0.0, 1.0, 7.0),
        invalid=(-1.0, 0.5, np.inf),
        message="counts",
    ),
    "zero_inflated": Case(
        lambda a, b: L.ZeroInflated(L.NegativeBinomial(0.5 * a), 0.4 * b),
        counts_to(2000),
        zero_inflated,
        valid=(0.0, 1.0, 7.0),
        invalid=(-1.0, 0.5, np.inf),
        message="counts",
    ),
    "binomial": Case(
        lambda a, b: L.Binomial(7),
        counts_to(7),
        lambda lik, f, y: stats.binom(7, special.expit(f[0])).logpmf(y),
        valid=(0.0, 3.0, 7.0),
        invalid=(-1.0, 0.5, 8.0),
        message="num_trials = 7",
    ),
    "binomial_probit": Case(
        lambda a, b: L.Binomial(7, "probit"),
        counts_to(7),
        lambda lik, f, y: stats.binom(7, stats.norm.cdf(f[0])).logpmf(y),
        valid=(0.0, 3.0, 7.0),
        invalid=(-1.0, 0.5, 8.0),
        message="num_trials = 7",
    ),
    "bernoulli": Case(
        lambda a, b: L.Bernoulli(),
        counts_to(1),
        lambda lik, f, y: stats.bernoulli(stats.norm.cdf(f[0])).logpmf(y),
        valid=(0.0, 1.0, 0.0),
        invalid=(-1.0, 2.0, 0.5),
        message="0 or 1 .for labels -1 and 1",
    ),
    "bernoulli_logit": Case(
        lambda a, b: L.Bernoulli("logit"),
        counts_to(1),
        lambda lik, f, y: stats.bernoulli(special.expit(f[0])).logpmf(y),
        valid=(0.0, 1.0, 0.0),
        invalid=(-1.0, 2.0, 0.5),
        message="0 or 1",
    ),
    "beta": Case(
        lambda a, b: L.Beta(9 * a),
        fraction_grid,
        beta,
        valid=(0.1, 0.5, 0.97),
        invalid=(0.0, 1.0, -0.5),
        message="below 1",
    ),
    "ordinal": Case(
        lambda a, b: L.Ordinal(edges=[-a, 0.1, b, b + 1.5], scale=0.7 * a),
        counts_to(4),
        log_interval,
        valid=(0.0, 2.0, 4.0),
        invalid=(-1.0, 5.0, 0.5),
        message="0 to 4",
    ),
    "softmax": Case(
        lambda a, b: L.Softmax(3),
        counts_to(2),
        lambda lik, f, y: special.log_softmax(f)[int(y)],
        valid=(0.0, 1.0, 2.0),
        invalid=LABELS,
        message="0 to 2",
        classes=True,
    ),
    "softmax_of_two": Case(
        lambda a, b: L.Softmax(2),
        counts_to(1),
        lambda lik, f, y: special.log_softmax(f)[int(y)],
        valid=(0.0, 1.0, 1.0),
        invalid=LABELS,
        message="0 to 1",
        classes=True,
    ),
    "robust_max": Case(
        lambda a, b: L.RobustMax(3, 0.1 * a),
        counts_to(2),
        robust_max,
        valid=(0.0, 1.0, 2.0),
        invalid=LABELS,
        message="0 to 2",
        classes=True,
    ),
}


def each_likelihood(but=()):
    names = [name for name in CASES if name not in but]
    return pytest.mark.parametrize("case", [CASES[name] for name in names], ids=names)


@jax.jit
def log_density(lik, F, y):
    return lik.log_density(F, y)


@jax.jit
def expectations(lik, mean, var, y):
    densities = lik.expected_log_density(mean, var, y), lik.predictive_log_density(mean, var, y)
    return *densities, *lik.predict(mean, var)
