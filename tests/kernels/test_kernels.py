import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import tightgp as tgp
from tightgp import kernels as K
from tightgp import parameters

X3 = np.random.default_rng(1).normal(size=(6, 3))
Y3 = np.random.default_rng(2).normal(size=(4, 3))
ARD = np.array([0.5, 1.3, 2.1])


def r2(x, z, ls):
    return np.sum(((x - z) / ls) ** 2)


def matern32(r):
    return (1 + math.sqrt(3) * r) * np.exp(-math.sqrt(3) * r)


def matern52(r):
    return (1 + math.sqrt(5) * r + 5 * r * r / 3) * np.exp(-math.sqrt(5) * r)


# For each kernel a constructor and its formula for one pair of inputs; s is a number or one for each input.
STATIONARY = {
    "se": (lambda s, **kw: K.SquaredExponential(1.7, s, **kw), lambda x, z, s: 1.7 * np.exp(-0.5 * r2(x, z, s))),
    "matern12": (lambda s, **kw: K.Matern12(1.7, s, **kw), lambda x, z, s: 1.7 * np.exp(-np.sqrt(r2(x, z, s)))),
    "matern32": (lambda s, **kw: K.Matern32(1.7, s, **kw), lambda x, z, s: 1.7 * matern32(np.sqrt(r2(x, z, s)))),
    "matern52": (lambda s, **kw: K.Matern52(1.7, s, **kw), lambda x, z, s: 1.7 * matern52(np.sqrt(r2(x, z, s)))),
    "rq": (
        lambda s, **kw: K.RationalQuadratic(1.7, s, 0.6, **kw),
        lambda x, z, s: 1.7 * (1 + r2(x, z, s) / 1.2) ** -0.6,
    ),
    "periodic": (
        lambda s, **kw: K.Periodic(1.7, s, 2.3, **kw),
        lambda x, z, s: 1.7 * np.exp(-2 * np.sum(np.sin(np.pi * (x - z) / 2.3) ** 2 / s**2)),
    ),
}
DOT = {
    "linear": (lambda s, **kw: K.Linear(s, **kw), lambda x, z, s: np.sum(s * x * z)),
    "polynomial": (lambda s, **kw: K.Polynomial(3, s, 0.4, **kw), lambda x, z, s: (np.sum(s * x * z) + 0.4) ** 3),
}
FORMULAS = STATIONARY | DOT
KERNELS = {name: make(ARD) for name, (make, _) in FORMULAS.items()} | {
    "constant": K.Constant(0.7),
    "white": K.White(0.7),
    "sum": K.SquaredExponential(1.7, ARD) + K.Linear(0.3) + K.White(0.2),
    "product": K.Matern32(1.7, ARD) * K.Periodic(active_dims=[1]) * 0.5,
}


def loop(pair, A, B, s):
    return np.array([[pair(a, b, s) for b in B] for a in A])


def each_kernel(kernels=KERNELS):
    return pytest.mark.parametrize("kernel", list(kernels.values()), ids=list(kernels))


