"""The evidence and the left-out densities of many targets from one factorisation, against dense algebra."""

import numpy as np
import pytest
from scipy import stats

import tightgp as tgp
from tightgp.estimators import profile


@pytest.fixture
def one_pair(monkeypatch):
    """One lengthscale and one share of noise: nothing is left to choose."""
    monkeypatch.setattr(profile, "_LENGTHS", np.array([1.5]))
    monkeypatch.setattr(profile, "_NOISES", np.array([0.2]))


def test_evidence_and_left_out_densities(one_pair, rng):
    X, z = rng.normal(size=(12, 2)), rng.normal(size=12)
    gp = profile.ProfiledGP.of(X)
    shape = 0.8 * np.asarray(tgp.kernels.Matern32(lengthscale=1.5)(X)) + 0.2 * np.eye(12)
    centred = z - z.mean()
    scale = centred @ np.linalg.solve(shape, centred) / 12
    expected = stats.multivariate_normal(np.zeros(12), scale * shape).logpdf(centred)
    assert gp.evidence(z) == pytest.approx(expected)
    for other in (0.9, 1.1):
        assert stats.multivariate_normal(np.zeros(12), other * scale * shape).logpdf(centred) < gp.evidence(z)
    for i, found in enumerate(gp.left_out_log_density(z)):
        rest = np.delete(np.arange(12), i)
        weights = np.linalg.solve(scale * shape[np.ix_(rest, rest)], scale * shape[rest, i])
        variance = scale * shape[i, i] - weights @ (scale * shape[rest, i])
        assert found == pytest.approx(stats.norm.logpdf(centred[i], weights @ centred[rest], np.sqrt(variance)))
