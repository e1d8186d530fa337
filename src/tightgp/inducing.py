"""Where to put the inducing points: k-means, greedy conditional variance, a random subset.

Every function gives the same points again for the same seed. Where ``X`` has fewer distinct rows than points
are wanted, the distinct rows are the answer (equal inducing points add nothing), with a warning.
"""

import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from sklearn.cluster import KMeans

from tightgp import checks, linalg, parameters
from tightgp.kernels import Kernel


def subset(X, num_inducing: int, seed: int = 0) -> np.ndarray:
    """``num_inducing`` distinct rows of ``X``, at random."""
    X = np.asarray(checks.matrix("X", X))
    _check_count(num_inducing, X)
    rows = _distinct(X, np.random.default_rng(seed).permutation(len(X)), num_inducing)
    return _enough(X[rows], num_inducing)


def kmeans(X, num_inducing: int, seed: int = 0, max_iter: int = 30) -> np.ndarray:
    """Centres of k-means, started at a random subset of rows, at most ``max_iter`` iterations (as in the paper)."""
    X = np.asarray(checks.matrix("X", X))
    start = subset(X, num_inducing, seed)
    if len(start) < num_inducing:
        return start
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the iteration limit is meant
        fitted = KMeans(len(start), init=start, n_init=1, max_iter=max_iter).fit(X)
    return fitted.cluster_centers_.astype(X.dtype)


def greedy_variance(
    X, num_inducing: int, kernel: Kernel, seed: int = 0, max_candidates: int | None = 20_000
) -> np.ndarray:
    """Rows of ``X`` chosen one by one where the prior variance given those already chosen is largest.

    It depends on the kernel's current lengthscales. Memory is O(candidates·M): of more rows than
    ``max_candidates`` a random subset is considered (None considers all).
    """
    X = np.asarray(checks.matrix("X", X))
    _check_count(num_inducing, X)
    if max_candidates is not None and len(X) > max_candidates:
        keep = np.random.default_rng(seed).permutation(len(X))[: max(max_candidates, num_inducing)]
        X = X[np.sort(keep)]
    X, kernel = X[np.sort(np.unique(X, axis=0, return_index=True)[1])], parameters.cast(kernel, X.dtype)
    chosen, variances = _pivots(kernel, jnp.asarray(X), min(int(num_inducing), len(X)))
    prior = float(jnp.max(kernel.diagonal(jnp.asarray(X))))
    told = np.asarray(variances) > prior * len(X) * np.finfo(X.dtype).eps
    return _enough(X[np.asarray(chosen)[told]], num_inducing)


@eqx.filter_jit
@linalg.full_precision
def _pivots(kernel: Kernel, X, m: int):
    """Pivoted Cholesky: the pivots, and the conditional variance that each one had when it was chosen."""
    n = X.shape[0]

    def step(i, state):
        G, d, chosen, variances = state
        j = jnp.argmax(d)
        row = kernel(X[j][None], X)[0] - G[:, j] @ G
        row = row.at[j].set(d[j]) * jax.lax.rsqrt(jnp.maximum(d[j], jnp.finfo(X.dtype).tiny))
        variances, chosen = variances.at[i].set(d[j]), chosen.at[i].set(j)
        d = jnp.maximum(d - row * row, 0.0).at[j].set(-1.0)
        return G.at[i].set(jnp.where(variances[i] > 0, row, 0.0)), d, chosen, variances

    start = (jnp.zeros((m, n), X.dtype), kernel.diagonal(X), jnp.zeros(m, int), jnp.zeros(m, X.dtype))
    _, _, chosen, variances = jax.lax.fori_loop(0, m, step, start)
    return chosen, variances


def _check_count(num_inducing, X):
    checks.count("num_inducing", num_inducing, len(X), "the rows of X")


def _distinct(X, order, wanted: int) -> np.ndarray:
    """The first ``wanted`` rows in ``order`` that differ from each other, looking no further than needed."""
    looked_at = wanted
    while True:
        _, first = np.unique(X[order[:looked_at]], axis=0, return_index=True)
        if len(first) >= wanted or looked_at == len(X):
            return order[np.sort(first)[:wanted]]
        looked_at = min(2 * looked_at, len(X))


def _enough(Z, wanted: int) -> np.ndarray:
    if len(Z) < wanted:
        warnings.warn(f"only {len(Z)} of {wanted} inducing points are distinct; using these {len(Z)}", stacklevel=3)
    return Z
