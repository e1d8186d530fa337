"""The log density of targets under the exact GP, with a derivative that keeps one N×N matrix (maths §12.4)."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp.kernels import Kernel
from tightgp.numerics import chunks, dense, linalg, tiles

#: The derivative is taken in as few parts as make them no wider than this, and at most so many: each skips what is zero
#: of the inverse factor, and takes some rows at a time.
_WIDTH, _PARTS = 1024, 4


@jax.custom_vjp
def log_density(
    kernel: Kernel, X: Float[Array, "n d"], y: Float[Array, "n p"], noise: Float[Array, " n"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """``Σ_p log N(y_p | 0, K + diag(noise))``, and the relative jitter that the factor took, which has no derivative.

    The derivative ``½tr((xxᵀ − P K⁻¹)K̇)`` with ``x = K⁻¹y`` is taken some columns at a time, from the inverse factor
    alone: beside it neither ``K⁻¹`` nor any derivative of K is ever whole.
    """
    L, jitter = factor(kernel, X, noise)
    c = jax.lax.linalg.triangular_solve(L, y, left_side=True, lower=True)
    return _value(jnp.sum(jnp.log(jnp.diagonal(L))), c), jitter


def factor(
    kernel: Kernel, X: Float[Array, "n d"], noise: Float[Array, " n"]
) -> tuple[Float[Array, "n n"], Float[Array, ""]]:
    """The Cholesky factor of ``K + diag(noise)``, and the relative jitter that was added."""
    rows = jnp.arange(len(X))
    return dense.cholesky(lambda: kernel(X).at[rows, rows].add(noise))


def _value(half_logdet, c):
    n, p = c.shape
    return -p * (0.5 * n * math.log(2 * math.pi) + half_logdet) - 0.5 * jnp.sum(c * c)


@linalg.full_precision
def _forward(kernel, X, y, noise):
    L, jitter = factor(kernel, X, noise)
    W = dense.inverse(L)
    c = W @ y
    value = _value(-jnp.sum(jnp.log(jnp.diagonal(W))), c)
    return (value, jitter), (kernel, X, y, W, W.T @ c, jitter)


@linalg.full_precision
def _backward(residuals, bars):
    kernel, X, y, W, x, jitter = residuals
    n, p = y.shape
    own = 0.5 * bars[0] * (jnp.sum(x * x, axis=1) - p * jnp.sum(W * W, axis=0))
    # Jitter is relative to the mean of the diagonal, so all of the diagonal shares what it receives.
    share = jitter * jnp.mean(own)
    kernel_bar, X_bar = jax.vjp(lambda kernel, X: kernel.diagonal(X), kernel, X)[1](jnp.full(n, share))
    for start, end in dense.parts(n, _WIDTH, _PARTS):
        # Rows from start to end, and the columns up to there: those before start stand for their mirror images too.
        weight = bars[0] * jnp.where(jnp.arange(end) < start, 1.0, 0.5)
        rows = jnp.arange(start, end)
        plan = chunks.plan(end - start, tiles.rows_at_a_time(n, X.dtype.itemsize))
        real = jnp.arange(plan.size * plan.number) < end - start

        def some(total, part, start=start, end=end, weight=weight):
            (at, x_at, own_at, X_at), here = part
            bar = x_at @ x[:end].T - p * W[start:, at].T @ W[start:, :end]
            bar, alone = jnp.where(here[:, None], weight * bar, 0.0), jnp.where(here, own_at, 0.0)
            *shared, X_at_bar = tiles.cotangents(kernel, X[:end], X_at, bar, alone)
            return jax.tree.map(jnp.add, total, shared), X_at_bar

        cut = chunks.cut((rows, x[start:end], own[start:end], X[start:end]), plan)
        total = [kernel_bar, jnp.zeros_like(X[:end])]
        (kernel_bar, before), after = chunks.scan(some, total, (cut, real.reshape(plan.number, -1)), plan)
        X_bar = X_bar.at[:end].add(before).at[start:end].add(after.reshape(-1, X.shape[1])[: end - start])
    return kernel_bar, X_bar, -bars[0] * x, own + share


log_density.defvjp(_forward, _backward)
