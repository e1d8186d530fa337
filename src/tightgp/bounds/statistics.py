"""The one pass over the data: sums that every collapsed objective and posterior reads (maths §3).

Rows stream through in chunks, so memory is O(chunk·M + M²). All sums are in units of the noise: a row's kernel values,
prior variance and target are divided by its noise standard deviation. The derivative of each chunk is autodiff's; what
belongs to the M×M level has derivatives by hand, in `tightgp.numerics.linalg`.
"""

from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp import parameters
from tightgp.bounds import psi
from tightgp.bounds.structures import Rowwise, ScaledRows, Structure
from tightgp.data.partition import Partition
from tightgp.data.placement import PlacedRows
from tightgp.data.rows import Rows
from tightgp.kernels import Kernel
from tightgp.means import Mean
from tightgp.numerics import chunks, linalg, stacks
from tightgp.numerics.chunks import Chunks
from tightgp.numerics.device import per_backend
from tightgp.numerics.linalg import Factor, Whitener

#: A chunk's M columns take about this many bytes; small enough for a CPU's cache, large enough for a GPU's cores.
_CHUNK_BYTES = {"cpu": 8 << 20, "gpu": 1 << 29}
#: Whitened rows up to this size are kept for the derivative instead of being computed again.
_KEEP_BYTES = {"cpu": 1 << 28, "gpu": 4 << 30}


class Process(NamedTuple):
    """The Gaussian process and its noise: what the pass is differentiated in."""

    kernel: Kernel
    mean: Mean
    noise: Float[Array, ""]
    Z: Float[Array, "m d"]


class Statistics(NamedTuple):
    """Sums over all rows, in units of the noise (maths 3.1).

    ``S = AAᵀ``, ``b = Ay``, ``yy = yᵀy``; ``penalty`` is Φ before `Structure.penalty`, ``residual`` is Σ r,
    ``log_noise`` the log determinant of the noise; ``clamped`` counts residual variances below zero by rounding.
    """

    S: Float[Array, "m m"]
    b: Float[Array, "m p"]
    yy: Float[Array, ""]
    penalty: Float[Array, ""]
    residual: Float[Array, ""]
    log_noise: Float[Array, ""]
    clamped: Float[Array, ""]
    rows: Float[Array, ""]


class Terms(NamedTuple):
    """A chunk of rows before whitening, over the noise."""

    K: Float[Array, "n m"]
    y: Float[Array, "n p"]
    scale: Float[Array, " n"]
    log_noise: Float[Array, ""]


def row_terms(process: Process, chunk: Rows, dtype: str | None = None) -> Terms:
    """Kernel rows and targets over the noise, and one over its standard deviation; a row of weight 0 becomes zero.

    ``dtype`` is that of the N×M kernel values, where it is shorter than everything else's.
    """
    real = (chunk.weight > 0).astype(chunk.X.dtype)
    variance = noise_of(process, chunk)
    scale = real * jax.lax.rsqrt(variance)
    K = _cross_covariance(process, chunk.X, dtype)
    y = (chunk.y - process.mean(chunk.X)) * scale[:, None]
    return Terms(K * scale.astype(K.dtype)[:, None], y, scale, jnp.sum(real * jnp.log(variance)))


def noise_of(process: Process, chunk: Rows) -> Float[Array, " n"]:
    """Noise variance of each row: the model's own, by the row's factor, and the known part."""
    return chunk.noise(process.noise)


def _cross_covariance(process: Process, X: Float[Array, "n d"], dtype: str | None) -> Float[Array, "n m"]:
    """``Kfu``. In a shorter dtype, inputs are first moved to the middle of the inducing ones where that is allowed."""
    kernel, Z = process.kernel, process.Z
    if dtype is None:
        return kernel(X, Z)
    if kernel.stationary:
        middle = jax.lax.stop_gradient(jnp.mean(Z, axis=0))
        X, Z = X - middle, Z - middle
    return parameters.cast(kernel, dtype)(X.astype(dtype), Z.astype(dtype))


