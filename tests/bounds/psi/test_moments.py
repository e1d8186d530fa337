"""ψ-statistics against quadrature, draws and finite differences."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jax.test_util import check_grads

import tightgp as tgp
from tests.reference import Averaged
from tightgp.bounds import psi
from tightgp.bounds.psi.terms import terms
from tightgp.data.input_variance import InputVariance

k = tgp.kernels
KERNELS = {
    "se": lambda a, b: k.SquaredExponential(a, [b, 1.1]),
    "se on one input": lambda a, b: k.SquaredExponential(a, b, active_dims=[1]),
    "linear": lambda a, b: k.Linear([a, b]),
    "sum": lambda a, b: k.SquaredExponential(a, [b, 2.0]) + k.Linear(b, active_dims=[0]),
    "sum of all": lambda a, b: (
        k.SquaredExponential(a, b)
        + k.Linear([0.3, 0.6])
        + 0.5 * k.SquaredExponential(0.7, [1.5, b]) * k.SquaredExponential(a, 1.0, active_dims=[0])
        + k.White(0.2)
        + 0.4
    ),
}
laws = settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


class Disguised(k.SquaredExponential):
    """A squared exponential that no closed form is known for."""


def draw(seed, n=3, m=4):
    rng = np.random.default_rng(seed)
    S = rng.uniform(0, 0.5, size=(n, 2))
    S[0, 0] = 0.0
    return rng.normal(size=(n, 2)), S, rng.normal(size=(m, 2))


def second(averages, m):
    """``⟨k(x, z)k(x, z')⟩`` of each row."""
    mean = np.asarray(averages.first)
    covariance = np.stack([np.asarray(psi.unpack(row, m)) for row in averages.covariance])
    return covariance + mean[:, :, None] * mean[:, None, :]


@laws
@given(st.sampled_from(tuple(KERNELS)), st.integers(0, 2**32 - 1), st.floats(-1, 1), st.floats(-0.4, 1))
def test_closed_forms_are_integrals(name, seed, log_a, log_b):
    kernel = KERNELS[name](10**log_a, 10**log_b)
    X, S, Z = draw(seed)
    assert terms(kernel, 2) is not None
    averages = psi.moments(kernel, jnp.asarray(Z), jnp.asarray(X), InputVariance.of(S))
    expected = Averaged(kernel, X, S, np.zeros(3), Z, 1.0, nodes=60)
    np.testing.assert_allclose(averages.prior, expected.psi0, rtol=1e-10)
    scale = np.abs(expected.psi1).max()
    np.testing.assert_allclose(averages.first, expected.psi1, rtol=1e-7, atol=1e-9 * scale)
    np.testing.assert_allclose(second(averages, 4), expected.psi2, rtol=1e-6, atol=1e-8 * scale**2)


def test_against_draws(rng):
    kernel = KERNELS["sum of all"](1.3, 0.7)
    X, S, Z = draw(1)
    averages = psi.moments(kernel, jnp.asarray(Z), jnp.asarray(X), InputVariance.of(S))
    x = X[1] + np.sqrt(S[1]) * rng.normal(size=(200_000, 2))
    K = np.asarray(kernel(x, Z))
    np.testing.assert_allclose(averages.first[1], K.mean(axis=0), atol=5 * K.std() / 400)
    products = K[:, :, None] * K[:, None, :]
    np.testing.assert_allclose(second(averages, 4)[1], products.mean(axis=0), atol=5 * products.std() / 400)


@pytest.mark.parametrize("name", ["se", "sum of all"])
def test_known_inputs_are_the_kernel_itself(name):
    kernel = KERNELS[name](1.3, 0.7)
    X, S, Z = draw(2)
    averages = psi.moments(kernel, jnp.asarray(Z), jnp.asarray(X), InputVariance(jnp.zeros_like(S), (0, 1)))
    K = np.asarray(kernel(X, Z))
    np.testing.assert_allclose(averages.prior, kernel.diagonal(X), rtol=1e-13)
    np.testing.assert_allclose(averages.first, K, rtol=1e-12)
    np.testing.assert_allclose(second(averages, 4), K[:, :, None] * K[:, None, :], rtol=1e-11)


@pytest.mark.parametrize("columns", [(0,), (1,), (0, 1)])
def test_quadrature_agrees_with_the_closed_form(columns):
    X, S, Z = draw(3)
    spread = InputVariance(jnp.asarray(S[:, columns]), columns)
    exact = psi.moments(k.SquaredExponential(1.2, [1.4, 0.9]), jnp.asarray(Z), jnp.asarray(X), spread)
    hidden = Disguised(1.2, [1.4, 0.9])
    assert terms(hidden, 2) is None
    for one, other in zip(exact, psi.moments(hidden, jnp.asarray(Z), jnp.asarray(X), spread), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize(
    "kernel", [KERNELS["sum of all"](1.3, 0.7), k.Matern52(1.1, [0.8, 1.2])], ids=["sum", "matern"]
)
def test_gradients_against_finite_differences(kernel):
    X, S, Z = draw(4)
    S = S + 0.1  # a root has no derivative at zero
    weights = jnp.asarray(np.random.default_rng(0).normal(size=10))

    def total(kernel, Z, X, S):
        averages = psi.moments(kernel, Z, X, InputVariance(S, (0, 1)))
        return jnp.sum(jnp.sin(averages.first)) + jnp.sum(averages.covariance @ weights) + jnp.sum(averages.prior)

    check_grads(total, (kernel, Z, X, S), order=1, modes=["rev"], rtol=1e-5)


def test_gradient_where_an_input_is_known():
    """A variance of zero beside others that are not: nothing is NaN, in closed form or by quadrature."""
    X, S, Z = draw(5)
    for kernel in (k.SquaredExponential(), k.Matern32()):
        gradient = jax.grad(
            lambda X, S, kernel=kernel: jnp.sum(
                psi.moments(kernel, jnp.asarray(Z), X, InputVariance(S, (0, 1))).covariance
            ),
            argnums=(0, 1),
        )(X, S)
        assert all(np.all(np.isfinite(g)) for g in gradient)


@pytest.mark.parametrize(("dtype", "far"), [("float32", 24.0), ("float64", 70.0), ("float64", 1000.0)])
def test_far_away_nothing_is_left(dtype, far):
    """Where averages underflow and their ratio overflows, covariances are zero, and so are their derivatives."""
    Z, S = jnp.zeros((2, 1), dtype), jnp.full((1, 1), 0.7, dtype)
    for kernel in (k.SquaredExponential(1.0, 1.0), k.SquaredExponential(1.0, 1.0) + k.SquaredExponential(1.0, 1.3)):
        kernel = tgp.parameters.cast(kernel, dtype)

        def total(X, S, kernel=kernel):
            return jnp.sum(psi.moments(kernel, Z, X, InputVariance(S, (0,))).covariance)

        value, gradient = jax.value_and_grad(total, argnums=(0, 1))(jnp.full((1, 1), far, dtype), S)
        np.testing.assert_allclose(value, 0.0, atol=1e-30)
        np.testing.assert_allclose(gradient, 0.0, atol=1e-30)


def test_memory_is_planned_for_what_is_made():
    spread = InputVariance(jnp.ones((1, 3)), (0, 1, 2))
    assert psi.numbers_per_row(k.SquaredExponential(), 100, 3, spread) == 100 * 101
    assert psi.numbers_per_row(k.Matern32(), 5, 3, spread) == 2 * 1000 * 5


def test_packing_makes_traces(rng):
    A, B = rng.normal(size=(2, 5, 5))
    A, B = A + A.T, B + B.T
    lower = A[np.tril_indices(5)]
    assert float(lower @ psi.pack(jnp.asarray(B))) == pytest.approx(np.trace(A @ B))
    np.testing.assert_array_equal(psi.unpack(jnp.asarray(lower), 5), A)


def test_too_many_columns_for_quadrature_are_refused():
    with pytest.raises(ValueError, match="kernel has no averages in closed form over 4 uncertain input columns"):
        psi.check(k.Matern32(), 6, 4)
    psi.check(k.Matern32(), 6, 3)
    psi.check(k.SquaredExponential() + k.Linear(), 6, 6)
