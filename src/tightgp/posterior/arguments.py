"""Checks of what predictions are asked for, shared by all posteriors."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp import checks
from tightgp.likelihoods import Likelihood

#: Joint covariances and samples need a matrix of test points by test points.
_MAX_JOINT = 20_000


def check_inputs(X, Z: Float[Array, "m d"]) -> Float[Array, "n d"]:
    """Test inputs (n, d) for a model with inducing inputs ``Z``."""
    X = checks.matrix("X", X, Z.shape[1], Z.dtype)
    checks.same_dtype("X", X, "the model", Z)
    return jnp.asarray(X)


def check_targets(y, shape: tuple[int, ...], likelihood: Likelihood, dtype, missing: bool) -> Float[Array, "n p"]:
    """Targets of the predictions' ``shape``, as (n, p)."""
    y = checks.floats("y", y, dtype)
    (checks.not_infinite if missing else checks.finite)("y", y)
    if y.shape != shape:
        raise ValueError(f"y must have shape {shape}, like the predictions at X; got {y.shape}")
    y = y[:, None] if y.ndim == 1 else y
    if not isinstance(y, jax.core.Tracer):
        likelihood.check_targets(y)
    return jnp.asarray(y)


def check_joint_size(what: str, X: Float[Array, "n d"]) -> None:
    """Refuse joint answers about too many rows."""
    if X.shape[0] > _MAX_JOINT:
        raise ValueError(f"{what} makes an n×n matrix; X has {X.shape[0]} rows, use at most {_MAX_JOINT}")


def known_noise(noise_variance, X: Float[Array, "n d"]) -> Float[Array, " n"] | None:
    """The known noise variance of each test row; None where there is none."""
    if noise_variance is None:
        return None
    extra = checks.not_negative("noise_variance", noise_variance, X.dtype)
    if extra.shape not in ((), (len(X),)):
        raise ValueError(f"noise_variance must be one number or have shape ({len(X)},), got {extra.shape}")
    return jnp.broadcast_to(jnp.asarray(extra, X.dtype), (len(X),))


def with_noise(likelihood: Likelihood, known: Float[Array, " n"] | None) -> Likelihood:
    """The likelihood of rows with this known part of their noise."""
    return likelihood if known is None else likelihood.with_known(known)


def without_columns(values, vector: bool):
    """Drop the axis of outputs where targets were (N,) and there is one output."""
    return values[..., 0] if vector and values.shape[-1] == 1 else values