@linalg.full_precision
def collect(
    process: Process,
    rows: PlacedRows,
    structure: Structure,
    jitter: float,
    chunk: int | None = None,
    dtype: str | None = None,
) -> tuple[Statistics, Factor]:
    """The sums over all rows and the factor of ``Kuu`` (maths 3.1).

    Args:
        process: kernel, mean, noise and inducing inputs.
        rows: where the rows are.
        structure: of V.
        jitter: relative jitter of ``Kuu`` to begin with.
        chunk: rows in memory at a time; None chooses, and keeps whitened rows for the derivative if they fit.
        dtype: of the N×M kernel values and the products with them, where it is shorter than everything else's.
    """
    structure = structure.for_rows(rows.num_rows)
    factor = linalg.factorise(process.kernel(process.Z), jitter)
    m, itemsize = len(process.Z), jnp.dtype(dtype or process.Z.dtype).itemsize
    if rows.like.input_variance is not None:
        assert isinstance(structure, Rowwise)
        return _averaged(structure, process, factor, rows, chunk), factor
    plan, save = _plan(rows.num_rows, m, itemsize, structure.partition, chunk)
    if structure.uniform:
        return _uniform(process, factor, rows, structure, plan, save, dtype), factor
    chunk_sums = partial(_chunk_sums, structure, dtype)
    sums = rows.fold(chunk_sums, process, Whitener.of(factor).held(), chunks=plan, save=save)
    return sums._replace(S=linalg.mirrored(sums.S)), factor


def _plan(
    n: int, m: int, itemsize: int, partition: Partition, chunk: int | None = None
) -> tuple[Chunks, tuple[str, ...]]:
    """The chunks, and the names of what is kept of each for the derivative."""
    size = partition.size
    if partition.neighbours:
        return partition.pieces(n), ()  # conditioners are numbers of rows of the same piece
    most = chunk or per_backend(_CHUNK_BYTES) // (max(m, size) * itemsize)
    numbers = m + (size if size > 1 else 0)  # whitened rows, and roots of blocks
    keep = chunk is None and n * numbers * itemsize <= per_backend(_KEEP_BYTES)
    return chunks.plan(n, most, size), (linalg.WHITENED, stacks.ROOTS) if keep else ()


def _chunk_sums(structure: Structure, dtype: str | None, chunk: Rows, number, process: Process, whitener: Whitener):
    terms = row_terms(process, chunk, dtype)
    A = linalg.whiten(terms.K, whitener)
    seen = structure(process.kernel, ScaledRows(A, chunk.X, terms.y, terms.scale, chunk.conditioners))
    exact = process.Z.dtype
    return Statistics(
        linalg.gram(seen.A).astype(exact),
        linalg.thin_t(seen.A, seen.y).astype(exact),
        jnp.sum(seen.y * seen.y),
        seen.penalty,
        seen.residual,
        terms.log_noise,
        jax.lax.stop_gradient(seen.clamped),
        jnp.sum((chunk.weight > 0).astype(exact)),
    )


def _uniform(
    process: Process, factor: Factor, rows: PlacedRows, structure: Structure, plan: Chunks, save, dtype: str | None
) -> Statistics:
    """The same sums with a shorter derivative, where every row counts alike (maths 3.5): ``Σ r = Σ k − tr S``."""

    def chunk_sums(chunk: Rows, number, process: Process, W):
        terms = row_terms(process, chunk, dtype)
        prior = process.kernel.diagonal(chunk.X) * terms.scale**2
        S, b, squares = linalg.whitened_sums(terms.K, terms.y, W.astype(terms.K.dtype))
        r = jax.lax.stop_gradient(prior) - squares
        exact = process.Z.dtype
        sums = Statistics(
            S.astype(exact),
            b.astype(exact),
            jnp.sum(terms.y * terms.y),
            jnp.zeros((), exact),
            jnp.sum(jnp.maximum(r, 0.0)),
            terms.log_noise,
            jnp.sum((r < 0).astype(exact)),
            jnp.sum((chunk.weight > 0).astype(exact)),
        )
        return sums, jnp.sum(prior)

    W = Whitener.of(factor).held().inverse
    sums, prior = rows.fold(chunk_sums, process, W, chunks=plan, save=save)
    S, b = linalg.with_factor(linalg.mirrored(sums.S), sums.b, factor.matrix, factor.inverse)
    residual = _with_derivative_of(sums.residual, prior - jnp.trace(S))
    return sums._replace(S=S, b=b, residual=residual, penalty=residual)