@pytest.mark.parametrize("scale", [0.8, ARD[:1], ARD], ids=["scalar", "ard1", "ard3"])
@pytest.mark.parametrize("name", FORMULAS)
def test_matrix_matches_the_formula(name, scale):
    make, pair = FORMULAS[name]
    X, Y = (X3, Y3) if np.size(scale) == 3 else (X3[:, :1], Y3[:, :1])
    kernel = make(scale)
    np.testing.assert_allclose(kernel(X), loop(pair, X, X, scale), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(kernel(X, Y), loop(pair, X, Y, scale), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", FORMULAS)
def test_one_lengthscale_for_three_inputs(name):
    make, pair = FORMULAS[name]
    np.testing.assert_allclose(make(0.8)(X3, Y3), loop(pair, X3, Y3, 0.8), rtol=1e-10, atol=1e-12)


def test_one_period_per_input():
    p = np.array([0.7, 1.9, 3.1])

    def pair(x, z, s):
        return np.exp(-2 * np.sum(np.sin(np.pi * (x - z) / p) ** 2 / s**2))

    np.testing.assert_allclose(K.Periodic(1.0, ARD, p)(X3, Y3), loop(pair, X3, Y3, ARD), rtol=1e-10)


def test_constant_matrix():
    np.testing.assert_allclose(K.Constant(0.7)(X3), np.full((6, 6), 0.7), rtol=1e-12)
    np.testing.assert_allclose(K.Constant(0.7)(X3, Y3), np.full((6, 4), 0.7), rtol=1e-12)


def test_white_noise_is_zero_between_two_sets():
    np.testing.assert_allclose(K.White(0.7)(X3), 0.7 * np.eye(6), rtol=1e-12)
    np.testing.assert_array_equal(K.White(0.7)(X3, X3), np.zeros((6, 6)))
    np.testing.assert_array_equal(K.White(0.7)(X3, Y3), np.zeros((6, 4)))


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
    np.testing.assert_allclose(kernel(X3, Y3), loop(pair, X, Y, ARD[:2]), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(kernel.diagonal(X3), np.diag(loop(pair, X, X, ARD[:2])), rtol=1e-10)


def test_product_of_kernels_on_different_columns():
    kernel = K.Matern12(lengthscale=0.5, active_dims=[0]) * K.Matern12(lengthscale=2.0, active_dims=[2])
    distance = np.abs(X3[:, None] - Y3[None])
    np.testing.assert_allclose(kernel(X3, Y3), np.exp(-distance[..., 0] / 0.5 - distance[..., 2] / 2), rtol=1e-7)


def test_sums_and_products_match_their_parts():
    a, b = K.SquaredExponential(1.7, ARD), K.Polynomial(2)
    np.testing.assert_allclose((a + b)(X3, Y3), a(X3, Y3) + b(X3, Y3), rtol=1e-13)
    np.testing.assert_allclose((a * b)(X3, Y3), a(X3, Y3) * b(X3, Y3), rtol=1e-13)


@pytest.mark.parametrize("number", [2.0, 2, np.float64(2.0)], ids=["float", "int", "numpy"])
def test_numbers_become_constant_kernels(number):
    kernel = K.SquaredExponential(1.7, ARD)
    plain = np.asarray(kernel(X3))
    for shifted in (kernel + number, number + kernel):
        np.testing.assert_allclose(shifted(X3), plain + 2, rtol=1e-13)
    for scaled in (kernel * number, number * kernel):
        np.testing.assert_allclose(scaled(X3), plain * 2, rtol=1e-13)
    assert isinstance((number + kernel).parts[0], K.Constant)
    assert isinstance((kernel + number).parts[1], K.Constant)


def test_nested_sums_and_products_flatten():
    a, b, c, d = K.SquaredExponential(), K.Linear(), K.White(), K.Matern12()
    assert [type(p) for p in ((a + b) + (c + d)).parts] == [type(k) for k in (a, b, c, d)]
    assert [type(p) for p in (a * (b * c) * d).parts] == [type(k) for k in (a, b, c, d)]
    assert [type(p) for p in (1 + a + 2.0).parts] == [K.Constant, K.SquaredExponential, K.Constant]
    mixed = (a + b) * c
    assert isinstance(mixed, K.Product)
    assert [type(p) for p in mixed.parts] == [K.Sum, K.White]


@pytest.mark.parametrize("other", ["a", None, True, [1.0]], ids=repr)
def test_arithmetic_with_other_types_is_a_type_error(other):
    kernel = K.SquaredExponential()
    for operation in (lambda: kernel + other, lambda: kernel * other, lambda: other + kernel):
        with pytest.raises(TypeError):
            operation()


@jax.jit
def value_and_grad(inputs, weights):
    """A weighted sum of k(X) and k(X, X2), with its gradient in the kernel, X and X2."""

    def value(inputs):
        kernel, X, X2 = inputs
        return jnp.sum(weights[0] * kernel(X)) + jnp.sum(weights[1] * kernel(X, X2))

    return jax.value_and_grad(value)(inputs)


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


@each_kernel({name: KERNELS[name] for name in STATIONARY})
def test_gradient_vanishes_where_all_rows_are_equal(kernel):
    X = jnp.broadcast_to(jnp.asarray(X3[0]), (6, 3))
    _, (kernel_bar, X_bar, X2_bar) = value_and_grad((kernel, X, X), np.ones((2, 6, 6)))
    for bar in (X_bar, X2_bar, tgp.named_parameters(kernel_bar)["lengthscale"].raw):
        np.testing.assert_allclose(bar, 0, atol=1e-6)


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


@each_kernel({name: make(0.3) for name, (make, _) in STATIONARY.items()})
def test_inputs_far_from_the_origin_keep_their_digits(kernel):
    np.testing.assert_allclose(kernel(X3 + 1e6), kernel(X3), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(kernel(X3 + 1e6, Y3 + 1e6), kernel(X3, Y3), rtol=1e-6, atol=1e-6)


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


@each_kernel(
    {"se": K.SquaredExponential(1.0, ARD), "matern12": K.Matern12(1.0, ARD), "rq": K.RationalQuadratic(1.0, ARD)}
)
def test_length_scales_are_the_lengthscales(kernel):
    np.testing.assert_allclose(kernel.length_scales(3), ARD, rtol=1e-12)


def test_length_scales_of_inactive_inputs_are_infinite():
    kernel = K.Matern52(1.0, [0.5, 2.0], active_dims=[2, 0])
    np.testing.assert_allclose(kernel.length_scales(4), [2.0, np.inf, 0.5, np.inf], rtol=1e-12)
    np.testing.assert_allclose(K.Matern52(1.0, 0.5).length_scales(2), [0.5, 0.5], rtol=1e-12)


def test_length_scales_of_the_periodic_kernel():
    """At short distances the kernel is a squared exponential with lengthscale ℓp/(2π)."""
    kernel = K.Periodic(1.0, ARD, 2.3)
    short = K.SquaredExponential(1.0, kernel.length_scales(3))
    np.testing.assert_allclose(1 - kernel(1e-3 * X3), 1 - short(1e-3 * X3), rtol=1e-4, atol=1e-14)


@pytest.mark.parametrize(
    "kernel", [K.Constant(), K.White(), K.Linear(), K.Polynomial()], ids=lambda k: type(k).__name__
)
def test_length_scales_of_kernels_without_lengthscales_are_infinite(kernel):
    np.testing.assert_array_equal(kernel.length_scales(2), [np.inf, np.inf])


def test_length_scales_of_sums_and_products_are_the_shortest_of_their_parts():
    a, b = K.SquaredExponential(1.0, 0.5, active_dims=[0]), K.Matern12(1.0, [2.0, 3.0])
    for kernel in (a + b + 1.0, a * b, b * a * K.Linear()):
        np.testing.assert_allclose(kernel.length_scales(2), [0.5, 3.0], rtol=1e-12)


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


def test_repr_lists_the_parameters():
    text = repr(K.SquaredExponential(1.3, [0.5, 2.0]) + 1.0)
    assert text.splitlines()[0] == "Sum"
    for part in ("parts[0].variance", "1.3", "parts[0].lengthscale", "[0.5, 2. ]", "parts[1].variance"):
        assert part in text


@pytest.mark.parametrize("kind", [tgp.kernels.Matern12, tgp.kernels.Matern32, tgp.kernels.Matern52])
def test_diagonal_is_exact_where_the_compiler_recomputes_distances(kind):
    """A compiler may compute a distance twice with other rounding; both must count as zero."""

    @eqx.filter_jit
    def factor_and_matrix(kernel, Z):
        return jnp.linalg.cholesky(kernel(Z) + 1e-6 * jnp.eye(20), symmetrize_input=False), kernel(Z)

    for seed in range(5):
        Z = np.random.default_rng(seed).normal(size=(20, 1))
        L, matrix = factor_and_matrix(kind(2.0, 0.3 + 0.1 * seed), Z)
        np.testing.assert_allclose(np.diagonal(matrix), 2.0, rtol=1e-12)
        assert np.all(np.isfinite(L))
