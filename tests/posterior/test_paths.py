"""Paths have the posterior's mean and covariance, and are functions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightgp as tgp
from tightgp.kernels.features import features, frequencies

S = 4000


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    X = rng.uniform(-2, 2, (30, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * X[:, 1] + 0.1 * rng.normal(size=30)
    return tgp.Dataset(X, y), rng.uniform(-2, 2, (5, 2))


def assert_moments(paths, X, mean, cov, scale=1.0):
    """The sample mean and covariance are within five standard errors."""
    F = np.asarray(paths(X))
    sd = np.sqrt(np.diag(cov))
    np.testing.assert_array_less(np.abs(F.mean(axis=0) - mean), 5 * sd / np.sqrt(S) + 1e-9)
    error = np.sqrt((np.outer(sd, sd) ** 2 + np.asarray(cov) ** 2) / S)
    np.testing.assert_array_less(np.abs(np.cov(F.T) - cov), scale * 5 * error + 1e-9)


KERNELS = {
    "matern": 1.3 * tgp.kernels.Matern32(0.9, [0.7, 1.5]) + tgp.kernels.Linear(0.5, active_dims=[1]),
    "product": tgp.kernels.Matern52() * tgp.kernels.Periodic(period=3.0) + tgp.kernels.Polynomial(2, 0.1),
    "sum": tgp.kernels.Matern12() + tgp.kernels.SquaredExponential() + tgp.kernels.RationalQuadratic(1.2, 0.8, 0.7),
}


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
def test_features_have_the_kernel_as_their_mean(kernel, rows):
    X = rows[1]

    @jax.jit
    def gram(key):
        phi = features(kernel, frequencies(kernel, key, 64, 2), X)
        return phi @ phi.T

    grams = np.asarray(jax.lax.map(gram, jax.random.split(jax.random.key(1), 500)))
    error = grams.std(axis=0) / np.sqrt(len(grams))
    np.testing.assert_array_less(np.abs(grams.mean(axis=0) - kernel(X)), 5 * error + 1e-9)


def test_paths_of_the_exact_posterior(rows):
    data, X = rows
    kernel = KERNELS["matern"]
    post = tgp.ExactGP(kernel, 0.05, mean=tgp.means.Constant(0.5)).posterior(data)
    post = post.condition(X[:2] + 0.1, np.zeros(2))  # its factor has room for more rows
    paths = post.sample_paths(jax.random.key(0), S, num_features=16)
    assert_moments(paths, X, *post.predict_f(X, full_cov=True), scale=1.5)  # few features: heavier tails


def test_paths_of_sparse_posteriors_and_of_neighbours(rows):
    data, X = rows
    post = tgp.SGPR(tgp.kernels.Matern32(), data.X[:6], 0.05).posterior(data)
    paths = post.sample_paths(jax.random.key(0), S, num_features=64)
    assert_moments(paths, X, *post.predict_f(X, full_cov=True))
    near = post.sample_paths(jax.random.key(1), S, num_features=64, near=X, neighbours=4)
    assert_moments(near, X, *post.predict_f(X, full_cov=True, neighbours=4))


def test_paths_of_several_functions_with_v(rows):
    data, X = rows
    model = tgp.SVGP(
        [tgp.kernels.Matern32(), tgp.kernels.SquaredExponential(0.7)],
        tgp.likelihoods.Gaussian(0.05),
        data.X[:4],
        "spherical",
        mixing=[[1.0, 0.3], [0.2, -1.0]],
        orthogonal=data.X[4:6],
    )
    model = tgp.assign(model, {"v": 0.6, "q[0].mean": 0.3, "q_orthogonal[1].root": 0.4 * jnp.eye(2)[None]})
    post = model.posterior(scaled=True)
    F = post.sample_paths(jax.random.key(0), S, num_features=64)(X)
    assert F.shape == (S, 5, 2)
    mean, cov = post.predict_f(X, full_cov=True)
    for p in range(2):
        assert_moments(lambda X, p=p: F[..., p], X, mean[:, p], cov[p])


def test_a_path_is_a_function_with_a_derivative(rows):
    data, X = rows
    paths = tgp.SGPR(tgp.kernels.Matern52(), data.X[:6], 0.05).posterior(data).sample_paths(jax.random.key(0), 3)
    values = paths(X)
    np.testing.assert_allclose(paths(X[::-1])[:, ::-1], values, atol=1e-12)  # wherever else it is evaluated
    np.testing.assert_allclose(paths[1](X)[0], values[1], atol=1e-12)
    np.testing.assert_allclose(paths(jnp.stack([X, X + 1, X]))[0], values[0], atol=1e-12)
    slope = jax.grad(lambda x: paths[0](x[None])[0, 0])(jnp.asarray(X[0]))
    step = 1e-5 * np.array([1.0, 0.0])
    np.testing.assert_allclose(slope[0], (paths(X[:1] + step) - paths(X[:1] - step))[0, 0] / 2e-5, rtol=1e-5)
    assert len(paths) == 3
    assert len(paths[-1]) == 1
    assert len(list(paths)) == 3  # iterating ends
    np.testing.assert_array_equal(paths[np.int64(-1)](X), paths[2:](X))
    for number in (3, -4):
        with pytest.raises(IndexError, match="there are 3 paths"):
            paths[number]


def test_paths_that_cannot_be_had_say_so(rows):
    data, _ = rows
    post = tgp.SGPR(tgp.kernels.Matern32(), data.X[:6], 0.05, tgp.Vecchia(4)).posterior(data)
    with pytest.raises(ValueError, match="near must say about which inputs"):
        post.sample_paths(jax.random.key(0))
    white = tgp.SGPR(tgp.kernels.Matern32() + tgp.kernels.White(), data.X[:6], 0.05).posterior(data)
    with pytest.raises(ValueError, match="kernel White has no known features"):
        white.sample_paths(jax.random.key(0))
    paths = post.sample_paths(jax.random.key(0), 2, neighbours=0)
    with pytest.raises(ValueError, match=r"X must have shape \(n, D\), or \(2, n, D\)"):
        paths(np.zeros((3, 5, 2)))
