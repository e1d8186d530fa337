"""Replace rows with uncertain inputs by several rows with known ones, for likelihoods without closed forms."""

import jax
import jax.numpy as jnp

from tightgp.bounds.psi.moments import grid
from tightgp.data.rows import Rows

#: Antithetic pairs of draws for each row with more than one uncertain column.
_PAIRS = 8


def expanded(rows: Rows, key: jax.Array) -> Rows:
    """Replace each row by several with known inputs, whose weights add up to its own.

    One uncertain column has the nodes of a quadrature; more columns have draws by ``key``, which are unbiased.
    """
    uncertain = rows.input_variance
    if uncertain is None:
        return rows
    n, u = uncertain.variance.shape
    if u == 1:
        z, share = (jnp.asarray(a, rows.X.dtype) for a in grid(1))
    else:
        half = jax.random.normal(key, (n, _PAIRS, u), rows.X.dtype)
        z, share = jnp.concatenate([half, -half], axis=1), jnp.full(2 * _PAIRS, 0.5 / _PAIRS, rows.X.dtype)
    X = uncertain.nodes(rows.X, z).reshape(-1, rows.X.shape[1])
    rest = rows._replace(X=None, input_variance=None).map(lambda a: jnp.repeat(a, len(share), axis=0))
    return rest._replace(X=X, weight=rest.weight * jnp.tile(share, n))
