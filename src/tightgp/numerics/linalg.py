"""Cholesky factors, jitter and triangular products, with their derivatives.

Every factor is kept as the *inverse* of a Cholesky factor, ``W = L⁻¹``: applying it is then a matrix product, which is
several times faster than a triangular solve on every backend. Stacks of small matrices are in `stacks`.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.ad_checkpoint import checkpoint_name
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Array, Float

from tightgp.numerics import lapack
from tightgp.numerics.device import on_cpu, per_backend

#: Relative jitter tried first, by dtype; each retry multiplies it by ten.
DEFAULT_JITTER = {"float64": 1e-6, "float32": 1e-5}
#: With more relative jitter than this a matrix counts as not factorisable.
MAX_JITTER = 1e-1
#: From this many columns on, products with a triangular matrix are split to skip its zero half. An H200 with 10 000
#: rows takes 1.12 to 1.19 ms instead of 1.32 to 1.35 at M = 2048, but 0.38 to 0.40 instead of 0.36 at M = 1024.
_SPLIT_FROM = {"cpu": 512, "gpu": 2048}
_SPLITS = 4
#: Triangular inverses of at most this size are left to the backend's own solver.
_SOLVER_SIZE = {"cpu": 256, "gpu": 64}
#: The name under which whitened rows can be kept for the derivative (see `tightgp.data.placement`).
WHITENED = "whitened rows"


def full_precision(function):
    """Compute matrix products in the precision of their operands.

    Accelerators round float32 operands to ten bits otherwise.
    """

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        with jax.default_matmul_precision("highest"):
            return function(*args, **kwargs)

    return wrapped


class NumericalError(ArithmeticError):
    """A kernel matrix could not be factorised; the message says which input caused it."""


class Factor(NamedTuple):
    """A stabilised matrix, its Cholesky factor ``L``, ``L⁻¹``, and the relative jitter that was added."""

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

    The scale is the mean diagonal of ``K``, or ``scale`` where ``K`` is a small difference of large parts. From
    ``jitter=0`` the first retry is a hundredth of the dtype's default. The search runs inside jit. Where even
    ``MAX_JITTER`` fails, the factor is NaN and so is everything computed from it; callers report that. The level is a
    constant to autodiff, the scale is not: derivatives are those of the matrix that was factorised.
    """
    eye = jnp.eye(K.shape[0], dtype=K.dtype)
    scale = jnp.mean(jnp.diagonal(K)) if scale is None else scale
    fixed_K, fixed_scale = jax.lax.stop_gradient((K, scale))

    def attempt(level):
        return lapack.cholesky(fixed_K + level * fixed_scale * eye)

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


# Where the derivative goes through the matrix (`whiten`, `logdet_quadratic`), that of the factors is known to be zero.
_factors.defvjp(_factors_fwd, _factors_bwd, symbolic_zeros=True)


