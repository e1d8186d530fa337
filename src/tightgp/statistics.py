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

from tightgp import layout, linalg, parameters, psi, streaming
from tightgp.backend import of_backend
from tightgp.conditionals import Conditional, Cotangents
from tightgp.kernels import Kernel
from tightgp.layout import Layout, Plan
from tightgp.linalg import Factor
from tightgp.means import Mean
from tightgp.spread import Spread

#: A chunk's M columns take about this many bytes; small enough for a CPU's cache, large enough for a GPU's cores.
_CHUNK_BYTES = {"cpu": 8 << 20, "gpu": 1 << 29}
#: Whitened rows up to this size are kept between the two passes instead of being made again.
_KEEP_BYTES = {"cpu": 1 << 28, "gpu": 4 << 30}


class Rows(NamedTuple):
    """Data as the pass takes them: inputs, targets, the part of each row's noise variance that is known, and how
    uncertain inputs are (None where they are known).

    What is only kept, for answers that go back to the rows, may still be on the host.
    """

    X: Float[Any, "*c n d"]
    y: Float[Any, "*c n p"]
    known: Float[Any, "*c n"]
    spread: Spread | None = None


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
    rows: Float[Array, ""]


class Terms(NamedTuple):
    """One chunk before whitening."""

    K: Float[Array, "n m"]
    k: Float[Array, "..."]
    y: Float[Array, "n p"]
    log_noise: Float[Array, ""]


def local_terms(process: Process, chunk: tuple[Rows, Float[Array, " n"]], size: int, short: str | None = None) -> Terms:
    """Kernel rows, prior (co)variances and targets over the noise; a row that is not valid becomes zero.

    The N×M kernel values are made in the dtype ``short``, where one is given; what has a number for each row is not.
    """
    rows, valid = chunk
    variance = process.noise + rows.known
    scale = valid * jax.lax.rsqrt(variance)
    K = _cross(process, rows.X, short)
    k = outer(scale, size) * prior_terms(process.kernel, rows.X, size)
    y = (rows.y - process.mean(rows.X)) * scale[:, None]
    return Terms(K * scale.astype(K.dtype)[:, None], k, y, jnp.sum(valid * jnp.log(variance)))


def _cross(process: Process, X: Float[Array, "n d"], short: str | None) -> Float[Array, "n m"]:
    """``Kfu``. In the shorter dtype inputs are first moved to where the inducing ones are, if the kernel allows it."""
    kernel, Z = process.kernel, process.Z
    if short is None:
        return kernel(X, Z)
    if kernel.stationary:
        middle = jax.lax.stop_gradient(jnp.mean(Z, axis=0))
        X, Z = X - middle, Z - middle
    return parameters.cast(kernel, short)(X.astype(short), Z.astype(short))


def prior_terms(kernel: Kernel, X: Float[Array, "n d"], size: int) -> Float[Array, "..."]:
    """Prior variances (n,), or the covariances (b, size, size) of consecutive blocks of rows."""
    return kernel.diagonal(X) if size == 1 else jax.vmap(kernel)(X.reshape(-1, size, X.shape[1]))


def outer(scale: Float[Array, " n"], size: int) -> Float[Array, "..."]:
    """What scaling the rows by ``scale`` multiplies `prior_terms` with."""
    s = scale.reshape(-1, size)
    return scale * scale if size == 1 else s[:, :, None] * s[:, None, :]


class _Way(NamedTuple):
    """How the pass goes: its chunks, whether whitened rows are kept for the gradient, and the products' dtype."""

    plan: Plan
    keep: bool
    short: str | None


@linalg.full_precision
def collect(
    process: Process,
    rows: Rows | Layout,
    structure: Conditional,
    jitter: float,
    chunk: int | None = None,
    short: str | None = None,
) -> tuple[Statistics, Factor]:
    """The sums over all rows and the factor of ``Kuu`` (maths 3.1), with the hand-derived gradient (3.2).

    ``chunk`` rows are in memory at a time; None chooses, and keeps whitened rows for the gradient if they fit.
    ``short`` is the dtype of the N×M kernel values and of the products with them, where it is not that of all else.
    """
    laid = layout.laid(rows)
    structure = fitted(structure, laid.length)
    factor = linalg.factorise(process.kernel(process.Z), jitter)
    if laid.like.spread is not None:
        return _averaged(structure, process, factor, laid, chunk), factor
    itemsize = jnp.dtype(short or process.Z.dtype).itemsize
    way = _choose(laid.length, process.Z.shape[0], itemsize, structure.size, chunk)._replace(short=short)
    return _stream(structure, way, process, factor.matrix, factor.inverse, laid), factor


