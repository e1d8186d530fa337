"""Every kernel with its formula for one pair of inputs."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

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


def matern(r, nu):
    s = max(math.sqrt(2 * nu) * r, 1e-300)
    return 2 ** (1 - nu) / scipy.special.gamma(nu) * s**nu * scipy.special.kv(nu, s) if r > 0 else 1.0


def great_circle(x, z):
    """The angle between two places in degrees, by haversines."""
    (a, b), (c, d) = np.deg2rad(x), np.deg2rad(z)
    return 2 * np.arcsin(np.sqrt(np.sin((c - a) / 2) ** 2 + np.cos(a) * np.cos(c) * np.sin((d - b) / 2) ** 2))


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
#: `Matern` is a quadrature.
TOLERANCE = {"matern": 1e-8}
STATIONARY["matern"] = (
    lambda s, **kw: K.Matern(1.7, s, 0.8, **kw),
    lambda x, z, s: 1.7 * matern(np.sqrt(r2(x, z, s)), 0.8),
)
DOT = {
    "linear": (lambda s, **kw: K.Linear(s, **kw), lambda x, z, s: np.sum(s * x * z)),
    "polynomial": (lambda s, **kw: K.Polynomial(3, s, 0.4, **kw), lambda x, z, s: (np.sum(s * x * z) + 0.4) ** 3),
}
FORMULAS = STATIONARY | DOT

WEIGHT, FREQUENCY, FADING = np.array([1.1, 0.6]), 0.3 * X3[:2], np.abs(Y3[:2]) + 0.5


class Network(eqx.Module):
    """Two layers, written so that a model with them can be saved."""

    first: eqx.nn.Linear
    second: eqx.nn.Linear

    def __call__(self, x):
        return self.second(jnp.tanh(self.first(x)))


NETWORK = Network(eqx.nn.Linear(3, 4, key=jax.random.key(0)), eqx.nn.Linear(4, 2, key=jax.random.key(1)))


def features(x):
    first, second = NETWORK.first, NETWORK.second
    hidden = np.tanh(np.asarray(first.weight, float) @ x + np.asarray(first.bias, float))
    return np.asarray(second.weight, float) @ hidden + np.asarray(second.bias, float)


def spectral_mixture(x, z):
    bumps = np.exp(-0.5 * np.sum(((x - z) / FADING) ** 2, axis=1))
    return np.sum(WEIGHT * bumps * np.cos(2 * np.pi * FREQUENCY @ (x - z)))


def change_point(x, z):
    s, t = (1 / (1 + np.exp(-(v[1] - 0.3) / 0.5)) for v in (x, z))
    return (1 - s) * (1 - t) * 1.7 * np.exp(-0.5 * r2(x, z, ARD)) + s * t * 0.6 * (x @ z)


#: Kernels of three inputs, each with its formula.
OF_THREE = {
    "spectral_mixture": (K.SpectralMixture(WEIGHT, FREQUENCY, FADING), spectral_mixture),
    "great_circle": (
        K.GreatCircle(1.7, 100.0, active_dims=[0, 2]),
        lambda x, z: 1.7 * np.exp(-63.710088 * great_circle(x[[0, 2]], z[[0, 2]])),
    ),
    "on_sphere": (
        K.OnSphere(K.Matern32(1.7, 100.0), active_dims=[0, 2]),
        lambda x, z: 1.7 * matern32(127.420176 * np.sin(great_circle(x[[0, 2]], z[[0, 2]]) / 2)),
    ),
    "change_point": (
        K.ChangePoint(K.SquaredExponential(1.7, ARD), K.Linear(0.6), location=0.3, width=0.5, column=1),
        change_point,
    ),
    "deep": (
        K.Deep(K.Matern52(1.7, 0.7), NETWORK),
        lambda x, z: 1.7 * matern52(np.linalg.norm(features(x) - features(z)) / 0.7),
    ),
}
KERNELS = {name: make(ARD) for name, (make, _) in FORMULAS.items()} | {
    **{name: kernel for name, (kernel, _) in OF_THREE.items()},
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
