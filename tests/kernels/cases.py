"""Every kernel with its formula for one pair of inputs."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tightgp import kernels as K

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


@jax.jit
def value_and_grad(inputs, weights):
    """A weighted sum of k(X) and k(X, X2), with its gradient in the kernel, X and X2."""

    def value(inputs):
        kernel, X, X2 = inputs
        return jnp.sum(weights[0] * kernel(X)) + jnp.sum(weights[1] * kernel(X, X2))

    return jax.value_and_grad(value)(inputs)
