"""Compile in less time what does not run for long.

On a CPU, LLVM takes longer to optimise most of our programs than these ever run: the one that trains on 4000 rows took
6 s, for 4 s of arithmetic. Products and factors are calls of libraries, which no compiler makes quicker; what it does
make quicker are loops over single numbers. Answers differ by rounding.
"""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax

from tightgp.numerics.device import on_cpu

#: Options of XLA for programs that run a few times, and for those that run some hundred times on some thousand rows.
_OPTIONS: dict[str, dict[str, Any]] = {
    "once": {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 0},
    "often": {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 1},
}


def options(runs: str) -> dict[str, Any] | None:
    """Options for `jax.jit` of a program that ``runs`` "once" or "often"; None on other devices than a CPU."""
    return _known(runs) if on_cpu() else None


@functools.cache
def _known(runs: str) -> dict[str, Any] | None:
    """The options, if this version of XLA has them."""
    try:
        jax.jit(lambda: 0.0).lower().compile(compiler_options=_OPTIONS[runs])
    except jax.errors.JaxRuntimeError:
        return None
    return _OPTIONS[runs]


def quickly_compiled(function: Callable) -> Callable:
    """`equinox.filter_jit` for a function that runs a few times for each shape of its arguments.

    >>> from tightgp.numerics.compiling import quickly_compiled
    >>> float(quickly_compiled(lambda x: 2 * x)(np.ones(())))
    2.0
    """
    within_others = eqx.filter_jit(function)

    @functools.cache
    def by_itself():
        more: dict[str, Any] = {"compiler_options": options("once")}
        return eqx.filter_jit(function, **more)

    @functools.wraps(function)
    def call(*args, **kwargs):
        # Only a program that is no part of another may have options: there, device_put gives no tracer.
        traced = any(
            isinstance(leaf, jax.core.Tracer) for leaf in (jax.device_put(0.0), *jax.tree.leaves((args, kwargs)))
        )
        return (within_others if traced else by_itself())(*args, **kwargs)

    return call
