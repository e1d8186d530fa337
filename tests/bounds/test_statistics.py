"""The streamed pass against plain autodiff of the dense formula: value and gradient to 1e-9."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightgp as tgp
from tightgp.bounds import statistics, structures
from tightgp.data.partition import Partition
from tightgp.data.placement import on_device
from tightgp.models.sgpr import _elbo

BOUNDS = [
    "standard",
    "spherical",
    "diagonal",
    tgp.Block(5, "rows"),
    tgp.Block(4, "locality"),
    tgp.PowerEP(0.3),
    tgp.PowerEP(1.0),
    tgp.PowerEP(0.6, block=5, partition="rows"),
    tgp.Neighbours(6, block=4),
    tgp.Vecchia(5, block=1),
    tgp.PowerEP(0.6, block=3, neighbours=7),
]
N = 23


def dense_elbo(model, rows):
    """(2.1) and (2.2) written with N×N matrices, differentiated by JAX."""
    name, alpha, size = model.bound.name, getattr(model.bound, "alpha", 0.0), model.bound.partition.size
    n, p = rows.y.shape
    Kuu = model.kernel(model.Z)
    Kuu = Kuu + model.jitter * jnp.mean(jnp.diag(Kuu)) * jnp.eye(len(Kuu))
    Kuf = model.kernel(model.Z, rows.X)
    known = 0.0 if rows.noise_variance is None else rows.noise_variance
    noise = jnp.broadcast_to(model.noise_variance + known, (n,))
    Q = Kuf.T @ jnp.linalg.solve(Kuu, Kuf)
    D = model.kernel(rows.X) - Q
    R = D / jnp.sqrt(noise[:, None] * noise)
    r = jnp.diag(R)
    if name == "spherical":
        penalty = n * jnp.log1p(jnp.mean(r))
    elif name == "standard":
        penalty = jnp.sum(r)
    else:
        power, curvature = (1.0, 1.0) if model.bound.is_bound else (1 - alpha, alpha)
        penalty = power / curvature * jnp.linalg.slogdet(approximated(jnp.eye(n) + curvature * R, rows, size))[1]
    sd = jnp.sqrt(noise)
    cov = Q + jnp.diag(noise)
    if alpha:
        cov = Q + sd[:, None] * approximated(jnp.eye(n) + alpha * R, rows, size) * sd
    y = rows.y - model.mean(rows.X)
    quadratic = jnp.sum(y * jnp.linalg.solve(cov, y))
    gaussian = -0.5 * (p * (n * jnp.log(2 * jnp.pi) + jnp.linalg.slogdet(cov)[1]) + quadratic)
    return gaussian - 0.5 * p * penalty


def approximated(T, rows, size):
    """The closest matrix to T whose inverse has a root that sees each block and what it is given (maths 11.1)."""
    if size == 1 and rows.conditioners is None:
        return jnp.diag(jnp.diagonal(T))
    root = jnp.zeros_like(T)
    for start in range(0, len(T), size):
        own = list(range(start, min(start + size, len(T))))
        listed = [] if rows.conditioners is None else np.unique(rows.conditioners[start : start + size]).tolist()
        group = np.array([row for row in listed if row >= 0] + own)
        inverse = jnp.linalg.inv(jnp.linalg.cholesky(T[np.ix_(group, group)]))
        root = root.at[np.ix_(own, group)].set(inverse[-len(own) :])
    return jnp.linalg.inv(root.T @ root)


def build(rng, bound, outputs, known, M=4):
    X = rng.normal(size=(N, 3))
    data = tgp.Dataset(X, rng.normal(size=(N, outputs)), rng.uniform(0.05, 0.4, N) if known else None)
    kernel = tgp.kernels.Matern32(1.4, [0.9, 1.5, 2.0]) + 0.5 * tgp.kernels.SquaredExponential(0.8, 0.7)
    mean = tgp.means.Linear(np.array([0.2, -0.1, 0.4]), 0.3)
    return in_order(tgp.SGPR(kernel, X[:M] + 0.1, 0.2, bound=bound, mean=mean), data)


def in_order(model, data):
    """The model with its partition fixed, and the rows in its order without padding."""
    model, placed = model.prepare(data)
    if model.bound.partition.neighbours:
        return model, placed
    order = data.placed(model.bound.partition, model.metric)[1]
    rows = data.rows() if order is None else data.rows().take(order)
    return model, on_device(rows)


def check(model, rows, chunk, tolerance=1e-9, transform=lambda function: function):
    """Value and gradient of the streamed pass against the dense formula, leaf by leaf."""
    leaves, structure = jax.tree.flatten(model)
    count = len(rows.real())

    def streamed(leaves, rows):
        return _elbo(jax.tree.unflatten(structure, leaves), rows, chunk)[0]

    def dense(leaves, rows):
        real = rows.rows.map(lambda a: a[:count])._replace(conditioners=rows.rows.conditioners)
        return dense_elbo(jax.tree.unflatten(structure, leaves), real)

    value, gradient = transform(jax.value_and_grad(streamed))(leaves, rows)
    expected, expected_gradient = transform(jax.value_and_grad(dense))(leaves, rows)
    assert float(value) == pytest.approx(float(expected), rel=1e-9)
    for mine, theirs in zip(gradient, expected_gradient, strict=True):
        scale = float(jnp.max(jnp.abs(theirs)))
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("bound", BOUNDS, ids=lambda b: b if isinstance(b, str) else f"{b.name}-{b.partition.how}")
@pytest.mark.parametrize(("outputs", "known", "chunk"), [(1, False, None), (2, True, 6), (1, True, 40)])
def test_value_and_gradient(rng, bound, outputs, known, chunk):
    check(*build(rng, bound, outputs, known), chunk)


@pytest.mark.parametrize("bound", ["diagonal", tgp.PowerEP(0.6, block=5, partition="rows")])
def test_rows_kept_between_the_passes(rng, monkeypatch, bound):
    """Several chunks whose whitened rows are kept rather than made again."""
    monkeypatch.setattr(statistics, "_CHUNK_BYTES", dict.fromkeys(("cpu", "gpu"), 5 * 6 * 8))
    model, rows = build(rng, bound, 1, False, M=6)
    assert statistics._plan(N, 6, 8, model.bound.partition) == ((5, 5), ("whitened rows", "roots of blocks"))
    check(model, rows, None)


@pytest.mark.parametrize("bound", [tgp.Neighbours(6, block=4), tgp.Vecchia(5, block=1)])
def test_given_rows_gathered_in_parts(rng, monkeypatch, bound):
    """Several parts, each of several chunks, padding included."""
    numbers = 6 * (bound.partition.size + bound.partition.neighbours) * 8
    monkeypatch.setattr(structures, "_GATHERED_BYTES", dict.fromkeys(("cpu", "gpu"), 3 * numbers))
    monkeypatch.setattr(structures, "_GROUP_BYTES", dict.fromkeys(("cpu", "gpu"), 5 * numbers))
    model, rows = build(rng, bound, 2, True, M=6)
    check(model, rows, None)


def test_second_derivative(rng):
    """Derivatives of the hand-written derivatives are right too."""
    model, rows = build(rng, "diagonal", 1, False)

    def value(log_noise):
        return _elbo(tgp.SGPR(model.kernel, model.Z, tgp.parameters.real(jnp.exp(log_noise))), rows, 6)[0]

    slope = jax.grad(value)
    h, at = 1e-4, jnp.log(0.2)
    expected = (8 * (slope(at + h) - slope(at - h)) - (slope(at + 2 * h) - slope(at - 2 * h))) / (12 * h)
    assert float(jax.grad(slope)(at)) == pytest.approx(float(expected), rel=1e-7)


def test_many_inducing_points_use_the_split_products(rng):
    """From 512 columns on products are split; value and gradient must not notice."""
    X = rng.uniform(-3, 3, size=(700, 2))
    data = tgp.Dataset(X, np.sin(X[:, 0]))
    model, rows = in_order(tgp.SGPR(tgp.kernels.Matern12(1.0, 0.3), X[:530], 0.1), data)
    # No other test has these shapes: one program takes half the time of the many that single operations are.
    check(model, rows, 200, tolerance=1e-7, transform=jax.jit)


def test_memory_does_not_hold_all_rows():
    """The compiled gradient's temporary memory stays far under one N×M matrix."""
    n, m = 200_000, 64
    X = np.zeros((n, 3))
    X[:, 0] = np.linspace(0, 1, n)
    model, rows = tgp.SGPR(tgp.kernels.SquaredExponential(), X[:: n // m][:m], 0.1).prepare(tgp.Dataset(X, X[:, 0]))
    leaves, structure = jax.tree.flatten(model)

    def value(leaves, rows):
        return _elbo(jax.tree.unflatten(structure, leaves), rows, 4096)[0]

    compiled = jax.jit(jax.value_and_grad(value)).lower(leaves, rows).compile()
    assert compiled.memory_analysis().temp_size_in_bytes < 0.35 * n * m * 8


def test_clamps_are_counted():
    """In float32 with Z = X, rounding pushes some d_i under zero; they are clamped and counted."""
    X = np.linspace(0, 1, 60, dtype=np.float32)[:, None]
    data = tgp.Dataset(X, np.sin(6 * X[:, 0]))
    model, rows = tgp.SGPR(tgp.kernels.SquaredExponential(), X, 0.1, jitter=1e-7).prepare(data)
    value, followed = model.objective(rows)
    assert np.isfinite(float(value))
    assert float(followed["clamped"]) > 0


@pytest.mark.parametrize("bound", ["diagonal", tgp.PowerEP(0.6, block=5, partition="rows")])
@pytest.mark.parametrize("chunk", [None, 6])
def test_gradient_in_the_data(rng, bound, chunk):
    """Inputs, targets and known noise can be differentiated too: input warping and latent inputs rely on it."""
    model, rows = build(rng, bound, 2, True)
    rows = on_device(rows.rows._replace(index=None))
    gradient = jax.grad(lambda rows: _elbo(model, rows, chunk)[0])(rows)
    expected = jax.grad(lambda rows: dense_elbo(model, rows))(rows.rows)
    for mine, theirs in zip(jax.tree.leaves(gradient), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-8, atol=1e-9 * float(jnp.max(jnp.abs(theirs))))


def test_blocks_are_no_larger_than_the_data_or_than_a_chunk_can_bear(rng):
    X = rng.normal(size=(N, 2))
    data = tgp.Dataset(X, X[:, 0])
    values = [
        float(tgp.SGPR(tgp.kernels.Matern32(), X[:4], 0.1, bound=tgp.Block(size, "rows")).elbo(data))
        for size in (N, 10**6)
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-13)
    plan, _ = statistics._plan(200_000, 10, 8, Partition(1024))
    assert plan.size * 1024 * 8 <= 2 * max(statistics._CHUNK_BYTES.values())
    assert plan.size % 1024 == 0
