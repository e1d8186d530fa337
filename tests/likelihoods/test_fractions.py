"""Fractions between 0 and 1."""

import jax
import numpy as np

from tests.likelihoods.cases import log_density
from tightgp import likelihoods as L


def test_beta_with_precision_two_is_uniform_at_zero():
    y = np.array([[0.01], [0.5], [0.99]])
    np.testing.assert_allclose(log_density(L.Beta(2.0), np.zeros((3, 1)), y), 0, atol=1e-12)


def test_samples_never_round_to_the_ends():
    y = np.asarray(L.Beta(0.5).sample(jax.random.key(0), np.array([[-30.0], [0.0], [30.0]])))
    assert np.all((y > 0) & (y < 1))
