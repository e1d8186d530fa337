"""A sum over chunks of rows whose derivative is taken chunk by chunk: nothing of a chunk outlives it."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from tightgp import linalg
from tightgp.layout import Layout, Plan


def streamed(function: Callable, plan: Plan, parameters: Any, laid: Layout) -> Any:
    """``Σ function(parameters, (rows, valid))`` over the chunks of ``laid``.

    Its derivative, in the parameters and in the rows, makes each chunk anew; ``function`` must not close over
    anything that is differentiated.
    """
    return _streamed(function, plan, parameters, laid)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _streamed(function, plan, parameters, laid):
    def body(total, chunk, _):
        return jax.tree.map(jnp.add, total, function(parameters, chunk)), None

    return laid.total(body, _zero(function, plan, parameters, laid), plan)[0]


def _zero(function, plan, parameters, laid):
    rows = jax.tree.map(lambda a: jax.ShapeDtypeStruct((plan.chunk, *a.shape[1:]), a.dtype), laid.like)
    valid = jax.ShapeDtypeStruct((plan.chunk,), jax.tree.leaves(rows)[0].dtype)
    shapes = jax.eval_shape(function, parameters, (rows, valid))
    return jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), shapes)


def _streamed_fwd(function, plan, parameters, laid):
    return _streamed(function, plan, parameters, laid), (parameters, laid)


@linalg.full_precision  # a rule for the derivative is traced outside of the function that it belongs to
def _streamed_bwd(function, plan, residuals, bar):
    parameters, laid = residuals

    def body(total, chunk, _):
        rows, valid = chunk
        _, pull = jax.vjp(lambda p, r: function(p, (r, valid)), parameters, rows)
        parameters_bar, rows_bar = pull(bar)
        return jax.tree.map(jnp.add, total, parameters_bar), rows_bar

    total, rows_bar = laid.total(body, jax.tree.map(jnp.zeros_like, parameters), plan)
    return total, laid.cotangent(rows_bar)


_streamed.defvjp(_streamed_fwd, _streamed_bwd)
