"""q(u): whitened or not, its covariances, and natural-gradient steps."""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest

import tightgp as tgp
from tests.models.problems import natural_step
from tightgp import likelihoods as lk


@pytest.mark.parametrize("covariance", ["full", "diagonal", "fixed"])
def test_whitened_and_not_agree(problem, covariance):
    """q over u is q over w = L⁻¹u, turned; diagonal and fixed covariances are what they say."""
    data, Z, kernel = problem
    white = tgp.SVGP(kernel, lk.Gaussian(0.1), Z, covariance=covariance)
    plain = tgp.SVGP(kernel, lk.Gaussian(0.1), Z, covariance=covariance, whiten=False)
    Kuu = np.asarray(kernel(Z)) + 1e-6 * 1.3 * np.eye(6)
    L, mean = np.linalg.cholesky(Kuu), np.linspace(-1, 1, 6)[:, None]
    plain = tgp.assign(plain, {"q.mean": L @ mean})
    if covariance == "diagonal":  # a diagonal over u is no diagonal over w
        white = tgp.SVGP(kernel, lk.Gaussian(0.1), Z)
        white = tgp.assign(white, {"q.root": np.tril(np.linalg.solve(L, np.diag(np.sqrt(np.diag(Kuu)))))[None]})
        plain = tgp.assign(plain, {"q.root": np.sqrt(np.diag(Kuu))[None]})
    white = tgp.assign(white, {"q.mean": mean})
    assert float(plain.elbo(data)) == pytest.approx(float(white.elbo(data)), rel=1e-9)
    assert tgp.named_parameters(plain)["q.root"].frozen == (covariance == "fixed")


@pytest.mark.parametrize("covariance", ["full", "diagonal", "fixed"])
def test_natural_steps_climb_for_every_covariance(problem, covariance):
    """Also from a step far too long, which is made shorter until the covariance is positive."""
    data, Z, kernel = problem
    model = tgp.SVGP(kernel, lk.Poisson(), Z, covariance=covariance)
    data = tgp.Dataset(data.X, np.random.default_rng(0).poisson(np.exp(1 + data.y)))
    before = float(model.elbo(data))
    after = float(natural_step(model, data, 0.1).elbo(data))
    assert after > before
    far = natural_step(model, data, 1e4)
    assert np.all(np.isfinite(far.q.root))
    assert np.all(np.isfinite(far.q.mean))


def test_a_step_too_long_is_halved():
    """I − ρY is kept positive definite: with Y = 3I the first half of ρ = 1 that works is a quarter."""
    q = tgp.SVGP(tgp.kernels.SquaredExponential(), lk.Gaussian(), np.zeros((1, 1))).q
    gradient = eqx.tree_at(lambda g: (g._mean.raw, g._root.raw), q, (jnp.ones((1, 1)), 3 * jnp.ones((1, 1, 1))))
    new = q.natural_step(gradient, jnp.asarray(1.0))
    assert float(new.root[0, 0, 0]) == pytest.approx((1 - 0.75) ** -0.5)
    assert float(new.mean[0, 0]) == pytest.approx(0.25 / 0.25)


def test_roots_must_be_triangular(problem):
    _, Z, kernel = problem
    model = tgp.SVGP(kernel, lk.Gaussian(0.1), Z)
    for root, message in (
        (2.0, "square matrices"),
        (np.ones((1, 6, 6)), "lower triangular"),
        (np.zeros((1, 6, 6)), "zero"),
    ):
        with pytest.raises(ValueError, match=message):
            tgp.assign(model, {"q.root": root})
