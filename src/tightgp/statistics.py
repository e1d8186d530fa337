"""The one streamed pass over the data: every collapsed objective and posterior reads its sums (maths §3).

Rows stream through in chunks, so memory is O(chunk·M + M²). All sums are in units of the noise: a row's kernel
values, prior variance and target are divided by its noise standard deviation as they are made. The derivative
is by hand: a second pass over the chunks, in which each is made anew (or its whitened rows were kept, where
they fit).
"""

import math
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp import linalg
from tightgp.conditionals import Conditional, Cotangents
from tightgp.kernels import Kernel
from tightgp.linalg import Factor
from tightgp.means import Mean

#: A chunk's M columns take about this many bytes; small enough for a CPU's cache, large enough for a GPU's cores.
_CHUNK_BYTES = {"cpu": 8 << 20, "gpu": 1 << 29}
#: Whitened rows up to this size are kept between the two passes instead of being made again.
_KEEP_BYTES = {"cpu": 1 << 28, "gpu": 4 << 30}


class Rows(NamedTuple):
    """Data as the pass takes it: inputs, targets, and the part of each row's noise variance that is known.

    What is only kept, for answers that go back to the rows, may still be on the host.
    """

    X: Float[Any, "*c n d"]
    y: Float[Any, "*c n p"]
    known: Float[Any, "*c n"]


class Process(NamedTuple):
    """What the pass differentiates with respect to."""

    kernel: Kernel
    mean: Mean
    noise: Float[Array, ""]
    Z: Float[Array, "m d"]


class Statistics(NamedTuple):
    """Sums over all rows, in units of the noise (maths 3.1)."""

    S: Float[Array, "m m"]
    b: Float[Array, "m p"]
    yy: Float[Array, ""]
    penalty: Float[Array, ""]
    excess: Float[Array, ""]
    log_noise: Float[Array, ""]
    clamped: Float[Array, ""]


class Terms(NamedTuple):
    """One chunk before whitening."""

    K: Float[Array, "n m"]
    k: Float[Array, "..."]
    y: Float[Array, "n p"]
    log_noise: Float[Array, ""]


def local_terms(process: Process, chunk: tuple[Rows, Float[Array, " n"]], size: int) -> Terms:
    """Kernel rows, prior (co)variances and targets over the noise; a row that is not valid becomes zero."""
    rows, valid = chunk
    variance = process.noise + rows.known
    scale = valid * jax.lax.rsqrt(variance)
    K = process.kernel(rows.X, process.Z) * scale[:, None]
    k = outer(scale, size) * prior_terms(process.kernel, rows.X, size)
    y = (rows.y - process.mean(rows.X)) * scale[:, None]
    return Terms(K, k, y, jnp.sum(valid * jnp.log(variance)))


def prior_terms(kernel: Kernel, X: Float[Array, "n d"], size: int) -> Float[Array, "..."]:
    """Prior variances (n,), or the covariances (b, size, size) of consecutive blocks of rows."""
    return kernel.diagonal(X) if size == 1 else jax.vmap(kernel)(X.reshape(-1, size, X.shape[1]))


def outer(scale: Float[Array, " n"], size: int) -> Float[Array, "..."]:
    """What scaling the rows by ``scale`` multiplies `prior_terms` with."""
    s = scale.reshape(-1, size)
    return scale * scale if size == 1 else s[:, :, None] * s[:, None, :]


@linalg.full_precision
def collect(
    process: Process, rows: Rows, structure: Conditional, jitter: float, chunk: int | None = None
) -> tuple[Statistics, Factor]:
    """The sums over all rows and the factor of ``Kuu`` (maths 3.1), with the hand-derived gradient (3.2).

    ``chunk`` rows are in memory at a time; None chooses, and keeps whitened rows for the gradient if they fit.
    """
    structure = fitted(structure, rows.X.shape[0])
    factor = linalg.factorise(process.kernel(process.Z), jitter)
    plan = _plan(rows.X.shape[0], process.Z.shape[0], process.Z.dtype.itemsize, structure.size, chunk)
    return _stream(structure, plan, process, factor.matrix, factor.inverse, rows), factor


def fitted(structure: Conditional, count: int) -> Conditional:
    """``structure`` with blocks no larger than the data."""
    return replace(structure, size=min(structure.size, count))


class _Plan(NamedTuple):
    rows: int
    chunk: int
    chunks: int
    keep: bool


def _plan(n: int, m: int, itemsize: int, size: int, chunk: int | None) -> _Plan:
    backend = "cpu" if jax.default_backend() == "cpu" else "gpu"
    wanted = chunk or _CHUNK_BYTES[backend] // (max(m, size) * itemsize)
    chunks = math.ceil(n / max(wanted, 1))
    per_chunk = math.ceil(math.ceil(n / chunks) / size) * size
    kept = m + (size if size > 1 else 0)  # whitened rows, and roots of blocks
    keep = chunk is None and n * kept * itemsize <= _KEEP_BYTES[backend]
    return _Plan(n, per_chunk, math.ceil(n / per_chunk), keep)


