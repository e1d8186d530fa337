import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightgp as tgp
from tests.reference import Dense
from tightgp.numerics import chunks
from tightgp.posterior import arguments, consistent

STRUCTURES = ["standard", "spherical", "diagonal", tgp.Block(5, "rows"), tgp.Block(8, "random"), tgp.Block(8)]


def dense(kernel, data, Z, **kwargs):
    return Dense(kernel, data.X, data.y, Z, 0.2, **kwargs)


@pytest.fixture
def tests(rng):
    return rng.normal(size=(9, 2))


@pytest.mark.parametrize("bound", ["standard", "diagonal", tgp.Block(5, "rows")])
def test_prediction_is_the_same_formula_for_every_structure(problem, tests, bound):
    data, Z, kernel = problem
    mean, cov = dense(kernel, data, Z).predict(kernel, tests, data.X, Z)
    post = tgp.SGPR(kernel, Z, 0.2, bound=bound).posterior(data)
    m, v = post.predict_f(tests)
    np.testing.assert_allclose(m, mean[:, 0], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(v, np.diag(cov), rtol=1e-8, atol=1e-10)
    m, c = post.predict_f(tests, full_cov=True)
    np.testing.assert_allclose(c, cov, rtol=1e-7, atol=1e-9)
    _, v_y = post.predict_y(tests)
    np.testing.assert_allclose(v_y, np.diag(cov) + 0.2, rtol=1e-8)
    np.testing.assert_allclose(post.predict_y(tests, full_cov=True)[1], cov + 0.2 * np.eye(9), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("alpha", "size"), [(0.5, 1), (1.0, 1), (0.7, 5)])
def test_power_ep_uses_its_own_noise(problem, tests, alpha, size):
    data, Z, kernel = problem
    reference = dense(kernel, data, Z)
    extra = alpha * reference.D * reference.blocks(size)
    mean, cov = reference.predict(kernel, tests, data.X, Z, noise_extra=extra)
    post = tgp.SGPR(kernel, Z, 0.2, bound=tgp.PowerEP(alpha, block=size, partition="rows")).posterior(data)
    m, v = post.predict_f(tests)
    np.testing.assert_allclose(m, mean[:, 0], rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(v, np.diag(cov), rtol=1e-7, atol=1e-9)
    with pytest.raises(ValueError, match=r"PowerEP.*no q\(f\|u\)"):
        post.predict_f(tests, exact_conditional=True)
    with pytest.raises(ValueError, match="no V"):
        _ = post.scales


@pytest.mark.parametrize("bound", STRUCTURES, ids=str)
def test_scales_and_consistent_predictive(problem, tests, bound):
    data, Z, kernel = problem
    model = tgp.SGPR(kernel, Z, 0.2, bound=bound)
    post = model.posterior(data)
    prepared, _ = model.prepare(data)
    order = data.placed(prepared.bound.partition, prepared.metric)[1]
    order = np.arange(data.num_data) if order is None else order
    reference = dense(kernel, data.take(order), Z)
    name = bound if isinstance(bound, str) else "block"
    V = reference.V(name, model.bound.partition.size)
    np.testing.assert_allclose(np.asarray(post.scales)[order], np.diag(V), rtol=1e-7)
    mean, cov = reference.consistent(kernel, tests, data.X[order], Z, V)
    m, v = post.predict_f(tests, exact_conditional=True)
    np.testing.assert_allclose(m, mean[:, 0], rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(v, np.diag(cov), rtol=1e-5, atol=1e-6)
    _, c = post.predict_f(tests, exact_conditional=True, full_cov=True)
    np.testing.assert_allclose(c, cov, rtol=1e-4, atol=1e-6)


def test_residual_variance_is_what_the_inducing_points_leave(problem, tests):
    data, Z, kernel = problem
    K, Kxu, Kuu = (np.asarray(k) for k in (kernel(tests), kernel(tests, Z), kernel(Z)))
    left = np.diag(K - Kxu @ np.linalg.solve(Kuu, Kxu.T))
    post = tgp.SGPR(kernel, Z, 0.2).posterior(data)
    np.testing.assert_allclose(post.residual_variance(tests), left, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(1 / (1 + post.residual_variance(data.X) / 0.2), post.scales, rtol=1e-9)
    two = tgp.SVGP(kernel, tgp.likelihoods.HeteroscedasticGaussian(), [Z, Z]).posterior()
    np.testing.assert_allclose(two.residual_variance(tests), np.stack([left, left], axis=1), rtol=1e-4, atol=1e-5)


def test_log_density(problem, tests, rng):
    data, Z, kernel = problem
    post = tgp.SGPR(kernel, Z, 0.2).posterior(data)
    ys = rng.normal(size=9)
    mean, var = post.predict_y(tests)
    expected = -0.5 * np.log(2 * np.pi * var) - 0.5 * (ys - mean) ** 2 / var
    np.testing.assert_allclose(post.log_density(tests, ys), expected, rtol=1e-12)
    with pytest.raises(ValueError, match=r"y must have shape \(9,\)"):
        post.log_density(tests, ys[:, None])
    with pytest.raises(ValueError, match="y has NaN"):
        post.log_density(tests, np.full(9, np.nan))


def test_samples_have_the_joint_moments(problem, tests):
    data, Z, kernel = problem
    post = tgp.SGPR(kernel, Z, 0.2).posterior(data)
    draws = np.asarray(post.sample_f(jax.random.key(0), tests, num_samples=20_000))
    mean, cov = post.predict_f(tests, full_cov=True)
    assert draws.shape == (20_000, 9)
    np.testing.assert_allclose(draws.mean(axis=0), mean, atol=0.05)
    np.testing.assert_allclose(np.cov(draws.T), cov, atol=0.06)
    again = post.sample_f(jax.random.key(0), tests, num_samples=20_000)
    np.testing.assert_array_equal(draws, again)


def test_several_outputs(problem, tests, rng):
    data, Z, kernel = problem
    Y = np.stack([data.y, rng.normal(size=data.num_data), -2 * data.y], axis=1)
    post = tgp.SGPR(kernel, Z, 0.2).posterior(tgp.Dataset(data.X, Y))
    mean, var = post.predict_f(tests)
    assert mean.shape == var.shape == (9, 3)
    assert post.predict_f(tests, full_cov=True)[1].shape == (3, 9, 9)
    assert post.predict_y(tests, full_cov=True)[1].shape == (3, 9, 9)
    assert post.log_density(tests, rng.normal(size=(9, 3))).shape == (9, 3)
    assert post.sample_f(jax.random.key(1), tests, num_samples=4).shape == (4, 9, 3)
    for p in range(3):
        alone = tgp.SGPR(kernel, Z, 0.2).posterior(tgp.Dataset(data.X, Y[:, p]))
        m, v = alone.predict_f(tests)
        np.testing.assert_allclose(mean[:, p], m, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(var[:, p], v, rtol=1e-10, atol=1e-12)


def test_large_inputs_are_batched(problem, rng, monkeypatch):
    data, Z, kernel = problem
    post = tgp.SGPR(kernel, Z, 0.2).posterior(data)
    Xs = rng.normal(size=(101, 2))
    whole = post.predict_f(Xs)
    monkeypatch.setattr(chunks, "_MAP_BYTES", dict.fromkeys(("cpu", "gpu"), 6 * 8 * 10))  # ten rows at a time
    jax.clear_caches()
    for a, b in zip(whole, post.predict_f(Xs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_exact_posterior(problem, tests):
    data, _, kernel = problem
    post = tgp.ExactGP(kernel, 0.2).posterior(data)
    K, Ks = np.asarray(kernel(data.X)) + 0.2 * np.eye(data.num_data), np.asarray(kernel(tests, data.X))
    mean = Ks @ np.linalg.solve(K, data.y)
    cov = np.asarray(kernel(tests)) - Ks @ np.linalg.solve(K, Ks.T)
    m, v = post.predict_f(tests)
    np.testing.assert_allclose(m, mean, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(v, np.diag(cov), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(post.predict_f(tests, full_cov=True)[1], cov, rtol=1e-7, atol=1e-9)
    with pytest.raises(ValueError, match="exact"):
        _ = post.scales


def test_sparse_is_exact_when_inducing_points_are_the_data(problem, tests):
    data, _, kernel = problem
    exact = tgp.ExactGP(kernel, 0.2).posterior(data).predict_f(tests)
    sparse = tgp.SGPR(kernel, data.X, 0.2, jitter=1e-11).posterior(data).predict_f(tests)
    for a, b in zip(exact, sparse, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-7)


def test_derivatives_of_predictions(problem, tests):
    """Predictions can be differentiated, in test inputs and in hyperparameters."""
    data, Z, kernel = problem
    _, rows = tgp.SGPR(kernel, Z, 0.2).prepare(data)

    def by_noise(noise):
        model = tgp.SGPR(kernel, Z, tgp.parameters.real(noise))
        from tightgp.models.sgpr import _posterior

        latents, _ = _posterior(model, rows)
        return jnp.sum(latents.mean(latents.rows(tests)))

    h = 1e-5
    expected = (by_noise(0.2 + h) - by_noise(0.2 - h)) / (2 * h)
    assert float(jax.grad(by_noise)(0.2)) == pytest.approx(float(expected), rel=1e-6)

    post = tgp.SGPR(kernel, Z, 0.2).posterior(data)
    step = np.zeros_like(tests)
    step[3, 1] = 1e-6
    slope = (post.predict_f(tests + step)[0][3] - post.predict_f(tests - step)[0][3]) / 2e-6
    gradient = jax.grad(lambda X: post.predict_f(X)[0][3])(jnp.asarray(tests))
    assert float(gradient[3, 1]) == pytest.approx(float(slope), rel=1e-6)


def test_known_noise_of_test_rows(problem, tests):
    data, Z, kernel = problem
    post = tgp.SGPR(kernel, Z, 0.2).posterior(data)
    extra = np.linspace(0.1, 1.0, 9)
    np.testing.assert_allclose(
        post.predict_y(tests, noise_variance=extra)[1], post.predict_f(tests)[1] + 0.2 + extra, rtol=1e-12
    )
    with pytest.raises(ValueError, match=r"noise_variance must be one number or have shape \(9,\)"):
        post.predict_y(tests, noise_variance=extra[:4])


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((3, 5)), "X has 5 column"),
        (np.zeros(3), "X must have shape"),
        (np.full((3, 2), np.nan), "X has NaN or infinite values in 3 row"),
        (np.zeros((3, 2), np.float32), "X has dtype float32 but the model has float64"),
        (np.zeros((0, 2)), "X is empty"),
    ],
)
def test_bad_inputs(problem, X, message):
    data, Z, kernel = problem
    with pytest.raises(ValueError, match=message):
        tgp.SGPR(kernel, Z, 0.2).posterior(data).predict_f(X)


def test_limits_are_said(problem, monkeypatch):
    data, Z, kernel = problem
    post = tgp.SGPR(kernel, Z, 0.2).posterior(data)
    monkeypatch.setattr(arguments, "_MAX_JOINT", 5)
    monkeypatch.setattr(consistent, "MAX_ROWS", 10)
    with pytest.raises(ValueError, match="at most 5"):
        post.predict_f(data.X, full_cov=True)
    with pytest.raises(ValueError, match="at most 10 training rows; there are 37"):
        post.predict_f(data.X[:3], exact_conditional=True)


def test_float32(rng):
    X = rng.normal(size=(200, 2)).astype(np.float32)
    y = np.sin(2 * X[:, 0]) + np.float32(0.1) * rng.normal(size=200).astype(np.float32)
    kernel = tgp.kernels.Matern52(1.0, 0.8)
    single = tgp.SGPR(kernel, X[:20], 0.05).posterior(tgp.Dataset(X, y))
    double = tgp.SGPR(kernel, X[:20].astype(float), 0.05).posterior(tgp.Dataset(X.astype(float), y.astype(float)))
    m32, v32 = single.predict_y(X[:50])
    m64, v64 = double.predict_y(X[:50].astype(float))
    assert m32.dtype == v32.dtype == np.float32
    np.testing.assert_allclose(m32, m64, atol=2e-3)
    np.testing.assert_allclose(v32, v64, atol=2e-3)
    assert single.scales.dtype == np.float32


def test_samples_are_never_silently_nan():
    """In float32 this joint covariance is rounding alone, far from positive: an error says so, float64 can do it."""
    X = np.linspace(0, 3, 60)[:, None]
    model = tgp.ExactGP(tgp.kernels.SquaredExponential(100.0), 1e-4)
    single = tgp.Dataset(X.astype(np.float32), np.sin(X[:, 0]).astype(np.float32))
    with pytest.raises(tgp.NumericalError, match="joint covariance at X could not be factorised; use float64"):
        model.posterior(single).sample_f(jax.random.key(0), single.X, num_samples=5)
    draws = model.posterior(tgp.Dataset(X, np.sin(X[:, 0]))).sample_f(jax.random.key(0), X, num_samples=5)
    np.testing.assert_allclose(draws, np.broadcast_to(np.sin(X[:, 0]), (5, 60)), atol=0.05)


def test_a_posterior_can_be_an_argument_of_a_jitted_function(problem, tests):
    data, Z, kernel = problem
    for bound in ("diagonal", tgp.Block(8)):
        post = tgp.SGPR(kernel, Z, 0.2, bound=bound).posterior(data)
        mean, _ = jax.jit(lambda p, X: p.predict_f(X))(post, jnp.asarray(tests))
        np.testing.assert_allclose(mean, post.predict_f(tests)[0], rtol=1e-12)


def test_lists_take_the_models_precision(rng):
    X = rng.normal(size=(30, 1)).astype(np.float32)
    post = tgp.SGPR(tgp.kernels.Matern52(), X[:5], 0.1).posterior(tgp.Dataset(X, X[:, 0]))
    assert post.predict_f([[0.5], [1]])[0].dtype == np.float32
