"""The uncollapsed bounds: q(u) is explicit, the data enter as a weighted sum over rows (maths §4–5)."""

import math
from dataclasses import replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp import linalg, psi
from tightgp.backend import of_backend
from tightgp.conditionals import Conditional
from tightgp.data import Batch
from tightgp.latents import Averages, Latents, mix
from tightgp.likelihoods.base import Likelihood
from tightgp.means import Mean
from tightgp.psi.nodes import expanded
from tightgp.statistics import outer, prior_terms

#: Rows are taken at once as long as their whitened rows stay under this size.
_CHUNK_BYTES = {"cpu": 128 << 20, "gpu": 1 << 30}


class Functions(NamedTuple):
    """What stands between inputs and targets: latents, how they mix, mean, likelihood, and the scales v.

    ``v`` (L,) are the trained scales of the conditional's covariance (maths 5.1), or None where the structure
    has its optimum in closed form (4.1).
    """

    latents: tuple[Latents, ...]
    mixing: Float[Array, "p l"] | None
    mean: Mean
    likelihood: Likelihood
    v: Float[Array, " l"] | None


class DataTerm(NamedTuple):
    """What the rows add to the bound, and how many residual variances were negative by rounding."""

    value: Float[Array, ""]
    clamped: Float[Array, ""]


@linalg.full_precision
def bound(functions: Functions, batch: Batch, structure: Conditional) -> tuple[Float[Array, ""], dict]:
    """The bound in total nats (maths 4.1, 5.1), or its estimate from a minibatch, and its parts."""
    divergence = sum(group.divergence() for group in functions.latents)
    data = rows_term(functions, batch, structure)
    return data.value - divergence, {"divergence": divergence, "clamped": data.clamped}


@linalg.full_precision
def rows_term(functions: Functions, batch: Batch, structure: Conditional) -> DataTerm:
    """What the rows add to the bound, all but the divergence of q(u)."""
    if not functions.likelihood.quadratic:
        batch = expanded(batch)
    data = _over_chunks(functions, batch, structure)
    if functions.v is None:
        return data
    v = functions.v
    return data._replace(value=data.value - 0.5 * jnp.sum(_rows_seen(functions, batch) * (v - jnp.log(v) - 1)))


def _rows_seen(functions: Functions, batch: Batch) -> Float[Array, "..."]:
    """How many rows say something of each latent function: the others need no conditional there (maths 5.2)."""
    observed = ~jnp.isnan(batch.y)
    if functions.mixing is not None:
        observed = jnp.any(observed, axis=1, keepdims=True)
    return jnp.sum(jnp.where(observed, batch.weight[:, None], 0.0), axis=0)


def _over_chunks(functions, batch, structure) -> DataTerm:
    n, m = batch.X.shape[0], max(len(group.Z) for group in functions.latents)
    size = min(structure.size, n)
    structure = replace(structure, size=size)
    numbers = max(m, size, functions.likelihood.numbers_per_row)
    if batch.spread is not None:
        each = (psi.numbers_per_row(g.kernel, len(g.Z), batch.X.shape[1], batch.spread) for g in functions.latents)
        numbers = max(numbers, 4 * max(each))  # and what the derivative makes of them
    most = max(of_backend(_CHUNK_BYTES) // (numbers * batch.X.dtype.itemsize), size)
    chunks = math.ceil(n / most)
    rows = math.ceil(math.ceil(n / chunks) / size) * size
    chunks = math.ceil(n / rows)
    batch = batch.padded(chunks * rows)
    if chunks == 1:
        return data_term(functions, batch, structure)
    keys = jax.random.split(batch.key, chunks)
    cut = batch._replace(key=None).each(lambda a: a.reshape(chunks, rows, *a.shape[1:]))

    @jax.checkpoint
    def body(total, chunk):
        here = data_term(functions, chunk[0]._replace(key=chunk[1]), structure)
        return jax.tree.map(jnp.add, total, here), None

    zero = jnp.zeros((), batch.X.dtype)
    return jax.lax.scan(body, DataTerm(zero, zero), (cut, keys))[0]


@linalg.full_precision
def data_term(functions: Functions, batch: Batch, structure: Conditional) -> DataTerm:
    """``Σ_i weight_i (E[log p(y_i|f_i)] − ½φ_i)``: expected log densities less the penalties of the structure.

    Without v the likelihood is quadratic: the expectation is then over q(u) alone, and the conditional's spread
    is in the penalty, with ``r = d·c`` and c the precision with which a row sees a latent (maths 4.1, 4.3).
    """
    likelihood = functions.likelihood if batch.known is None else functions.likelihood.with_known(batch.known)
    observed = ~jnp.isnan(batch.y)
    y = jnp.where(observed, batch.y, likelihood.filler)
    means, spreads, residuals, clamped = [], [], [], jnp.zeros((), batch.X.dtype)
    for group in functions.latents:
        if batch.spread is None:
            A = group.rows(batch.X)
            R, clamps = structure.residuals(A, prior_terms(group.kernel, batch.X, structure.size))
            here = Averages(group.mean(A), group.spread(A), R, clamps)
        else:
            here = group.averaged(batch.X, batch.spread)
        means.append(here.mean)
        spreads.append(here.spread)
        residuals.append((here.left, here.mean.shape[1]))
        clamped = clamped + here.clamped
    mean, spread = jnp.concatenate(means, axis=1), jnp.concatenate(spreads, axis=1)
    if functions.v is not None:
        left = jnp.concatenate([jnp.broadcast_to(d[:, None], (len(d), count)) for d, count in residuals], axis=1)
        spread = spread + functions.v * left
    f_mean, f_var = mix(functions.mixing, mean, spread)
    expected = likelihood.expected_log_density(functions.mean(batch.X) + f_mean, f_var, y, batch.key)
    value = jnp.sum(jnp.where(observed, expected, 0.0) * batch.weight[:, None])
    if functions.v is None:
        precision = jnp.where(observed, jnp.broadcast_to(1 / likelihood.variance, y.shape), 0.0)
        precision = precision if functions.mixing is None else precision @ (functions.mixing**2)
        value = value - 0.5 * _penalty(residuals, precision, batch.weight, structure)
    return DataTerm(value, clamped)


def _penalty(residuals, precision, weight, structure):
    """``Σ weight·φ`` over rows or blocks and latents; a row of weight zero is not there."""
    here = weight > 0
    share = jnp.sum(weight) / jnp.maximum(jnp.sum(here), 1)  # a chunk may be all padding
    total, column = jnp.zeros((), weight.dtype), 0
    for R, count in residuals:

        def of_latent(c, R=R):
            seen = here & (c > 0)  # the root of zero has no derivative
            scale = jnp.where(seen, jnp.sqrt(jnp.where(seen, c, 1.0)), 0.0)
            return jnp.sum(structure.penalties(R * outer(scale, structure.size)))

        total = total + jnp.sum(jax.vmap(of_latent, in_axes=1)(precision[:, column : column + count]))
        column += count
    return share * total
