"""Rows with uncertain inputs as more rows with known ones, where a likelihood has no averages in closed form."""

import jax
import jax.numpy as jnp

from tightgp.data import Batch
from tightgp.psi.moments import grid

#: Draws for each row and their mirror images, where more than one column is uncertain.
_PAIRS = 8


def expanded(batch: Batch) -> Batch:
    """``batch`` with each row at several inputs instead of an uncertain one, their weights adding up to its own.

    One uncertain column has the nodes of a quadrature; more have draws by the batch's key, which are unbiased.
    """
    spread = batch.spread
    if spread is None:
        return batch
    n, u = spread.variance.shape
    if u == 1:
        z, share = (jnp.asarray(a, batch.X.dtype) for a in grid(1))
    else:
        half = jax.random.normal(jax.random.fold_in(batch.key, 1), (n, _PAIRS, u), batch.X.dtype)
        z, share = jnp.concatenate([half, -half], axis=1), jnp.full(2 * _PAIRS, 0.5 / _PAIRS, batch.X.dtype)
    X = spread.nodes(batch.X, z).reshape(-1, batch.X.shape[1])
    rest = batch._replace(X=None, spread=None).each(lambda a: jnp.repeat(a, len(share), axis=0))
    return rest._replace(X=X, weight=rest.weight * jnp.tile(share, n))
