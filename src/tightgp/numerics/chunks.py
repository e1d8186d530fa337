"""Work on many rows in chunks, so that what is made for each row never fills the memory."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightgp.numerics.device import per_backend

#: Memory that `map_rows` may use for a chunk: small for a CPU's cache, large enough for a GPU's cores.
_MAP_BYTES = {"cpu": 64 << 20, "gpu": 1 << 29}
#: Numbers of rows are padded by at most 1/64, so that nearby sizes share one compiled program.
PAD_FRACTION = 64


class Chunks(NamedTuple):
    """``number`` chunks of ``size`` rows each; the last may be padded."""

    size: int
    number: int


def plan(n: int, most: int, multiple: int = 1) -> Chunks:
    """Cut ``n`` rows into equal chunks of at most ``most`` rows.

    The chunk size is a multiple of ``multiple``, even where that exceeds ``most``.

    >>> plan(100, 40)
    Chunks(size=34, number=3)
    """
    size = -(-math.ceil(n / math.ceil(n / max(1, most))) // multiple) * multiple
    return Chunks(size, math.ceil(n / size))


def pad_rows(a: Any, length: int) -> Any:
    """Repeat the last row of ``a`` until there are ``length`` rows. NumPy arrays stay NumPy arrays."""
    missing = length - a.shape[0]
    if not missing:
        return a
    xp: Any = np if isinstance(a, np.ndarray) else jnp
    return xp.concatenate([a, xp.broadcast_to(a[-1:], (missing, *a.shape[1:]))])


def cut(tree: Any, chunks: Chunks) -> Any:
    """Arrays (n, ...) as chunks (number, size, ...), padded by copies of the last row."""

    def one(a):
        return pad_rows(a, chunks.size * chunks.number).reshape(chunks.number, chunks.size, *a.shape[1:])

    return jax.tree.map(one, tree)


def scan(body: Callable, init: Any, chunked: Any, chunks: Chunks) -> tuple[Any, Any]:
    """``jax.lax.scan`` over chunks, or one plain call where there is only one chunk."""
    if chunks.number > 1:
        return jax.lax.scan(body, init, chunked)
    total, stacked = body(init, jax.tree.map(lambda a: a[0], chunked))
    return total, jax.tree.map(lambda a: a[None], stacked)


def map_rows(function: Callable, width: int, *arrays: Any) -> Any:
    """Apply ``function`` to arrays with the same rows, chunk by chunk; ``width`` numbers are made for each row.

    In a program for any number of rows there is one chunk: who calls it passes few rows at a time.
    """
    n = arrays[0].shape[0]
    if not isinstance(n, int):
        return function(*arrays)
    chunks = plan(n, per_backend(_MAP_BYTES) // (width * arrays[-1].dtype.itemsize))
    _, stacked = scan(lambda _, part: (None, function(*part)), None, cut(arrays, chunks), chunks)
    return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:])[:n], stacked)


def rounded_up(count: int, fraction: int = 4) -> int:
    """Round ``count`` up by at most ``1/fraction``, so that nearby sizes share one compiled program.

    Small numbers are rounded to a multiple of 16. ``fraction`` is a power of two.

    >>> rounded_up(5), rounded_up(1000)
    (16, 1024)
    """
    step = max(16, 2 ** int(count - 1).bit_length() // (2 * fraction))
    return count + -count % step
