"""Many rows, so many at a time that what is made for them stays small."""

import math

import jax
import jax.numpy as jnp

from tightgp.backend import of_backend

#: What is made for some rows takes about this many bytes; small for a CPU's memory, large enough for a GPU's cores.
_BATCH_BYTES = {"cpu": 64 << 20, "gpu": 1 << 29}


def by_parts(function, width: int, *arrays):
    """``function`` of arrays with the same rows, so many at a time that ``width`` numbers for each stay small."""
    n, most = arrays[0].shape[0], max(1, of_backend(_BATCH_BYTES) // (width * arrays[-1].dtype.itemsize))
    parts = math.ceil(n / most)
    size = math.ceil(n / parts)

    def cut(a):
        padded = jnp.concatenate([a, jnp.broadcast_to(a[-1:], (parts * size - n, *a.shape[1:]))])
        return padded.reshape(parts, size, *a.shape[1:])

    out = jax.lax.map(lambda part: function(*part), tuple(map(cut, arrays)))
    return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:])[:n], out)


def rounded_up(count: int, share: int = 4) -> int:
    """One of few numbers that is at least ``count`` and at most a ``share``-th more: JAX compiles for each.

    Small numbers are rounded to sixteen. ``share`` is a power of two.
    """
    step = max(16, 2 ** int(count - 1).bit_length() // (2 * share))
    return count + -count % step
