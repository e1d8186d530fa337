"""Choose inducing inputs: k-means, greedy conditional variance, or a random subset.

Every function returns the same points for the same seed. If ``X`` has fewer distinct rows than ``num_inducing``, it
returns the distinct rows with a warning, because equal inducing points add nothing.
"""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from tightgp import checks, parameters
from tightgp.kernels import Kernel
from tightgp.numerics import linalg
from tightgp.numerics.linalg import Whitener

#: A conditional variance below so many times the jitter counts as zero.
_ZERO_VARIANCE = 10.0


def subset(X, num_inducing: int, seed: int = 0) -> np.ndarray:
    """Draw ``num_inducing`` distinct rows of ``X`` (N, D) at random.

    >>> tgp.inducing.subset(X, 5, seed=0).shape
    (5, 2)
    """
    X = np.asarray(checks.matrix("X", X))
    checks.count("num_inducing", num_inducing, len(X), "the rows of X")
    rows = _first_distinct(X, np.random.default_rng(seed).permutation(len(X)), num_inducing)
    return _warn_if_fewer(X[rows], num_inducing)


def kmeans(X, num_inducing: int, seed: int = 0, max_iter: int = 30) -> np.ndarray:
    """The ``num_inducing`` centres of k-means on ``X`` (N, D), started at a random subset of rows as in the paper.

    >>> tgp.inducing.kmeans(X, 5, seed=0).shape
    (5, 2)
    """
    X = np.asarray(checks.matrix("X", X))
    start = subset(X, num_inducing, seed)
    if len(start) < num_inducing:
        return start
    from sklearn.cluster import KMeans  # its import takes most of a second

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the iteration limit is intended
        fitted = KMeans(len(start), init=start, n_init=1, max_iter=max_iter).fit(X)
    return fitted.cluster_centers_.astype(X.dtype)


def greedy_variance(
    X, num_inducing: int, kernel: Kernel, seed: int = 0, max_candidates: int | None = 20_000, given=None
) -> np.ndarray:
    """Choose rows of ``X`` one by one, each with the largest prior variance given those already chosen.

    The result depends on the kernel's lengthscales. Memory is O(candidates·M).

    Args:
        X: candidate rows (N, D).
        num_inducing: number of rows to choose.
        kernel: the kernel of the prior.
        seed: decides the candidates, if ``X`` has more rows than ``max_candidates``.
        max_candidates: number of candidates, a random subset of ``X``; None considers all rows.
        given: inducing points (M, D) chosen before. If hardly any variance is left given them, no row is chosen.

    >>> Z = tgp.inducing.greedy_variance(X, 3, tgp.kernels.Matern32())
    >>> tgp.inducing.greedy_variance(X, 2, tgp.kernels.Matern32(), given=Z).shape
    (2, 2)
    """
    X = np.asarray(checks.matrix("X", X))
    checks.count("num_inducing", num_inducing, len(X), "the rows of X")
    if max_candidates is not None and len(X) > max_candidates:
        candidates = np.random.default_rng(seed).permutation(len(X))[: max(max_candidates, num_inducing)]
        X = X[np.sort(candidates)]
    X, kernel = X[np.sort(np.unique(X, axis=0, return_index=True)[1])], parameters.cast(kernel, X.dtype)
    rows = jnp.asarray(X)
    A = jnp.zeros((len(X), 0), X.dtype) if given is None else _whitened(kernel, jnp.asarray(given, X.dtype), rows)
    pivots, variances = map(np.asarray, _pivoted_cholesky(kernel, rows, A, min(int(num_inducing), len(X))))
    prior = float(jnp.max(kernel.diagonal(rows)))
    least = 0.0 if given is None else _ZERO_VARIANCE * linalg.default_jitter(X.dtype) * prior
    chosen = (variances > prior * len(X) * np.finfo(X.dtype).eps) & (variances[0] > least)
    return _warn_if_fewer(X[pivots[chosen]], num_inducing)


@eqx.filter_jit
@linalg.full_precision
def _whitened(kernel: Kernel, Z, X):
    """``k(X, Z) L⁻ᵀ`` (n, m) with ``k(Z, Z) = L Lᵀ``."""
    factor = linalg.factorise(kernel(Z), linalg.default_jitter(X.dtype))
    return linalg.whiten(kernel(X, Z), Whitener(factor.inverse))


@eqx.filter_jit
@linalg.full_precision
def _pivoted_cholesky(kernel: Kernel, X, A, m: int):
    """The first ``m`` pivots of the Cholesky factor of ``k(X, X) − AAᵀ``, and the variance of each when chosen."""
    n = X.shape[0]

    def step(i, state):
        G, d, pivots, variances = state
        j = jnp.argmax(d)
        row = kernel(X[j][None], X)[0] - A @ A[j] - G[:, j] @ G
        row = row.at[j].set(d[j]) * jax.lax.rsqrt(jnp.maximum(d[j], jnp.finfo(X.dtype).tiny))
        variances, pivots = variances.at[i].set(d[j]), pivots.at[i].set(j)
        d = jnp.maximum(d - row * row, 0.0).at[j].set(-1.0)
        return G.at[i].set(jnp.where(variances[i] > 0, row, 0.0)), d, pivots, variances

    diagonal = jnp.maximum(kernel.diagonal(X) - jnp.sum(A * A, axis=1), 0.0)
    start = (jnp.zeros((m, n), X.dtype), diagonal, jnp.zeros(m, int), jnp.zeros(m, X.dtype))
    _, _, pivots, variances = jax.lax.fori_loop(0, m, step, start)
    return pivots, variances


def _first_distinct(X, order, count: int) -> np.ndarray:
    """The first ``count`` entries of ``order`` whose rows differ, found without sorting all rows if possible."""
    searched = count
    while True:
        _, first = np.unique(X[order[:searched]], axis=0, return_index=True)
        if len(first) >= count or searched == len(X):
            return order[np.sort(first)[:count]]
        searched = min(2 * searched, len(X))


def _warn_if_fewer(Z, count: int) -> np.ndarray:
    if len(Z) < count:
        warnings.warn(f"only {len(Z)} of {count} inducing points are distinct; using these {len(Z)}", stacklevel=3)
    return Z
