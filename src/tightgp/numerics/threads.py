"""One thread for BLAS and LAPACK while JAX computes on a CPU.

Factors are made of blocks too small for several threads, and OpenBLAS's wait busily after each of them, on the cores
that the compiled program needs: at M = 256 on two cores an evaluation took 160 ms with them and 110 without; and on a
busy machine the same prediction took 3 s once and 9 s the next time.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import jax
from threadpoolctl import ThreadpoolController

from tightgp.numerics.device import on_cpu


@functools.cache
def _controller() -> ThreadpoolController:
    """The libraries that this process has loaded; JAX has loaded its own by the time it computes."""
    import scipy.linalg  # noqa: F401  # its BLAS is the one that JAX calls

    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS and LAPACK to one thread, where JAX computes on a CPU."""
    if not on_cpu():
        yield
        return
    with _controller().limit(limits=1, user_api="blas"):
        yield


def with_one_blas_thread(method: Callable) -> Callable:
    """``method``, with one thread for BLAS until its result has been computed."""

    @functools.wraps(method)
    def wrapped(*args, **kwargs):
        with one_blas_thread():
            result = method(*args, **kwargs)
            arrays = [leaf for leaf in jax.tree.leaves(result) if isinstance(leaf, jax.Array)]
            if not any(isinstance(leaf, jax.core.Tracer) for leaf in arrays):
                jax.block_until_ready(arrays)
        return result

    return wrapped
