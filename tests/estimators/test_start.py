"""The first lengthscale and noise are chosen by the evidence of some rows."""

import numpy as np
import pytest

import tightgp as tgp
from tightgp.estimators.start import begin


def test_a_start_is_chosen_where_the_function_is():
    """Neither too long for what is wavy, nor too short for what is not; noise where there is some."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 1))
    for wave, noise in ((1.0, 0.01), (8.0, 0.01), (1.0, 3.0)):
        y = np.sin(wave * X) + np.sqrt(noise) * rng.normal(size=(300, 1))
        kernel, start = begin(None, ("a",), X, y, seed=0)
        assert kernel.lengthscale.shape == (1,)
        assert (float(kernel.lengthscale[0]) < 0.4) == (wave == 8.0)
        assert start == (0.9 if noise > 1 else 0.01)
        assert float(kernel.variance) == pytest.approx(1 - start)
    own = tgp.kernels.Matern52(2.0, 0.3)
    assert begin(own, ("a",), X, y, seed=0) == (own, 0.1)
    kernel, _ = begin("squared_exponential", ("a",), X, np.zeros((300, 2)), seed=0)
    assert type(kernel) is tgp.kernels.SquaredExponential
