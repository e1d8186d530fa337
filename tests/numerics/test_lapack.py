"""Stacks are factorised in calls that never wait for the threads that run them."""

import os
import re
from functools import partial

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import tightgp as tgp
from tests import processes
from tightgp.numerics import lapack, linalg, stacks
from tightgp.numerics.device import on_cpu

#: Matrices of these stacks: many to a call; one to a call, in lanes of several; fewer than there are lanes.
SHAPES = [(3000, 8), (37, 60), (2, 100)]


def covariances(number, size):
    roots = np.random.default_rng(0).normal(size=(number, size, size))
    return jnp.asarray(roots @ roots.swapaxes(1, 2) / size)


@pytest.mark.parametrize("shape", SHAPES)
def test_stacks_in_lanes_equal_stacks_at_once(shape):
    R = covariances(*shape)
    expected = np.linalg.inv(np.linalg.cholesky(np.eye(shape[1]) + R))
    for rounded in (False, True):
        np.testing.assert_allclose(jax.jit(stacks.noisy_roots, static_argnums=1)(R, rounded), expected, atol=1e-12)


def test_factors_can_be_batched_and_batched_again():
    K = covariances(6, 70) + jnp.eye(70)
    lower = np.linalg.cholesky(K)
    for shape in ((6,), (2, 3)):
        function = partial(linalg.factorise, jitter=0.0)
        for _ in shape:
            function = jax.vmap(function)
        factor = jax.jit(function)(K.reshape(*shape, 70, 70))
        np.testing.assert_allclose(factor.lower.reshape(6, 70, 70), lower, atol=1e-10)
        np.testing.assert_allclose(factor.inverse.reshape(6, 70, 70), np.linalg.inv(lower), atol=1e-10)


def lapack_shapes(function, *arguments) -> list[tuple[int, ...]]:
    """The operands of all LAPACK calls of a compiled program."""
    text = jax.jit(function).lower(*arguments).compile().as_text()
    calls = re.findall(r"\(?f64\[([\d,]+)\][^\n]*custom-call\([^\n]*custom_call_target=\"lapack", text)
    return [tuple(map(int, call.split(","))) for call in calls]


def divided(shapes) -> list[tuple[int, ...]]:
    """Those that jaxlib divides among the threads of XLA's pool."""
    work = [(np.prod(shape[:-2], dtype=int), shape[-1] ** 3) for shape in shapes]
    return [shape for shape, (number, each) in zip(shapes, work, strict=True) if number > 1 and number * each >= 2e5]


@pytest.mark.skipif(not on_cpu(), reason="other devices call no LAPACK")
def test_no_program_has_a_call_that_would_wait():
    R = covariances(256, 64)
    assert divided(lapack_shapes(jnp.linalg.cholesky, R))  # the check sees what it looks for
    X = np.random.default_rng(0).uniform(size=(600, 2))
    model = tgp.SGPR(tgp.kernels.SquaredExponential(), X[:520], 0.1, bound=tgp.Block(64))  # inverses of four parts
    model, rows = model.prepare(tgp.Dataset(X, X[:, 0]))
    parameters, rest = eqx.partition(model, eqx.is_inexact_array)
    for program in (
        lapack_shapes(lambda R: stacks.noisy_roots(R, True), R),
        lapack_shapes(stacks.noisy_roots, R),
        lapack_shapes(jax.vmap(linalg.inverse_root), R),
        lapack_shapes(jax.vmap(lapack.triangular_inverse), R),
        lapack_shapes(jax.grad(lambda p: eqx.combine(p, rest).objective(rows)[0]), parameters),
    ):
        assert program
        assert not divided(program)


def test_threads_predict_and_fit_at_the_same_time():
    """With stacks divided among two threads of XLA this never returned."""
    command = ["-m", "soak.threads", "--seconds", "1", "--predicting", "4", "--fitting", "1", "--rows", "600"]
    flags = os.environ.get("XLA_FLAGS", "").replace("--xla_cpu_multi_thread_eigen=false", "")
    (done,) = processes.run([command], NPROC=2, XLA_FLAGS=flags)
    assert done.code == 0, done.err
    assert "predict: " in done.out
