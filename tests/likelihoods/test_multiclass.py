"""Softmax and RobustMax."""

import itertools

import jax
import numpy as np
from scipy import stats

from tests.likelihoods.cases import CASES, expectations
from tightgp import likelihoods as L


def test_robust_max_matches_bivariate_normal_probabilities(rng):
    """The density of RobustMax has jumps, so that a grid of nodes cannot be the reference."""
    case = CASES["robust_max"]
    lik, mean, y = case.build(), case.latents(), case.targets
    var = rng.uniform(0.05, 0.3, size=mean.shape)
    largest = np.empty_like(mean)
    for i, c in itertools.product(range(3), range(3)):
        others = [k for k in range(3) if k != c]
        covariance = np.diag(var[i, others]) + var[i, c]
        largest[i, c] = stats.multivariate_normal(mean[i, others] - mean[i, c], covariance).cdf([0, 0])
    right, wrong = 1 - lik.epsilon, lik.epsilon / 2
    p = largest * right + (1 - largest) * wrong
    own = np.take_along_axis(largest, y.astype(int), axis=1)
    log_p = np.log(np.take_along_axis(p, y.astype(int), axis=1))
    expected = [own * np.log(right) + (1 - own) * np.log(wrong), log_p, p, p * (1 - p)]
    for got, wanted in zip(expectations(lik, mean, var, y), expected, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-3)


def test_class_probabilities_sum_to_one_and_follow_the_order_of_the_latents(rng):
    mean, var = np.sort(rng.normal(size=(5, 4)), axis=1), np.full((5, 4), 0.3)
    for lik in (L.Softmax(4), L.RobustMax(4, 0.01)):
        p, _ = jax.jit(lik.predict)(mean, var)
        np.testing.assert_allclose(np.sum(p, axis=1), 1, rtol=1e-9)
        assert np.all(np.diff(p, axis=1) > 0)