def chunked(rows: Rows, plan: _Plan) -> tuple[Rows, Float[Array, "c n"]]:
    """Rows cut into equal chunks, the last one padded, and which rows are real."""
    pad = plan.chunks * plan.chunk - plan.rows

    def cut(a):
        if pad:
            a = jnp.concatenate([a, jnp.broadcast_to(a[-1:], (pad, *a.shape[1:]))])
        return a.reshape(plan.chunks, plan.chunk, *a.shape[1:])

    valid = jnp.arange(plan.chunks * plan.chunk) < plan.rows
    return Rows(*map(cut, rows)), valid.astype(rows.X.dtype).reshape(plan.chunks, plan.chunk)


def _scan(body, init, xs, chunks: int):
    """A scan, or a plain call where there is only one chunk."""
    if chunks > 1:
        return jax.lax.scan(body, init, xs)
    carry, kept = body(init, jax.tree.map(lambda a: a[0], xs))
    return carry, jax.tree.map(lambda a: a[None], kept)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _stream(structure, plan, process, Kuu, W, rows):
    return _forward(structure, plan, process, W, rows, keep=False)[0]


def _forward(structure, plan, process, W, rows, keep):
    m, p, dtype = W.shape[0], rows.y.shape[1], rows.X.dtype
    zero = jnp.zeros((), dtype)
    init = Statistics(jnp.zeros((m, m), dtype), jnp.zeros((m, p), dtype), zero, zero, zero, zero, zero)

    def body(total, chunk):
        terms = local_terms(process, chunk, structure.size)
        A = linalg.times_lower_t(terms.K, W)
        seen = structure.local(A, terms.k, terms.y)
        here = Statistics(
            linalg.cross_lower(seen.A, seen.A),
            seen.A.T @ seen.y,
            jnp.sum(seen.y * seen.y),
            seen.penalty,
            seen.excess,
            terms.log_noise,
            seen.clamped,
        )
        return jax.tree.map(jnp.add, total, here), (A, seen.root) if keep else None

    total, kept = _scan(body, init, chunked(rows, plan), plan.chunks)
    return total._replace(S=linalg.mirror(total.S)), kept


def _stream_fwd(structure, plan, process, Kuu, W, rows):
    total, kept = _forward(structure, plan, process, W, rows, plan.keep)
    return total, (process, W, rows, kept)


@linalg.full_precision
def _stream_bwd(structure, plan, residuals, bar):
    """Maths 3.2, with ``T = Σ Ā Aᵀ`` summed over the chunks."""
    process, W, rows, kept = residuals
    seen_bar = Cotangents(bar.S + bar.S.T, bar.b, bar.yy, bar.penalty, bar.excess)
    init = (jnp.zeros_like(W), jax.tree.map(jnp.zeros_like, process))

    def body(carry, inputs):
        T, process_bar = carry
        (here, valid), known = inputs
        terms, pull_terms = jax.vjp(lambda p, r: local_terms(p, (r, valid), structure.size), process, here)
        A, root = (linalg.times_lower_t(terms.K, W), None) if known is None else known
        A_bar, k_bar, y_bar = structure.pull(A, terms.k, terms.y, root, seen_bar)
        process_here, rows_bar = pull_terms(Terms(linalg.times_lower(A_bar, W), k_bar, y_bar, bar.log_noise))
        return (T + linalg.cross_lower(A_bar, A), jax.tree.map(jnp.add, process_bar, process_here)), rows_bar

    (T, process_bar), rows_bar = _scan(body, init, (chunked(rows, plan), kept), plan.chunks)
    rows_bar = Rows(*(a.reshape(-1, *a.shape[2:])[: plan.rows] for a in rows_bar))
    return process_bar, linalg.whiten_cotangent(W, T), None, rows_bar


_stream.defvjp(_stream_fwd, _stream_bwd)


@eqx.filter_jit
@linalg.full_precision
def optimal_V(
    process: Process, rows: Rows, W: Float[Array, "m m"], structure: Conditional, excess: Float[Array, ""]
) -> Float[Array, "b s s"]:
    """The diagonal blocks of the optimal V of all rows (maths 1.4), chunk by chunk."""
    n = rows.X.shape[0]
    plan = _plan(n, len(W), W.dtype.itemsize, structure.size, None)

    def body(_, chunk):
        terms = local_terms(process, chunk, structure.size)
        return None, structure.optimal_V(linalg.times_lower_t(terms.K, W), terms.k, excess / n)

    _, V = _scan(body, None, chunked(rows, plan), plan.chunks)
    return V.reshape(-1, *V.shape[2:])[: math.ceil(n / structure.size)]
