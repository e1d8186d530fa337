"""The only home of Cholesky factors, jitter, triangular products and their hand-written derivatives.

Every factorisation in the library is kept as the *inverse* of a Cholesky factor, ``W = L⁻¹``: applying it is
then a matrix product, which runs at several times the rate of a triangular solve on every backend.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

from tightgp.backend import of_backend, on_cpu

#: Relative jitter tried first, by dtype; each retry multiplies it by ten.
DEFAULT_JITTER = {"float64": 1e-6, "float32": 1e-5}
#: Relative jitter beyond which a matrix counts as not factorisable.
MAX_JITTER = 1e-1
#: From this many columns on, products with a triangular matrix are split to skip its zero half. An H200 with 10 000
#: rows takes 1.12 to 1.19 ms instead of 1.32 to 1.35 at M = 2048, but 0.38 to 0.40 instead of 0.36 at M = 1024.
_SPLIT_FROM = {"cpu": 512, "gpu": 2048}
_SPLITS = 4
#: Triangular inverses of at most this size are left to the backend's own solver.
_SOLVER_SIZE = {"cpu": 256, "gpu": 64}


def full_precision(function):
    """Matrix products in the precision of their operands: accelerators shorten float32 to ten bits otherwise."""

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        with jax.default_matmul_precision("highest"):
            return function(*args, **kwargs)

    return wrapped


class Factor(NamedTuple):
    """A stabilised matrix, its Cholesky factor ``L`` and ``L⁻¹``, and the relative jitter that it took."""

    matrix: Float[Array, "m m"]
    lower: Float[Array, "m m"]
    inverse: Float[Array, "m m"]
    jitter: Float[Array, ""]


def default_jitter(dtype) -> float:
    """The relative jitter tried first for ``dtype``."""
    return DEFAULT_JITTER[jnp.dtype(dtype).name]


@full_precision
def factorise(K: Float[Array, "m m"], jitter: float, scale: Float[Array, ""] | None = None) -> Factor:
    """Factorise ``K + level·scale·I`` at the first level that works: ``jitter``, then ten times more each.

    The scale is the mean diagonal of ``K``, or what is given where ``K`` is a small difference of large parts.
    From ``jitter=0`` the first retry is a hundredth of the dtype's default. The search runs inside jit. Where
    even ``MAX_JITTER`` fails, the factor is NaN and so is everything computed from it; callers report that,
    they never hide it. The level is a constant to autodiff; the scale that multiplies it is not, so
    derivatives are those of the matrix that was factorised.
    """
    eye = jnp.eye(K.shape[0], dtype=K.dtype)
    scale = jnp.mean(jnp.diagonal(K)) if scale is None else scale
    fixed_K, fixed_scale = jax.lax.stop_gradient((K, scale))

    def attempt(level):
        return jnp.linalg.cholesky(fixed_K + level * fixed_scale * eye, symmetrize_input=False)

    def unfinished(state):
        level, L = state
        return ~jnp.all(jnp.isfinite(jnp.diagonal(L))) & (level < 0.5 * MAX_JITTER)

    def escalate(state):
        level = jnp.where(state[0] > 0, 10 * state[0], default_jitter(K.dtype) / 100)
        return level, attempt(level)

    first = jnp.asarray(jitter, K.dtype)
    level, L = jax.lax.while_loop(unfinished, escalate, (first, attempt(first)))
    matrix = K + level * scale * eye
    L, W = _factors(matrix, L, inverse_lower(L))
    return Factor(matrix, L, W, level)


@jax.custom_vjp
def _factors(matrix, L, W):
    """``L`` and ``W = L⁻¹`` as functions of the matrix that they factorise."""
    return L, W


@full_precision
def _factors_bwd(residuals, bars):
    (L, W), (L_bar, W_bar) = residuals, bars
    parts = []
    if not isinstance(L_bar, SymbolicZero):
        parts.append(L.T @ jnp.tril(L_bar))
    if not isinstance(W_bar, SymbolicZero):
        parts.append(-jnp.tril(W_bar) @ W.T)
    return 0.5 * congruence(mirror(sum(parts)), W) if parts else None, None, None


def _factors_fwd(matrix, L, W):
    factors = _factors(matrix.value, L.value, W.value)  # not L and W: second derivatives go through these
    return factors, factors


# Where a derivative goes through the matrix (`whiten`, `logdet_quadratic`), the factors' own is known to be zero.
_factors.defvjp(_factors_fwd, _factors_bwd, symbolic_zeros=True)


def inverse_lower(L: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """The inverse of a lower triangular matrix, from its diagonal blocks up, so that most of the work is products.

    Two neighbouring blocks and the one below the first make one of twice the size; all pairs at once.
    """
    m = L.shape[0]
    levels = max(0, math.ceil(math.log2(m / of_backend(_SOLVER_SIZE))))
    size = -(-m // 2**levels)
    short = size * 2**levels - m
    if short:
        L = jnp.pad(L, ((0, short), (0, short))) + jnp.diag(jnp.concatenate([jnp.zeros(m), jnp.ones(short)])).astype(
            L.dtype
        )

    def blocks(size, below):
        """Blocks of the diagonal, or those below every other one."""
        grid, step = L.reshape(len(L) // size, size, len(L) // size, size), 1 + below
        return jnp.stack([grid[i + below, :, i] for i in range(0, len(grid), step)])

    D = blocks(size, 0)
    W = jax.lax.linalg.triangular_solve(
        D, jnp.broadcast_to(jnp.eye(size, dtype=L.dtype), D.shape), left_side=True, lower=True
    )
    while len(W) > 1:
        top, bottom = W[::2], W[1::2]
        corner = -bottom @ (blocks(W.shape[1], 1) @ top)
        right = jnp.concatenate([jnp.zeros_like(top), bottom], axis=1)
        W = jnp.concatenate([jnp.concatenate([top, corner], axis=1), right], axis=2)
    return W[0, :m, :m]


def _pieces(m: int) -> list[tuple[int, int]]:
    step = -(-m // _SPLITS) if m >= of_backend(_SPLIT_FROM) else m
    return [(i, min(i + step, m)) for i in range(0, m, step)]


def times_lower_t(K: Float[Array, "n m"], W: Float[Array, "m m"]) -> Float[Array, "n m"]:
    """``K Wᵀ`` for lower triangular ``W``."""
    return _joined([K[:, :e] @ W[s:e, :e].T for s, e in _pieces(len(W))], axis=1)


def times_lower(A: Float[Array, "n m"], W: Float[Array, "m m"]) -> Float[Array, "n m"]:
    """``A W`` for lower triangular ``W``."""
    return _joined([A[:, s:] @ W[s:, s:e] for s, e in _pieces(len(W))], axis=1)


def cross_lower(A: Float[Array, "n m"], B: Float[Array, "n m"]) -> Float[Array, "m m"]:
    """A matrix whose lower triangle is that of ``AᵀB``; what is above it is unspecified."""
    m, At = A.shape[1], A.T
    rows = [jnp.pad(At[s:e] @ B[:, :e], ((0, 0), (0, m - e))) if e < m else At[s:e] @ B for s, e in _pieces(m)]
    return _joined(rows, axis=0)


def _joined(parts: list[Array], axis: int) -> Array:
    """Parts put together; one part as it is, of which a compiler would make a copy."""
    return jnp.concatenate(parts, axis=axis) if len(parts) > 1 else parts[0]


def thin(A: Float[Array, "n m"], b: Float[Array, "m p"]) -> Float[Array, "n p"]:
    """``A b`` for few columns ``b``, in the precision of ``A``.

    One column is a sum: an accelerator's compiler joins small products to large ones with the same operand, and copies
    that to do so.
    """
    b = b.astype(A.dtype)
    return A @ b if on_cpu() or b.shape[1] > 1 else jnp.sum(A * b.T, axis=1, keepdims=True)


def thin_t(A: Float[Array, "n m"], y: Float[Array, "n p"]) -> Float[Array, "m p"]:
    """``Aᵀ y`` for few columns ``y``, in the precision of ``A``."""
    y = y.astype(A.dtype)
    return A.T @ y if on_cpu() or y.shape[1] > 1 else jnp.sum(A * y, axis=0)[:, None]


def thin_outer(y: Float[Array, "n p"], b: Float[Array, "m p"]) -> Float[Array, "n m"]:
    """``y bᵀ`` for few columns."""
    return y * b.T if y.shape[1] == 1 else y @ b.T


def mirror(T: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """The symmetric matrix with the lower triangle of ``T``."""
    return jnp.tril(T) + jnp.tril(T, -1).T


def congruence(Y: Float[Array, "m m"], W: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """``Wᵀ Y W`` for symmetric ``Y`` and lower triangular ``W``."""
    return times_lower(times_lower(Y, W).T, W)


def inverse_from_factor(W: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """``K⁻¹ = WᵀW``."""
    return mirror(cross_lower(W, W))


def whiten_cotangent(W: Float[Array, "m m"], T: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """Cotangent of ``Kuu`` under ``A = L⁻¹Kuf``, from the lower triangle of ``T = Ā Aᵀ`` (maths 3.2).

    With data in rows, as everywhere here, ``T`` is the product of the transposes.
    """
    return -0.5 * congruence(mirror(T), W)


@jax.custom_vjp
@full_precision
def whiten(Kuu: Float[Array, "m m"], K: Float[Array, "n m"], W: Float[Array, "m m"]) -> Float[Array, "n m"]:
    """Rows of ``L⁻¹Kuf`` (maths 3.3), for ``K = Kfu`` and ``W = L⁻¹``, the inverse Cholesky factor of ``Kuu``.

    ``W`` must belong to ``Kuu``: the derivative is taken through ``Kuu`` and ``K``.
    """
    return times_lower_t(K, W)


def _whiten_fwd(Kuu, K, W):
    A = whiten(Kuu, K, W)
    return A, (A, W)


@full_precision
def _whiten_bwd(residuals, A_bar):
    A, W = residuals
    return whiten_cotangent(W, cross_lower(A_bar, A)), times_lower(A_bar, W), None


whiten.defvjp(_whiten_fwd, _whiten_bwd)


@jax.custom_vjp
@full_precision
def logdet_quadratic(
    K: Float[Array, "m m"], b: Float[Array, "m p"], W: Float[Array, "m m"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """``log|K|`` and ``tr(bᵀK⁻¹b)``, given ``W``, the inverse Cholesky factor of ``K``.

    ``W`` must belong to ``K``: the derivative is taken through ``K`` and ``b``.
    """
    c = W @ b
    return -2 * jnp.sum(jnp.log(jnp.diagonal(W))), jnp.sum(c * c)


def _logdet_quadratic_fwd(K, b, W):
    return logdet_quadratic(K, b, W), (b, W)


@full_precision
def _logdet_quadratic_bwd(residuals, cotangents):
    (b, W), (g_log, g_quad) = residuals, cotangents
    x = W.T @ (W @ b)
    return g_log * inverse_from_factor(W) - g_quad * (x @ x.T), 2 * g_quad * x, None


logdet_quadratic.defvjp(_logdet_quadratic_fwd, _logdet_quadratic_bwd)


def inverse_root(K: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """The lower triangular ``C`` with ``C Cᵀ = K⁻¹``; NaN where ``K`` is not positive definite.

    It is the inverse of an *upper* triangular factor, had from the Cholesky factor of ``K`` in reverse order.
    """
    L = jnp.linalg.cholesky(K[::-1, ::-1], symmetrize_input=False)
    return flipped_transpose(inverse_lower(L))


def flipped_transpose(W: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """The lower triangular ``C`` with ``C Cᵀ = K⁻¹``, from ``W``, the inverse factor of ``K`` in reverse order."""
    return W.T[::-1, ::-1]


@full_precision
def shrink_root(
    root: Float[Array, "m m"], Y: Float[Array, "m m"], rate: Float[Array, ""], halvings: int = 40
) -> tuple[Float[Array, "m m"], Float[Array, ""]]:
    """A lower triangular root of ``R (I − rate·Y)⁻¹ Rᵀ``, and the rate that it took (maths 4.4).

    ``rate`` is halved until ``I − rate·Y`` can be factorised.
    """
    eye = jnp.eye(len(Y), dtype=Y.dtype)

    def attempt(rate):
        return inverse_root(eye - rate * Y)

    def unfinished(state):
        _, C, tries = state
        return ~jnp.all(jnp.isfinite(jnp.diagonal(C))) & (tries < halvings)

    def halve(state):
        rate, _, tries = state
        return 0.5 * rate, attempt(0.5 * rate), tries + 1

    rate, C, _ = jax.lax.while_loop(unfinished, halve, (rate, attempt(rate), 0))
    return times_lower(root, C), rate


def inverse_roots(K: Float[Array, "b s s"]) -> Float[Array, "b s s"]:
    """``L_b⁻¹`` of a stack of small positive definite matrices ``K_b = L_b L_bᵀ``."""
    L = jnp.linalg.cholesky(K, symmetrize_input=False)
    eye = jnp.broadcast_to(jnp.eye(K.shape[-1], dtype=K.dtype), K.shape)
    return jax.lax.linalg.triangular_solve(L, eye, left_side=True, lower=True)


def inverse_roots_with_noise(K: Float[Array, "b s s"]) -> Float[Array, "b s s"]:
    """``L_b⁻¹`` of ``(1 + level_b)·I + K_b = L_b L_bᵀ``, for ``K_b`` that are positive but for their rounding.

    Without rounding no pivot is below the noise. Where one is far below it, ``K_b`` is mostly rounding, in units of
    that noise, and more noise must cover it: the first level of 0, 1, 10, 100, … that does. No derivative.
    """
    eye = jnp.eye(K.shape[-1], dtype=K.dtype)

    def attempt(level):
        return jnp.linalg.cholesky((1 + level)[:, None, None] * eye + K, symmetrize_input=False)

    def covered(level, L):
        pivots = jnp.diagonal(L, axis1=1, axis2=2) ** 2
        return jnp.all(pivots > 0.5 * (1 + level)[:, None], axis=1)  # NaN covers nothing

    def unfinished(state):
        level, L = state
        return jnp.any(~covered(level, L)) & (jnp.max(level) < 1e12)

    def escalate(state):
        level, L = state
        level = jnp.where(covered(level, L), level, jnp.maximum(1.0, 10 * level))
        return level, attempt(level)

    start = jnp.zeros(len(K), K.dtype)
    _, L = jax.lax.while_loop(unfinished, escalate, (start, attempt(start)))
    return jax.lax.linalg.triangular_solve(L, jnp.broadcast_to(eye, K.shape), left_side=True, lower=True)


@jax.custom_vjp
@full_precision
def grams(A: Float[Array, "b s m"]) -> Float[Array, "b s s"]:
    """``A_b A_bᵀ`` of a stack, with one product in its derivative where autodiff makes two."""
    return jnp.einsum("bim,bjm->bij", A, A)


@full_precision
def _grams_bwd(A, bar):
    return (jnp.einsum("bij,bjm->bim", bar + jnp.swapaxes(bar, 1, 2), A),)


grams.defvjp(lambda A: (grams(A), A), _grams_bwd)


@jax.custom_vjp
def log_determinants(K: Float[Array, "b s s"]) -> Float[Array, " b"]:
    """``log|K_b|`` of a stack of small positive definite matrices."""
    return _log_determinants_fwd(K)[0]


def _log_determinants_fwd(K):
    W = inverse_roots(K)
    return -2 * jnp.sum(jnp.log(jnp.diagonal(W, axis1=1, axis2=2)), axis=1), W


@full_precision
def _log_determinants_bwd(W, g):
    return (g[:, None, None] * jnp.einsum("bki,bkj->bij", W, W),)


log_determinants.defvjp(_log_determinants_fwd, _log_determinants_bwd)


@full_precision
def inverse_symmetric_root(K: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The pseudo-inverse of the symmetric square root of a positive semi-definite ``K``."""
    values, vectors = jnp.linalg.eigh(K)
    gone = values <= values[-1] * len(K) * jnp.finfo(K.dtype).eps
    inverse_roots = jnp.where(gone, 0.0, jax.lax.rsqrt(jnp.where(gone, 1.0, values)))
    return (vectors * inverse_roots) @ vectors.T
