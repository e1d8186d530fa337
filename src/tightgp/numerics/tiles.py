"""Products with a kernel matrix of all rows, made some rows at a time and never kept: O(N²) time, O(N·chunk) memory."""

from collections.abc import Callable
from typing import Any

import jax
from jaxtyping import Array, Float

from tightgp.numerics import chunks
from tightgp.numerics.device import per_backend
from tightgp.numerics.linalg import full_precision

#: As many rows of the matrix as take so many bytes are in memory at a time.
_TILE_BYTES = {"cpu": 32 << 20, "gpu": 1 << 30}


def rows_at_a_time(n: int, itemsize: int) -> int:
    """How many rows of an N×N matrix to make at a time."""
    return max(1, per_backend(_TILE_BYTES) // (n * itemsize))


@full_precision
def product(
    kernel: Any, X: Float[Array, "n d"], V: Float[Array, "n p"], most: int | None = None
) -> Float[Array, "n p"]:
    """``kernel(X) V``, ``most`` rows of the matrix at a time; differentiable in as little memory.

    What a kernel adds to the diagonal alone, such as white noise, is part of it.

    >>> import jax.numpy as jnp
    >>> from tightgp.numerics import tiles
    >>> kernel, V = tgp.kernels.Matern32() + tgp.kernels.White(0.5), jnp.asarray(y)[:, None]
    >>> bool(np.allclose(tiles.product(kernel, jnp.asarray(X), V, most=7), kernel(X) @ V))
    True
    """
    plan = chunks.plan(len(X), most or rows_at_a_time(len(X), X.dtype.itemsize))
    own = jax.checkpoint(lambda part: kernel(part[0], X) @ V + diagonal_alone(kernel, part[0])[:, None] * part[1])
    parts = chunks.scan(lambda _, part: (None, own(part)), None, chunks.cut((X, V), plan), plan)[1]
    return parts.reshape(-1, V.shape[1])[: len(X)]


def diagonal_alone(kernel: Any, X: Float[Array, "n d"]) -> Float[Array, " n"]:
    """What a kernel adds to the variance of a row, and not to its covariance with another row at the same place."""
    other: Callable = jax.vmap(lambda x: kernel(x[None], x[None])[0, 0])
    return kernel.diagonal(X) - other(X)


def cotangents(
    kernel: Any, X: Float[Array, "n d"], own: Float[Array, "k d"], bar: Float[Array, "k n"], alone: Float[Array, " k"]
) -> Any:
    """The derivatives of ``Σ bar·k(own, X) + Σ alone·diagonal_alone(own)`` in the kernel, in ``X`` and in ``own``."""

    def values(kernel, X, own):
        return kernel(own, X), diagonal_alone(kernel, own)

    return jax.vjp(values, kernel, X, own)[1]((bar, alone))