def inverse_lower(L: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """The inverse of a lower triangular matrix, built up from diagonal blocks so that most of the work is products.

    Two neighbouring blocks and the one below the first make one block of twice the size; all pairs at once.
    """
    m = L.shape[0]
    levels = max(0, math.ceil(math.log2(m / per_backend(_SOLVER_SIZE))))
    size = -(-m // 2**levels)
    missing = size * 2**levels - m
    if missing:
        ones = jnp.concatenate([jnp.zeros(m), jnp.ones(missing)]).astype(L.dtype)
        L = jnp.pad(L, ((0, missing), (0, missing))) + jnp.diag(ones)

    def blocks(size, below):
        """Blocks of the diagonal, or the block below every other one."""
        grid, step = L.reshape(len(L) // size, size, len(L) // size, size), 1 + below
        return jnp.stack([grid[i + below, :, i] for i in range(0, len(grid), step)])

    W = lapack.triangular_inverse(blocks(size, 0))
    while len(W) > 1:
        top, bottom = W[::2], W[1::2]
        corner = -bottom @ (blocks(W.shape[1], 1) @ top)
        right = jnp.concatenate([jnp.zeros_like(top), bottom], axis=1)
        W = jnp.concatenate([jnp.concatenate([top, corner], axis=1), right], axis=2)
    return W[0, :m, :m]


def _pieces(m: int) -> list[tuple[int, int]]:
    step = -(-m // _SPLITS) if m >= per_backend(_SPLIT_FROM) else m
    return [(i, min(i + step, m)) for i in range(0, m, step)]


def times_lower_t(K: Float[Array, "n m"], W: Float[Array, "m m"]) -> Float[Array, "n m"]:
    """``K Wᵀ`` for lower triangular ``W``."""
    return _joined([K[:, :e] @ W[s:e, :e].T for s, e in _pieces(len(W))], axis=1)


def times_lower(A: Float[Array, "n m"], W: Float[Array, "m m"]) -> Float[Array, "n m"]:
    """``A W`` for lower triangular ``W``."""
    return _joined([A[:, s:] @ W[s:, s:e] for s, e in _pieces(len(W))], axis=1)


def cross_lower(A: Float[Array, "n m"], B: Float[Array, "n m"]) -> Float[Array, "m m"]:
    """A matrix whose lower triangle is that of ``AᵀB``; the rest is unspecified."""
    m, At = A.shape[1], A.T
    rows = [jnp.pad(At[s:e] @ B[:, :e], ((0, 0), (0, m - e))) if e < m else At[s:e] @ B for s, e in _pieces(m)]
    return _joined(rows, axis=0)


def _joined(parts: list[Array], axis: int) -> Array:
    """Concatenate; a single part is returned as it is, because a compiler would copy it."""
    return jnp.concatenate(parts, axis=axis) if len(parts) > 1 else parts[0]


def thin(A: Float[Array, "n m"], b: Float[Array, "m p"]) -> Float[Array, "n p"]:
    """``A b`` for few columns ``b``, in the precision of ``A``.

    One column is a sum: an accelerator's compiler merges small products into large ones with the same operand, and
    copies that operand to do so.
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


class Whitener(NamedTuple):
    """``W = L⁻¹`` of ``Kuu = L Lᵀ``, as `whiten` takes it.

    ``probe`` is zero. Its derivative collects ``T = Σ Ā Aᵀ`` over all chunks of rows, from which one product at the end
    makes the derivative in ``Kuu`` (maths 3.2). Without it the derivative goes through ``W`` itself.
    """

    inverse: Float[Array, "m m"]
    probe: Float[Array, "m m"] | None = None

    @classmethod
    def of(cls, factor: Factor) -> "Whitener":
        """The whitener of a factor, differentiable in the matrix that was factorised."""
        return cls(factor.inverse, _probe(factor.matrix, factor.inverse))

    def held(self) -> "Whitener":
        """The same for rows alone: the first derivative in ``W`` is known to be zero before it is computed."""
        return self._replace(inverse=_held(self.inverse))


@jax.custom_vjp
def _held(W):
    """``W`` without a first derivative; second derivatives go through it."""
    return W


_held.defvjp(lambda W: (W, None), lambda _, bar: (None,))


@jax.custom_vjp
def _probe(Kuu, W):
    return jnp.zeros_like(W)


@full_precision
def _probe_bwd(W, T):
    return -0.5 * congruence(mirror(T), W), None


_probe.defvjp(lambda Kuu, W: (jnp.zeros_like(W), W), _probe_bwd)


@full_precision
def whiten(K: Float[Array, "n m"], whitener: Whitener) -> Float[Array, "n m"]:
    """Rows of ``L⁻¹Kuf`` for ``K = Kfu`` (maths 3.3), in the precision of ``K``."""
    W = whitener.inverse.astype(K.dtype)
    if whitener.probe is None:
        return times_lower_t(K, W)
    return _whitened(K, _held(W), whitener.probe.astype(K.dtype))


@jax.custom_vjp
def _whitened(K, W, probe):
    return _whitened_fwd(K, W, probe)[0]


@full_precision  # the rules of a derivative are traced outside of the function that they belong to
def _whitened_fwd(K, W, probe):
    A = checkpoint_name(times_lower_t(K, W), WHITENED)
    return A, (A, W)


@full_precision
def _whitened_bwd(residuals, A_bar):
    A, W = residuals
    return times_lower(A_bar, W), None, cross_lower(A_bar, A)


_whitened.defvjp(_whitened_fwd, _whitened_bwd)


@jax.custom_vjp
@full_precision
def gram(A: Float[Array, "n m"]) -> Float[Array, "m m"]:
    """A matrix whose lower triangle is that of ``AᵀA``; the rest is unspecified. `mirror` a sum of them."""
    return cross_lower(A, A)


gram.defvjp(lambda A: (gram(A), A), full_precision(lambda A, bar: (A @ (bar + bar.T),)))


@jax.custom_vjp
def mirrored(S: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """`mirror` of a sum of `gram`: the derivative of such a sum is symmetric and passes through."""
    return mirror(S)


mirrored.defvjp(lambda S: (mirror(S), None), lambda _, bar: (bar,))


@jax.custom_vjp
def whitened_sums(
    K: Float[Array, "n m"], y: Float[Array, "n p"], W: Float[Array, "m m"]
) -> tuple[Float[Array, "m m"], Float[Array, "m p"], Float[Array, " n"]]:
    """`gram` of ``A = K Wᵀ``, ``Aᵀy``, and the squared lengths of the rows of A, which have no derivative (maths 3.5).

    Where nothing else is wanted of the rows, the derivative takes one product with them instead of three. That in
    ``Kuu`` is left to `with_factor`, which must be applied to the sums over all rows.
    """
    return _whitened_sums_fwd(K, y, W)[0]


@full_precision
def _whitened_sums_fwd(K, y, W):
    A = checkpoint_name(times_lower_t(K, W), WHITENED)
    return (cross_lower(A, A), thin_t(A, y), jnp.sum(A * A, axis=1)), (A, y, W)


@full_precision
def _whitened_sums_bwd(residuals, bars):
    (A, y, W), (S_bar, b_bar, _) = residuals, bars
    K_bar = A @ times_lower(S_bar + S_bar.T, W) + thin_outer(y, (b_bar.T @ W).T).astype(A.dtype)
    return K_bar, thin(A, b_bar).astype(y.dtype), None


whitened_sums.defvjp(_whitened_sums_fwd, _whitened_sums_bwd)


@jax.custom_vjp
def with_factor(
    S: Float[Array, "m m"], b: Float[Array, "m p"], Kuu: Float[Array, "m m"], W: Float[Array, "m m"]
) -> tuple[Float[Array, "m m"], Float[Array, "m p"]]:
    """``S`` and ``b`` unchanged, with the derivative in ``Kuu`` that `whitened_sums` leaves out (maths 3.5)."""
    return S, b


@full_precision
def _with_factor_bwd(residuals, bars):
    (S, b, W), (S_bar, b_bar) = residuals, bars
    T = (S_bar + S_bar.T) @ S + b_bar @ b.T
    return S_bar, b_bar, -0.5 * congruence(mirror(T), W), None


with_factor.defvjp(lambda S, b, Kuu, W: ((S, b), (S, b, W)), _with_factor_bwd)


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


@full_precision
def _logdet_quadratic_bwd(residuals, cotangents):
    (b, W), (g_log, g_quad) = residuals, cotangents
    x = W.T @ (W @ b)
    return g_log * inverse_from_factor(W) - g_quad * (x @ x.T), 2 * g_quad * x, None


logdet_quadratic.defvjp(lambda K, b, W: (logdet_quadratic(K, b, W), (b, W)), _logdet_quadratic_bwd)


def inverse_root(K: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """The lower triangular ``C`` with ``C Cᵀ = K⁻¹``; NaN where ``K`` is not positive definite.

    It is the inverse of an *upper* triangular factor, which the Cholesky factor of ``K`` in reverse order gives.
    """
    L = lapack.cholesky(K[::-1, ::-1])
    return flipped_transpose(inverse_lower(L))


def flipped_transpose(W: Float[Array, "m m"]) -> Float[Array, "m m"]:
    """The lower triangular ``C`` with ``C Cᵀ = K⁻¹``, from ``W``, the inverse factor of ``K`` in reverse order."""
    return W.T[::-1, ::-1]


@full_precision
def shrink_root(
    root: Float[Array, "m m"], Y: Float[Array, "m m"], rate: Float[Array, ""], halvings: int = 40
) -> tuple[Float[Array, "m m"], Float[Array, ""]]:
    """A lower triangular root of ``R (I − rate·Y)⁻¹ Rᵀ``, and the rate that was used (maths 4.4).

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


@full_precision
def inverse_symmetric_root(K: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The pseudo-inverse of the symmetric square root of a positive semi-definite ``K``."""
    values, vectors = jnp.linalg.eigh(K)
    gone = values <= values[-1] * len(K) * jnp.finfo(K.dtype).eps
    inverse_roots = jnp.where(gone, 0.0, jax.lax.rsqrt(jnp.where(gone, 1.0, values)))
    return (vectors * inverse_roots) @ vectors.T
