"""Factors of stacks of matrices that never wait for XLA's threads.

On a CPU, jaxlib hands a stack to the pool of threads that runs XLA's programs, and waits for it. But a program may be
running on a thread of that pool itself: once all of them wait, none is left to do the work, and nothing ever returns
(docs/upstream/lapack_deadlock.md). Two programs on two cores suffice, or one program with two stacks. Stacks are
therefore factorised a few matrices at a time, so few that jaxlib does not divide them; several such lanes run at once.
"""

import os
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.custom_batching import custom_vmap
from jaxtyping import Array, Float

from tightgp.numerics.chunks import Chunks, cut
from tightgp.numerics.device import on_cpu

#: jaxlib keeps a call to itself if its number of operations, ``s³`` for each matrix, is below this.
_UNDIVIDED = 200_000
#: More lanes take longer to compile.
_MAX_LANES = 8


def in_lanes(function: Callable[[Array], Array], A: Float[Array, "b s s"]) -> Float[Array, "b s s"]:
    """Apply a function of stacks of matrices that calls LAPACK, to a few of them at a time on a CPU."""
    number, size = A.shape[:2]
    if not isinstance(number, int):  # a program for any number of rows
        return jax.lax.map(lambda one: function(one[None])[0], A)
    together = max(1, (_UNDIVIDED - 1) // size**3)
    if number <= together or not on_cpu():
        return function(A)
    calls = -(-number // together)
    lanes = min(calls, _cores(), _MAX_LANES)
    each = -(-calls // lanes)
    groups = cut(A, Chunks(together, lanes * each)).reshape(lanes, each, together, size, size)
    done = [function(lane[0])[None] if each == 1 else jax.lax.map(function, lane) for lane in groups]
    return jnp.concatenate(done).reshape(-1, size, size)[:number]


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@custom_vmap
def cholesky(A: Float[Array, "*b s s"]) -> Float[Array, "*b s s"]:
    """The Cholesky factor; NaN where there is none. It can be batched by `jax.vmap`, not differentiated."""
    return _stacked(lambda A: jnp.linalg.cholesky(A, symmetrize_input=False), A)


@custom_vmap
def triangular_inverse(L: Float[Array, "*b s s"]) -> Float[Array, "*b s s"]:
    """The inverse of a lower triangular matrix. It can be batched by `jax.vmap`, not differentiated."""
    return _stacked(solve_identity, L)


cholesky.def_vmap(lambda size, batched, A: (cholesky(A), True))
triangular_inverse.def_vmap(lambda size, batched, L: (triangular_inverse(L), True))


def _stacked(function, A):
    return in_lanes(function, A.reshape(-1, *A.shape[-2:])).reshape(A.shape)


def solve_identity(L: Float[Array, "b s s"]) -> Float[Array, "b s s"]:
    """The inverses of lower triangular matrices."""
    eye = jnp.broadcast_to(jnp.eye(L.shape[-1], dtype=L.dtype), L.shape)
    return jax.lax.linalg.triangular_solve(L, eye, left_side=True, lower=True)
