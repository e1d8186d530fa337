"""An exact posterior that knows new rows, or only its last ones (maths 16.4): its factor grows at the end.

Rows of zeros at the end of the inverse factor are room for more, so that nearby numbers of rows share one program.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp.bounds.latents import Latents, Whitened
from tightgp.numerics import linalg
from tightgp.numerics.chunks import pad_rows, rounded_up
from tightgp.numerics.linalg import Whitener


def with_rows(latents: Latents, X: Float[Array, "n d"], y: Float[Array, "n l"], noise: Float[Array, "n 1"]) -> Latents:
    """An exact posterior with these rows too, padded so that nearby numbers of rows share one compiled program."""
    count = int(np.count_nonzero(np.diagonal(latents.whitener.inverse)))
    missing = rounded_up(count + len(X)) - len(latents.Z)
    if missing > 0:
        latents = _padded(latents, missing)
    return _written(latents, new_rows(latents, X, y, noise[:, 0]), jnp.asarray(count))


def _padded(latents: Latents, missing: int) -> Latents:
    """Room for so many rows: rows of zeros in the inverse factor say nothing."""
    Z = pad_rows(latents.Z, len(latents.Z) + missing)
    W = jnp.pad(latents.whitener.inverse, ((0, missing), (0, missing)))
    return Latents(
        latents.kernel, Z, Whitener(W), (Whitened(jnp.pad(latents.q[0].mean, ((0, missing), (0, 0))), None),)
    )


class NewRows(NamedTuple):
    """The last rows of a factor: inputs, what of the inverse factor belongs to earlier and to new rows, values of w."""

    X: Float[Array, "n d"]
    earlier: Float[Array, "n m"]
    own: Float[Array, "n n"]
    values: Float[Array, "n l"]


@eqx.filter_jit
@linalg.full_precision
def new_rows(latents: Latents, X, y, noise: Float[Array, " n"]) -> NewRows:
    """Rows of the inverse factor of ``K + Σ`` for new rows (maths 16.4); a row of infinite noise is not there."""
    here = jnp.isfinite(noise)
    a = jnp.where(here[:, None], latents.rows(X), 0.0)
    prior = latents.kernel(X)
    left = jnp.where(here[:, None] & here, prior - a @ a.T, 0.0) + jnp.diag(jnp.where(here, noise, 1.0))
    own = linalg.factorise(left, 0.0, jnp.mean(jnp.diagonal(prior))).inverse
    earlier = -own @ linalg.times_lower(a, latents.whitener.inverse)
    values = own @ (jnp.where(here[:, None], y, 0.0) - a @ latents.q[0].mean)
    return NewRows(X, earlier, jnp.where(here[:, None], own, 0.0), jnp.where(here[:, None], values, 0.0))


@eqx.filter_jit
def _written(latents: Latents, new: NewRows, count) -> Latents:
    """Latents with new rows after the first ``count``."""
    W = jax.lax.dynamic_update_slice(latents.whitener.inverse, new.earlier, (count, 0))
    W = jax.lax.dynamic_update_slice(W, new.own, (count, count))
    Z = jax.lax.dynamic_update_slice(latents.Z, new.X, (count, 0))
    mean = jax.lax.dynamic_update_slice(latents.q[0].mean, new.values, (count, 0))
    return Latents(latents.kernel, Z, Whitener(W), (Whitened(mean, None),))


def last(latents: Latents, window: int | None) -> Latents:
    """An exact posterior of the last ``window`` rows alone."""
    count = int(np.count_nonzero(np.diagonal(latents.whitener.inverse)))
    if window is None or count <= window:
        return latents
    kept = _of_last(latents, jnp.asarray(count), window)
    return _padded(kept, max(0, rounded_up(window) - window))


@eqx.filter_jit
@linalg.full_precision
def _of_last(latents: Latents, count, window: int) -> Latents:
    """The rows before are integrated out: their part of the covariance is left, and the factor is that of the rest."""
    W, (q,) = latents.whitener.inverse, latents.q
    missing = jnp.where(jnp.diagonal(W) == 0, 1.0, 0.0)
    L = linalg.inverse_lower(W + jnp.diag(missing))
    rows = jax.lax.dynamic_slice_in_dim(L, count - window, window)
    y = rows @ q.mean
    own = linalg.factorise(rows @ rows.T, 0.0).inverse
    Z = jax.lax.dynamic_slice_in_dim(latents.Z, count - window, window)
    return Latents(latents.kernel, Z, Whitener(own), (Whitened(own @ y, None),))
