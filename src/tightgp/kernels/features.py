"""Features of a kernel: ``E[φ(x)ᵀφ(x')] = k(x, x')`` over a draw of them, for functions from the prior (maths 16.5).

Stationary kernels have random waves, whose frequencies are drawn from the spectral density (Rahimi & Recht 2007);
polynomials have finitely many features, which are exact. Sums put features side by side, products multiply them.
"""

from functools import singledispatch
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp.kernels.base import AnyArray, Constant, Kernel, Product, Sum, check_per_column
from tightgp.kernels.polynomial import Linear, Polynomial
from tightgp.kernels.stationary import (
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
    SquaredExponential,
    Stationary,
)

#: More exact features than this are refused.
_MOST_EXACT = 4096
#: The smoothness ν of each Matérn kernel.
_SMOOTHNESS = {Matern12: 0.5, Matern32: 1.5, Matern52: 2.5}
#: Features are kept in blocks (n, f, p): f independent draws, or 1 where they are exact, of p features each.
Blocks = list[Float[Array, "n _ _"]]


@singledispatch
def frequencies(kernel: Kernel, key: Any, number: int, num_inputs: int) -> Any:
    """A draw of ``number`` frequencies, as `blocks` takes it; None for a kernel whose features are exact.

    For a kernel of your own, register this function and `blocks`.
    """
    raise ValueError(
        f"kernel {type(kernel).__name__} has no known features, so functions from its prior cannot be drawn as paths; "
        "draw values at given inputs with sample_f"
    )


@singledispatch
def blocks(kernel: Kernel, drawn: Any, X: Float[Array, "n d"]) -> Blocks:
    """The features at ``X``, of a draw of `frequencies`."""
    raise ValueError(f"kernel {type(kernel).__name__} has no known features")


def features(kernel: Kernel, drawn: Any, X: Float[AnyArray, "n d"]) -> Float[Array, "n k"]:
    """All features at ``X``: over draws, the mean of ``features @ features.T`` is the covariance matrix.

    >>> import jax
    >>> from tightgp.kernels.features import features, frequencies
    >>> kernel = tgp.kernels.Linear() + 1.0
    >>> np.allclose((phi := features(kernel, frequencies(kernel, jax.random.key(0), 8, 2), X)) @ phi.T, kernel(X))
    True
    """
    parts = blocks(kernel, drawn, jnp.asarray(X))
    return jnp.concatenate([a.reshape(len(X), -1) / jnp.sqrt(a.shape[1]) for a in parts], axis=1)


@frequencies.register(Stationary)
def _(kernel, key, number, num_inputs):
    columns = jax.eval_shape(lambda X: kernel.scaled(kernel._active(X)), jnp.zeros((1, num_inputs))).shape[1]
    normal_key, scale_key = jax.random.split(key)
    normal = jax.random.normal(normal_key, (number, columns), kernel.variance.dtype)
    if isinstance(kernel, SquaredExponential | Periodic):
        return normal
    if isinstance(kernel, RationalQuadratic):
        precision = jax.random.gamma(scale_key, kernel.alpha, (number, 1), normal.dtype) / kernel.alpha
        return normal * jnp.sqrt(precision)
    if type(kernel) not in _SMOOTHNESS:
        return frequencies.dispatch(Kernel)(kernel, key, number, num_inputs)
    smoothness = _SMOOTHNESS[type(kernel)]
    return normal * jax.lax.rsqrt(jax.random.gamma(scale_key, smoothness, (number, 1), normal.dtype) / smoothness)


@blocks.register(Stationary)
def _(kernel, drawn, X):
    phase = kernel.scaled(kernel._active(X)) @ drawn.T
    return [jnp.sqrt(kernel.variance) * jnp.stack([jnp.cos(phase), jnp.sin(phase)], axis=2)]


@frequencies.register(Constant)
@frequencies.register(Linear)
@frequencies.register(Polynomial)
def _(kernel, key, number, num_inputs):
    return None


@blocks.register(Constant)
def _(kernel, drawn, X):
    return [jnp.full((len(X), 1, 1), jnp.sqrt(kernel.variance))]


@blocks.register(Linear)
def _(kernel, drawn, X):
    X = kernel._active(X)
    return [(X * jnp.sqrt(check_per_column("variance", kernel.variance, X)))[:, None]]


@blocks.register(Polynomial)
def _(kernel, drawn, X):
    X = kernel._active(X)
    scaled = X * jnp.sqrt(check_per_column("variance", kernel.variance, X))
    one = jnp.concatenate([scaled, jnp.full((len(X), 1), jnp.sqrt(kernel.offset))], axis=1)[:, None]
    if one.shape[2] ** kernel.degree > _MOST_EXACT:
        raise ValueError(
            f"kernel Polynomial of degree {kernel.degree} over {X.shape[1]} inputs has {one.shape[2] ** kernel.degree} "
            f"features; paths take at most {_MOST_EXACT}"
        )
    total = one
    for _ in range(kernel.degree - 1):
        total = _times(total, one)
    return [total]


@frequencies.register(Sum)
@frequencies.register(Product)
def _(kernel, key, number, num_inputs):
    keys = jax.random.split(key, len(kernel.parts))
    return tuple(frequencies(part, k, number, num_inputs) for part, k in zip(kernel.parts, keys, strict=True))


@blocks.register(Sum)
def _(kernel, drawn, X):
    X = kernel._active(X)
    return [block for part, own in zip(kernel.parts, drawn, strict=True) for block in blocks(part, own, X)]


@blocks.register(Product)
def _(kernel, drawn, X):
    X = kernel._active(X)
    first, *others = (blocks(part, own, X) for part, own in zip(kernel.parts, drawn, strict=True))
    for other in others:
        first = [_times(a, b) for a in first for b in other]
    return first


def _times(a: Float[Array, "n f p"], b: Float[Array, "n g q"]) -> Float[Array, "n h r"]:
    """All products of the features of each draw."""
    products = a[:, :, :, None] * b[:, :, None, :]
    return products.reshape(*products.shape[:2], -1)
