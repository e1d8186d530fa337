"""Laws that every kernel obeys, and arguments that are refused."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import tightgp as tgp
from tests.kernels.cases import (
    ARD,
    FORMULAS,
    KERNELS,
    OF_THREE,
    TOLERANCE,
    X3,
    Y3,
    Network,
    each_kernel,
    loop,
    value_and_grad,
)
from tightgp import kernels as K
from tightgp import parameters


@pytest.mark.parametrize("scale", [0.8, ARD[:1], ARD], ids=["scalar", "ard1", "ard3"])
@pytest.mark.parametrize("name", FORMULAS)
def test_matrix_matches_the_formula(name, scale):
    make, pair = FORMULAS[name]
    X, Y = (X3, Y3) if np.size(scale) == 3 else (X3[:, :1], Y3[:, :1])
    kernel, rtol = make(scale), TOLERANCE.get(name, 1e-10)
    np.testing.assert_allclose(kernel(X), loop(pair, X, X, scale), rtol=rtol, atol=rtol / 100)
    np.testing.assert_allclose(kernel(X, Y), loop(pair, X, Y, scale), rtol=rtol, atol=rtol / 100)


@pytest.mark.parametrize("name", OF_THREE)
def test_matrix_of_three_inputs_matches_the_formula(name):
    kernel, pair = OF_THREE[name]
    for A, B, matrix in ((X3, X3, kernel(X3)), (X3, Y3, kernel(X3, Y3))):
        np.testing.assert_allclose(matrix, [[pair(a, b) for b in B] for a in A], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", FORMULAS)
def test_one_lengthscale_for_three_inputs(name):
    make, pair = FORMULAS[name]
    rtol = TOLERANCE.get(name, 1e-10)
    np.testing.assert_allclose(make(0.8)(X3, Y3), loop(pair, X3, Y3, 0.8), rtol=rtol, atol=rtol / 100)


@each_kernel()
def test_matrix_is_symmetric_positive_definite_with_its_diagonal(kernel):
    X = X3[[0, 1, 2, 3, 0, 1]]
    matrix = np.asarray(kernel(X))
    np.testing.assert_allclose(kernel.diagonal(X), np.diag(matrix), rtol=1e-12)
    np.testing.assert_allclose(matrix, matrix.T, rtol=1e-12, atol=1e-13)
    assert np.linalg.eigvalsh(matrix).min() > -1e-12 * np.trace(matrix)


@pytest.mark.parametrize("name", FORMULAS)
def test_active_dims_select_columns(name):
    make, pair = FORMULAS[name]
    kernel, X, Y = make(ARD[:2], active_dims=np.array([2, 0])), X3[:, [2, 0]], Y3[:, [2, 0]]
    rtol = TOLERANCE.get(name, 1e-10)
    np.testing.assert_allclose(kernel(X3, Y3), loop(pair, X, Y, ARD[:2]), rtol=rtol, atol=rtol / 100)
    np.testing.assert_allclose(kernel.diagonal(X3), np.diag(loop(pair, X, X, ARD[:2])), rtol=1e-10)


@each_kernel()
def test_gradient_matches_finite_differences(kernel, rng):
    weights = rng.normal(size=(2, 6, 6))
    at, unflatten = ravel_pytree((kernel, jnp.asarray(X3), jnp.asarray(rng.normal(size=(6, 3)))))
    step = rng.normal(size=at.shape)
    ahead, behind = (value_and_grad(unflatten(at + h * step), weights)[0] for h in (1e-5, -1e-5))
    gradient, _ = ravel_pytree(value_and_grad(unflatten(at), weights)[1])
    assert float(gradient @ step) == pytest.approx(float(ahead - behind) / 2e-5, rel=1e-6, abs=1e-8)


@each_kernel()
def test_gradient_is_finite_at_equal_rows(kernel, rng):
    X = jnp.asarray(X3[[0, 1, 2, 3, 0, 1]])
    _, gradient = value_and_grad((kernel, X, X), rng.normal(size=(2, 6, 6)))
    assert all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(gradient))


@each_kernel()
def test_saved_kernels_are_the_same(kernel, tmp_path):
    tgp.save(kernel, tmp_path / "kernel.safetensors")
    loaded = tgp.load(tmp_path / "kernel.safetensors", classes=[Network, eqx.nn.Linear])
    assert list(tgp.named_parameters(loaded)) == list(tgp.named_parameters(kernel))
    np.testing.assert_array_equal(loaded(X3, Y3), kernel(X3, Y3))


def sizes(jaxpr):
    """Sizes of all arrays in a jaxpr and its inner jaxprs."""
    for eqn in jaxpr.eqns:
        yield from (var.aval.size for var in eqn.outvars)
        for inner in jax.tree.leaves(tuple(eqn.params.values()), is_leaf=lambda x: hasattr(x, "eqns")):
            if hasattr(inner, "eqns"):
                yield from sizes(getattr(inner, "jaxpr", inner))


N, D = 50, 7
WIDE = {name: make(np.linspace(0.5, 2, D)) for name, (make, _) in FORMULAS.items()} | {
    name: kernel for name, kernel in KERNELS.items() if name in ("constant", "white")
}
WIDE["sum"] = WIDE["se"] + WIDE["linear"] * WIDE["periodic"]


@each_kernel(WIDE)
def test_no_array_has_n_by_n_by_d_entries(kernel):
    X = jnp.zeros((N, D))
    functions = [
        lambda k, X: k(X),
        lambda k, X: k(X, X),
        jax.grad(lambda k, X: jnp.sum(k(X)), (0, 1)),
        jax.grad(lambda k, X: jnp.sum(k(X, X)), (0, 1)),
    ]
    for function in functions:
        largest = max(sizes(jax.make_jaxpr(function)(kernel, X).jaxpr))
        assert N * D <= largest < N * N * D


def test_sizes_finds_arrays_of_n_by_n_by_d_entries():
    naive = jax.jit(lambda X: jnp.exp(-jnp.sum((X[:, None] - X[None]) ** 2, axis=2)))
    assert max(sizes(jax.make_jaxpr(naive)(jnp.zeros((N, D))).jaxpr)) == N * N * D


@each_kernel()
def test_float32_results_match_float64(kernel):
    single = parameters.cast(kernel, jnp.float32)
    X, Y = X3.astype(np.float32), Y3.astype(np.float32)
    for got, exact in [
        (single(X), kernel(X3)),
        (single(X, Y), kernel(X3, Y3)),
        (single.diagonal(X), kernel.diagonal(X3)),
    ]:
        assert got.dtype == jnp.float32
        np.testing.assert_allclose(got, exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: K.SquaredExponential(-1.0), "variance must be positive"),
        (lambda: K.Linear(-1.0), "variance must be positive"),
        (lambda: K.Constant(0.0), "variance must be positive"),
        (lambda: K.White(np.nan), "variance must be positive and finite"),
        (lambda: K.SquaredExponential() + -1.0, "variance must be positive"),
        (lambda: K.Matern12(lengthscale=0.0), "lengthscale must be above its floor"),
        (lambda: K.Matern12(lengthscale=[1.0, -1.0]), "lengthscale must be above its floor"),
        (lambda: K.Matern12(lengthscale=np.inf), "lengthscale must be .* finite"),
        (lambda: K.Matern12(lengthscale="long"), "lengthscale must be an array of numbers"),
        (lambda: K.Periodic(period=0.0), "period must be above its floor"),
        (lambda: K.RationalQuadratic(alpha=0.0), "alpha must be above its floor"),
        (lambda: K.Polynomial(offset=-1.0), "offset must be positive"),
        (lambda: K.Polynomial(degree=0), "degree must be a whole number of at least 1"),
        (lambda: K.Polynomial(degree=1.5), "degree must be a whole number of at least 1"),
        (lambda: K.Matern(smoothness=0.1), "smoothness must be above its floor"),
        (lambda: K.GreatCircle(radius=0.0), "radius must be positive"),
        (lambda: K.GreatCircle()(X3), "two columns, latitude and longitude"),
        (lambda: K.OnSphere("matern32"), "kernel must be one of tightgp.kernels, got str"),
        (lambda: K.ChangePoint(K.Linear(), 2.0), "after must be one of tightgp.kernels, got float"),
        (lambda: K.ChangePoint(K.Linear(), K.White(), location=[1.0, 2.0]), "location must be one number"),
        (lambda: K.ChangePoint(K.Linear(), K.White(), column=-1), "column must be a whole number of at least 0"),
        (lambda: K.ChangePoint(K.Linear(), K.White(), column=3)(X3), "column 3 reaches beyond the 3 columns"),
        (lambda: K.SpectralMixture([1.0], [0.5], [1.0]), r"weight must have shape \(Q,\)"),
        (lambda: K.SpectralMixture([1.0], [[0.5]], [[1.0]])(X3), "kernel sees 3 input column"),
        (lambda: K.SpectralMixture.of_data(X3, X3), r"y must have shape \(6,\)"),
        (lambda: K.Deep(K.Linear(), jnp.tanh), "network must be an Equinox module"),
        (lambda: K.Deep(K.Linear(), eqx.nn.Lambda(jnp.sum))(X3), "must map a row"),
        (lambda: K.Deep(K.Linear(), eqx.nn.Lambda(3)), "network.fn is 3, which is neither"),
        (lambda: K.WithGradients(K.Matern32()), "kernel must be a SquaredExponential or"),
        (lambda: K.WithGradients(K.SquaredExponential())(X3), "last column of X must be 0 for a value, or 1 to 2"),
        (lambda: K.Linear(active_dims=0), "active_dims must be column numbers"),
        (lambda: K.Linear(active_dims=[]), "active_dims must be"),
        (lambda: K.Linear(active_dims=[-1]), "active_dims must be"),
        (lambda: K.Linear(active_dims=[1, 1]), "active_dims must be distinct"),
        (lambda: K.Linear(active_dims=[1.5]), "active_dims must be"),
        (lambda: K.Linear(active_dims=["a"]), "active_dims must be"),
        (lambda: K.Linear(active_dims=[True, False]), "active_dims must be"),
        (lambda: K.Linear(active_dims=[0, 3])(X3), "active_dims .* reach beyond the 3 columns"),
        (lambda: K.Linear(active_dims=[0, 3]).diagonal(X3), "active_dims .* reach beyond the 3 columns"),
    ],
)
def test_invalid_arguments_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (K.SquaredExponential(lengthscale=[1.0, 2.0]), "lengthscale has shape .* 3 input column"),
        (K.SquaredExponential(lengthscale=np.ones((2, 2))), "lengthscale has shape .* 3 input column"),
        (K.SquaredExponential(lengthscale=[1.0, 2.0], active_dims=[1]), "lengthscale has shape .* 1 input column"),
        (K.Periodic(lengthscale=[1.0, 2.0]), "lengthscale has shape .* 3 input column"),
        (K.Periodic(period=[1.0, 2.0]), "period has shape .* 3 input column"),
        (K.Linear([1.0, 2.0]), "variance has shape .* 3 input column"),
        (K.Polynomial(variance=[1.0, 2.0]), "variance has shape .* 3 input column"),
    ],
)
def test_parameters_of_another_size_than_the_inputs_are_refused(kernel, message):
    with pytest.raises(ValueError, match=message):
        kernel(X3)
    with pytest.raises(ValueError, match=message):
        kernel(X3, Y3)
    with pytest.raises(ValueError, match=message):
        tgp.SGPR(kernel, X3)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda v: K.SquaredExponential(v), "variance"),
        (lambda v: K.Periodic(v), "variance"),
        (lambda v: K.RationalQuadratic(v), "variance"),
        (lambda v: K.RationalQuadratic(alpha=v), "alpha"),
        (lambda v: K.Polynomial(offset=v), "offset"),
        (lambda v: K.Constant(v), "variance"),
        (lambda v: K.White(v), "variance"),
    ],
)
def test_vectors_are_refused_where_one_number_is_expected(make, name):
    """Otherwise as many numbers as rows would scale the columns of the matrix."""
    with pytest.raises(ValueError, match=f"{name} must be one number"):
        make(np.linspace(1, 2, 6))(X3)