def fitted(structure: Conditional, count: int) -> Conditional:
    """``structure`` with blocks no larger than the data."""
    return replace(structure, size=min(structure.size, count))


def _choose(n: int, m: int, itemsize: int, size: int, chunk: int | None) -> _Way:
    wanted = chunk or of_backend(_CHUNK_BYTES) // (max(m, size) * itemsize)
    chunks = math.ceil(n / max(wanted, 1))
    per_chunk = math.ceil(math.ceil(n / chunks) / size) * size
    kept = m + (size if size > 1 else 0)  # whitened rows, and roots of blocks
    keep = chunk is None and n * kept * itemsize <= of_backend(_KEEP_BYTES)
    return _Way(Plan(per_chunk, math.ceil(n / per_chunk)), keep, None)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _stream(structure, way, process, Kuu, W, laid):
    return _forward(structure, way._replace(keep=False), process, W, laid)[0]


def _add(total, here):
    return jax.tree.map(lambda t, h: t + h.astype(t.dtype), total, here)


@linalg.full_precision  # a rule for the derivative is traced outside of the function that it belongs to
def _forward(structure, way, process, W, laid):
    m, p, dtype = W.shape[0], laid.like.y.shape[1], W.dtype
    zero = jnp.zeros((), dtype)
    V = W.astype(way.short or dtype)

    def body(total, chunk, _):
        terms = local_terms(process, chunk, structure.size, way.short)
        A = linalg.times_lower_t(terms.K, V)
        seen = structure.local(A, terms.k, terms.y)
        here = Statistics(
            linalg.cross_lower(seen.A, seen.A),
            linalg.thin_t(seen.A, seen.y),
            jnp.sum(seen.y * seen.y),
            seen.penalty,
            seen.excess,
            terms.log_noise,
            seen.clamped,
            jnp.sum(chunk[1]),
        )
        return _add(total, here), (A, seen.root) if way.keep else None

    init = Statistics(jnp.zeros((m, m), dtype), jnp.zeros((m, p), dtype), zero, zero, zero, zero, zero, zero)
    total, kept = laid.total(body, init, way.plan)
    return total._replace(S=linalg.mirror(total.S)), kept


def _stream_fwd(structure, way, process, Kuu, W, laid):
    total, kept = _forward(structure, way, process, W, laid)
    return total, (process, W, laid, kept, total)


@linalg.full_precision
def _stream_bwd(structure, way, residuals, bar):
    """Maths 3.2: a second pass for the cotangents of each chunk, and ``T = Σ Ā Aᵀ`` for that of ``Kuu``."""
    process, W, laid, kept, total = residuals
    V = W.astype(way.short or W.dtype)
    pull = _pull_even(W, V, bar) if structure.even else _pull(structure, V, bar)

    def body(carry, chunk, known):
        here, valid = chunk
        terms, pull_terms = jax.vjp(lambda p, r: local_terms(p, (r, valid), structure.size, way.short), process, here)
        A, root = (linalg.times_lower_t(terms.K, V), None) if known is None else known
        K_bar, k_bar, y_bar, T = pull(A, terms, root)
        process_bar, rows_bar = pull_terms(Terms(K_bar, k_bar, y_bar, bar.log_noise))
        return _add(carry, (T, process_bar)), rows_bar

    T = None if structure.even else jnp.zeros_like(W)
    (T, process_bar), rows_bar = laid.total(body, (T, jax.tree.map(jnp.zeros_like, process)), way.plan, kept)
    if structure.even:
        T = _even(bar) @ total.S + bar.b @ total.b.T
    return process_bar, linalg.whiten_cotangent(W, T), None, laid.cotangent(rows_bar)


def _pull(structure, V, bar):
    """Cotangents of a chunk's kernel rows, prior (co)variances and targets, and its part of ``T``."""
    seen_bar = Cotangents((bar.S + bar.S.T).astype(V.dtype), bar.b, bar.yy, bar.penalty, bar.excess)

    def pull(A, terms, root):
        A_bar, k_bar, y_bar = structure.pull(A, terms.k, terms.y, root, seen_bar)
        return linalg.times_lower(A_bar, V), k_bar, y_bar, linalg.cross_lower(A_bar, A)

    return pull


