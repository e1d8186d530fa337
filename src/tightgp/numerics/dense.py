"""Factors of matrices so large that only two or three of their size fit into memory."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp.numerics.linalg import MAX_JITTER, default_jitter, full_precision, inverse_lower

#: Rows of an inverse that are made at a time, and most parts that they are made in.
_WIDTH, _MOST_PARTS = 1024, 16


@full_precision
def cholesky(make: Callable[[], Float[Array, "n n"]]) -> tuple[Float[Array, "n n"], Float[Array, ""]]:
    """The Cholesky factor of ``make()``, and the relative jitter that was added, as in `linalg.factorise` from 0 on.

    A matrix that cannot be factorised is made again for each further level instead of being kept.
    """

    def attempt(level):
        K = make()
        level = jnp.asarray(level, K.dtype)
        n = jnp.arange(len(K))
        return jnp.linalg.cholesky(K.at[n, n].add(level * jnp.mean(jnp.diagonal(K))), symmetrize_input=False)

    def unfinished(state):
        level, L = state
        return ~jnp.all(jnp.isfinite(jnp.diagonal(L))) & (level < 0.5 * MAX_JITTER)

    def escalate(state):
        level = jnp.where(state[0] > 0, 10 * state[0], default_jitter(state[1].dtype) / 100)
        return level, attempt(level)

    L = attempt(0.0)
    level, L = jax.lax.while_loop(unfinished, escalate, (jnp.zeros((), L.dtype), L))
    return L, level


@full_precision
def inverse(L: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The inverse of a lower triangular matrix, some rows at a time in the place of the matrix itself.

    >>> import jax.numpy as jnp
    >>> from tightgp.numerics import dense
    >>> dense.inverse(jnp.array([[2.0, 0.0], [1.0, 1.0]]))
    Array([[ 0.5,  0. ],
           [-0.5,  1. ]], dtype=float64)
    """
    n, W = len(L), jnp.asarray(L)
    for start, end in parts(n, _WIDTH, _MOST_PARTS):
        own = inverse_lower(W[start:end, start:end])
        W = W.at[start:end, start:end].set(own)
        if start:
            W = W.at[start:end, :start].set(-(own @ W[start:end, :start]) @ W[:start, :start])
    return W


def parts(n: int, width: int, most: int) -> list[tuple[int, int]]:
    """Starts and ends of parts of ``n`` rows: as few as make them no longer than ``width``, and at most ``most``.

    >>> from tightgp.numerics import dense
    >>> dense.parts(10, 4, 8)
    [(0, 3), (3, 6), (6, 10)]
    """
    number = min(most, -(-n // width))
    return [(n * i // number, n * (i + 1) // number) for i in range(number)]