def _with_derivative_of(value, like):
    """``value``, differentiated as ``like``, which differs from it by rounding alone."""
    return like + jax.lax.stop_gradient(value - like)


def _averaged(structure: Rowwise, process: Process, factor: Factor, rows: PlacedRows, chunk: int | None):
    """The same sums where inputs are uncertain: averages over them replace kernel values (maths 7.4)."""
    m, W, uncertain = len(process.Z), factor.inverse, rows.like.input_variance
    assert uncertain is not None
    numbers = psi.numbers_per_row(process.kernel, m, process.Z.shape[1], uncertain)
    plan, _ = _plan(rows.num_rows, numbers, W.dtype.itemsize, Partition(1), chunk)
    inverse = psi.pack(linalg.inverse_from_factor(W))
    sums, covariance = rows.fold(partial(_averaged_sums, structure), process, W, inverse, chunks=plan)
    S = sums.S + W @ psi.unpack(covariance, m) @ W.T
    return sums._replace(S=0.5 * (S + S.T))


def _averaged_sums(structure: Rowwise, chunk: Rows, number, process: Process, W, inverse):
    """A chunk's sums over the means of its kernel values, and their covariances, packed and not whitened."""
    real = (chunk.weight > 0).astype(chunk.X.dtype)
    variance = noise_of(process, chunk)
    precision = real / variance
    averages = psi.moments(process.kernel, process.Z, chunk.X, chunk.input_variance)
    A = linalg.times_lower_t(averages.first, W)
    y = chunk.y - process.mean(chunk.X)
    r, clamped = averages.residuals(A, inverse)
    weighted = precision[:, None] * A
    sums = Statistics(
        weighted.T @ A,
        weighted.T @ y,
        jnp.sum(precision[:, None] * y * y),
        jnp.sum(structure.row_penalties(precision * r)),
        jnp.sum(precision * r),
        jnp.sum(real * jnp.log(variance)),
        jnp.sum(real * clamped),
        jnp.sum(real),
    )
    return sums, precision @ averages.covariance


@eqx.filter_jit
@linalg.full_precision
def optimal_V(
    process: Process, rows: Rows, W: Float[Array, "m m"], structure: Structure, residual: Float[Array, ""]
) -> Float[Array, "b s s"]:
    """The diagonal blocks of the optimal V of all rows (maths 1.4), chunk by chunk. ``residual`` is Σ r."""
    n, size = rows.num_rows, structure.partition.size
    numbers, inverse = len(W), None
    if rows.input_variance is not None:
        numbers = psi.numbers_per_row(process.kernel, numbers, process.Z.shape[1], rows.input_variance)
        inverse = psi.pack(linalg.inverse_from_factor(W))
    plan, _ = _plan(n, numbers, W.dtype.itemsize, structure.partition)

    def body(_, chunk):
        if inverse is not None:
            assert isinstance(structure, Rowwise)
            averages = psi.moments(process.kernel, process.Z, chunk.X, chunk.input_variance)
            left = averages.residuals(linalg.times_lower_t(averages.first, W), inverse)[0]
            return None, structure.scales(left / noise_of(process, chunk), residual / n)[:, None, None]
        terms = row_terms(process, chunk)
        A = linalg.times_lower_t(terms.K, W)
        return None, structure.V(process.kernel, ScaledRows(A, chunk.X, terms.y, terms.scale), residual / n)

    chunked = chunks.cut(rows.padded(plan.size * plan.number), plan)
    _, V = chunks.scan(body, None, chunked, plan)
    return V.reshape(-1, *V.shape[2:])[: -(-n // size)]