def _pull_even(W, V, bar):
    """The same where every row counts alike (maths 3.5): one product with the rows in place of three."""
    GW, bW = linalg.times_lower(_even(bar), W).astype(V.dtype), (bar.b.T @ W).T

    def pull(A, terms, root):
        K_bar = A @ GW + linalg.thin_outer(terms.y, bW).astype(A.dtype)
        y_bar = linalg.thin(A, bar.b) + 2 * bar.yy * terms.y
        return K_bar, jnp.full_like(terms.k, bar.penalty + bar.excess), y_bar, None

    return pull


def _even(bar):
    """The matrix ``H`` of ``Ā = H A + b̄ ỹᵀ`` (maths 3.5)."""
    return bar.S + bar.S.T - 2 * (bar.penalty + bar.excess) * jnp.eye(len(bar.S), dtype=bar.S.dtype)


_stream.defvjp(_stream_fwd, _stream_bwd)


def _averaged(structure: Conditional, process: Process, factor: Factor, laid: Layout, chunk: int | None) -> Statistics:
    """The same sums where inputs are uncertain: averages over them take the place of kernel values (maths 7.4)."""
    m, W = process.Z.shape[0], factor.inverse
    numbers = psi.numbers_per_row(process.kernel, m, process.Z.shape[1], laid.like.spread)
    plan = _choose(laid.length, numbers, W.dtype.itemsize, 1, chunk).plan
    inverse = psi.pack(linalg.inverse_from_factor(W))
    sums, covariance = streaming.streamed(partial(_uncertain, structure), plan, (process, W, inverse), laid)
    S = sums.S + W @ psi.unpack(covariance, m) @ W.T
    return sums._replace(S=0.5 * (S + S.T))


def _uncertain(
    structure: Conditional, given: tuple[Process, Array, Array], chunk: tuple[Rows, Array]
) -> tuple[Statistics, Float[Array, " k"]]:
    """A chunk's sums as the means of its kernel values make them, and their covariances, packed and not whitened."""
    (process, W, inverse), (rows, valid) = given, chunk
    variance = process.noise + rows.known
    precision = valid / variance
    averages = psi.moments(process.kernel, process.Z, rows.X, rows.spread)
    A = linalg.times_lower_t(averages.first, W)
    y = rows.y - process.mean(rows.X)
    r, clamps = averages.residuals(A, inverse)
    seen = precision[:, None] * A
    sums = Statistics(
        seen.T @ A,
        seen.T @ y,
        jnp.sum(precision[:, None] * y * y),
        jnp.sum(structure.penalties(precision * r)),
        jnp.sum(precision * r),
        jnp.sum(valid * jnp.log(variance)),
        jnp.sum(valid * clamps),
        jnp.sum(valid),
    )
    return sums, precision @ averages.covariance


@eqx.filter_jit
@linalg.full_precision
def optimal_V(
    process: Process, rows: Rows, W: Float[Array, "m m"], structure: Conditional, excess: Float[Array, ""]
) -> Float[Array, "b s s"]:
    """The diagonal blocks of the optimal V of all rows (maths 1.4), chunk by chunk."""
    n = rows.X.shape[0]
    width, inverse = len(W), None
    if rows.spread is not None:
        width = psi.numbers_per_row(process.kernel, width, process.Z.shape[1], rows.spread)
        inverse = psi.pack(linalg.inverse_from_factor(W))
    way = _choose(n, width, W.dtype.itemsize, structure.size, None)

    def body(_, chunk, kept):
        if inverse is not None:
            here = chunk[0]
            averages = psi.moments(process.kernel, process.Z, here.X, here.spread)
            left, _ = averages.residuals(linalg.times_lower_t(averages.first, W), inverse)
            r = left / (process.noise + here.known)
            return None, structure.scales(r, excess / n)[:, None, None]
        terms = local_terms(process, chunk, structure.size)
        return None, structure.optimal_V(linalg.times_lower_t(terms.K, W), terms.k, excess / n)

    _, V = layout.of(rows).total(body, None, way.plan)
    return V.reshape(-1, *V.shape[2:])[: math.ceil(n / structure.size)]
