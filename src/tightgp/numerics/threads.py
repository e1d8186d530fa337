"""One thread for BLAS and LAPACK while JAX computes on a CPU.

Factors are made of blocks too small for several threads, and OpenBLAS's wait busily after each of them, on the cores
that the compiled program needs: at M = 256 on two cores an evaluation took 160 ms with them and 110 without; and on a
busy machine the same prediction took 3 s once and 9 s the next time.
"""

import functools
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
from threadpoolctl import ThreadpoolController

from tightgp.numerics.device import on_cpu


@functools.cache
def _controller() -> ThreadpoolController:
    """The libraries that this process has loaded; JAX has loaded its own by the time it computes."""
    import scipy.linalg  # noqa: F401  # its BLAS is the one that JAX calls

    return ThreadpoolController()


class _Limit:
    """The limit of the whole process: the first who enters sets it, and the last who leaves restores what was."""

    def __init__(self):
        self.lock, self.inside = threading.Lock(), 0
        self.limiter: Any = None
        if hasattr(os, "register_at_fork"):
            release = self.lock.release
            os.register_at_fork(before=self.lock.acquire, after_in_parent=release, after_in_child=release)

    def enter(self) -> None:
        controller = _controller()
        with self.lock:
            if not self.inside:
                self.limiter = controller.limit(limits=1, user_api="blas")
            self.inside += 1

    def leave(self) -> None:
        with self.lock:
            self.inside -= 1
            if not self.inside:
                self.limiter.restore_original_limits()


_limit = _Limit()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS and LAPACK to one thread, where JAX computes on a CPU, until the last of all threads has left."""
    if not on_cpu():
        yield
        return
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()


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
