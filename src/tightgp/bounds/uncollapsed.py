"""The uncollapsed bounds: q(u) is explicit, the data enter as a weighted sum over rows (maths §4–5)."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp.bounds import psi
from tightgp.bounds.latents import Latents, mix
from tightgp.bounds.psi.nodes import expanded
from tightgp.bounds.structures import Blocks, Rowwise, ScaledRows, Structure
from tightgp.data.placement import PlacedRows
from tightgp.data.rows import Rows
from tightgp.likelihoods.base import Likelihood
from tightgp.means import Mean
from tightgp.numerics import chunks, linalg
from tightgp.numerics.device import per_backend

#: Rows are taken at once as long as their whitened rows stay under this size.
_CHUNK_BYTES = {"cpu": 128 << 20, "gpu": 1 << 30}


class Functions(NamedTuple):
    """What lies between inputs and targets: latents, mixing, mean, likelihood, and the scales v.

    ``v`` (L,) are the trained scales of the conditional's covariance (maths 5.1); None where the structure has its
    optimum in closed form (4.1).
    """

    latents: tuple[Latents, ...]
    mixing: Float[Array, "p l"] | None
    mean: Mean
    likelihood: Likelihood
    v: Float[Array, " l"] | None


class DataTerm(NamedTuple):
    """What rows add to the bound, how many rows say something of each latent function (the others need no conditional
    there, maths 5.2), and how many residual variances were negative by rounding."""

    value: Float[Array, ""]
    seen: Float[Array, "..."]
    clamped: Float[Array, ""]


@linalg.full_precision
def bound(
    functions: Functions, rows: PlacedRows, structure: Structure, key: jax.Array
) -> tuple[Float[Array, ""], dict]:
    """The bound in total nats (maths 4.1, 5.1), or its estimate from a minibatch, and its parts."""
    divergence = sum(group.divergence() for group in functions.latents)
    data = rows_term(functions, rows, structure, key)
    return data.value - divergence, {"divergence": divergence, "clamped": data.clamped}


@linalg.full_precision
def rows_term(functions: Functions, rows: PlacedRows, structure: Structure, key: jax.Array) -> DataTerm:
    """What the rows add to the bound: everything but the divergence of q(u)."""
    likelihood = functions.likelihood
    key, inputs_key = jax.random.split(key)
    if rows.like.input_variance is not None and not likelihood.quadratic:
        rows = rows.changed(lambda rows: expanded(rows, inputs_key))
    structure = structure if rows.blocks is not None else structure.for_rows(rows.num_rows)
    size = structure.partition.size
    most = max(
        per_backend(_CHUNK_BYTES) // (_row_numbers(functions, rows.like, size) * rows.like.X.dtype.itemsize), size
    )
    partition = structure.partition
    if partition.neighbours and rows.blocks is None:
        plan = partition.pieces(rows.num_rows)
    else:
        plan = chunks.plan(rows.num_rows, most, 1 if rows.blocks is not None else size)
    blocks = rows.blocks
    data = rows.fold(partial(_chunk_term, structure if blocks is None else None), functions, key, chunks=plan)
    if blocks is not None:
        data = data._replace(value=data.value - 0.5 * _penalty_of_blocks(functions, blocks, structure, most))
    data = data._replace(clamped=jax.lax.stop_gradient(data.clamped))
    if functions.v is None:
        return data
    v = functions.v
    return data._replace(value=data.value - 0.5 * jnp.sum(data.seen * (v - jnp.log(v) - 1)))


def _row_numbers(functions: Functions, like: Rows, size: int) -> int:
    """How many numbers are made for each row."""
    numbers = max(*(len(group.Z) for group in functions.latents), size, functions.likelihood.numbers_per_row)
    if like.input_variance is None:
        return numbers
    columns = like.X.shape[1]
    pairs = (psi.numbers_per_row(g.kernel, len(g.Z), columns, like.input_variance) for g in functions.latents)
    return max(numbers, 4 * max(pairs))  # and what the derivative makes of them


def _chunk_term(structure: Structure | None, chunk: Rows, number, functions: Functions, key) -> DataTerm:
    return data_term(functions, chunk, structure, jax.random.fold_in(key, number))


@linalg.full_precision
def data_term(functions: Functions, rows: Rows, structure: Structure | None, key: jax.Array) -> DataTerm:
    """``Σ_i weight_i (E[log p(y_i|f_i)] − ½φ_i)``: expected log densities less the penalties of the structure, if any.

    Without v the likelihood is quadratic: the expectation is then over q(u) alone, and the conditional's spread is in
    the penalty, with ``r = d·c`` and c the precision with which a row sees a latent (maths 4.1, 4.3).
    """
    likelihood = functions.likelihood
    likelihood = likelihood.of_rows(rows.noise_variance, rows.noise_factor)
    observed = ~jnp.isnan(rows.y)
    y = jnp.where(observed, rows.y, likelihood.filler)
    groups = [_at_rows(group, rows) for group in functions.latents]
    mean = jnp.concatenate([one.mean for one in groups], axis=1)
    spread = jnp.concatenate([one.spread for one in groups], axis=1)
    if functions.v is not None:
        left = [jnp.broadcast_to(one.left[:, None], one.mean.shape) for one in groups]
        spread = spread + functions.v * jnp.concatenate(left, axis=1)
    f_mean, f_var = mix(functions.mixing, mean, spread)
    expected = likelihood.expected_log_density(functions.mean(rows.X) + f_mean, f_var, y, key)
    value = jnp.sum(jnp.where(observed, expected, 0.0) * rows.weight[:, None])
    if functions.v is None and structure is not None:
        value = value - 0.5 * _penalty(functions, groups, rows, structure)
    if functions.mixing is not None:
        observed = jnp.any(observed, axis=1, keepdims=True)
    seen = jnp.sum(jnp.where(observed, rows.weight[:, None], 0.0), axis=0)
    return DataTerm(value, seen, sum((one.clamped for one in groups), jnp.zeros((), rows.X.dtype)))


class AtRows(NamedTuple):
    """A group of functions at rows: mean and variance from q(w) (n, l), the part of the prior's variance that the
    inducing points leave (n,); whitened rows, or None where inputs are uncertain; how many of ``left`` were clamped."""

    mean: Float[Array, "n l"]
    spread: Float[Array, "n l"]
    left: Float[Array, " n"]
    A: Float[Array, "n m"] | None
    clamped: Float[Array, ""]


def _at_rows(group: Latents, rows: Rows) -> AtRows:
    if rows.input_variance is not None:
        averages = group.averaged(rows.X, rows.input_variance)
        return AtRows(averages.mean, averages.spread, averages.left, None, averages.clamped)
    A = group.rows(rows.X)
    left = group.kernel.diagonal(rows.X) - jnp.sum(A * A, axis=1)
    clamped = jnp.sum((left < 0).astype(left.dtype))
    spread = jnp.broadcast_to(group.spread(A), (len(A), group.num_functions))
    return AtRows(group.mean(A), spread, jnp.maximum(left, 0.0), A, clamped)


def _precisions(functions: Functions, rows: Rows) -> Float[Array, "n l"]:
    """With which precision each row sees each latent function; zero where its target is missing."""
    likelihood = functions.likelihood
    likelihood = likelihood.of_rows(rows.noise_variance, rows.noise_factor)
    precision = jnp.where(jnp.isnan(rows.y), 0.0, jnp.broadcast_to(1 / likelihood.variance, rows.y.shape))
    return precision if functions.mixing is None else precision @ (functions.mixing**2)


def _sum_over_latents(functions: Functions, rows: Rows, penalty: Callable) -> Float[Array, ""]:
    """``Σ penalty(group, scale)`` over latent functions.

    ``group`` counts the groups of functions; ``scale`` (n,) is the root of the precision with which each row sees the
    function, zero where it sees nothing.
    """
    real, total, column = rows.weight > 0, jnp.zeros((), rows.weight.dtype), 0
    precision = _precisions(functions, rows)
    for group, latents in enumerate(functions.latents):

        def of_latent(c, group=group):
            seen = real & (c > 0)  # the root of zero has no derivative
            return penalty(group, jnp.where(seen, jnp.sqrt(jnp.where(seen, c, 1.0)), 0.0))

        own = precision[:, column : column + latents.num_functions]
        total = total + jnp.sum(jax.vmap(of_latent, in_axes=1)(own))
        column += latents.num_functions
    return total


def _scaled(A: Float[Array, "n m"], rows: Rows, scale: Float[Array, " n"]) -> ScaledRows:
    """Whitened rows as structures take them, without targets."""
    nothing = jnp.zeros((len(scale), 0), scale.dtype)
    return ScaledRows(A * scale[:, None], rows.X, nothing, scale, rows.conditioners)


def _penalty(functions: Functions, at_rows: list[AtRows], rows: Rows, structure: Structure) -> Float[Array, ""]:
    """``Σ weight·φ`` over rows or blocks and latents; a row of weight zero is not there."""

    def of_latent(group, scale):
        one = at_rows[group]
        if one.A is None:
            assert isinstance(structure, Rowwise)
            return jnp.sum(structure.row_penalties(one.left * scale**2))
        return jnp.sum(structure.penalties(functions.latents[group].kernel, _scaled(one.A, rows, scale))[0])

    share = jnp.sum(rows.weight) / jnp.maximum(jnp.sum(rows.weight > 0), 1)  # a chunk may be all padding
    return share * _sum_over_latents(functions, rows, of_latent)


def _penalty_of_blocks(functions: Functions, blocks: PlacedRows, structure: Structure, most: int) -> Float[Array, ""]:
    """``Σ weight·φ`` over blocks that were drawn, each with the rows it is given first (maths 11.8)."""
    assert isinstance(structure, Blocks)
    size, together = structure.size, structure.size * (1 + structure.partition.given_per_row)

    def of_chunk(rows: Rows, number, functions: Functions):
        A = [latents.rows(rows.X) for latents in functions.latents]
        weight = rows.weight.reshape(-1, together)[:, -size]

        def of_latent(group, scale):
            scaled = _scaled(A[group], rows, scale)
            grouped = jax.tree.map(lambda a: a.reshape(len(weight), together, *a.shape[1:]), scaled)
            kernel = functions.latents[group].kernel
            return jnp.sum(weight * structure.group_penalties(kernel, grouped)[0])

        return _sum_over_latents(functions, rows, of_latent)

    return blocks.fold(of_chunk, functions, chunks=chunks.plan(blocks.num_rows, most, together))
