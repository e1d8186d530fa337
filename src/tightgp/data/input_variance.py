"""Uncertain inputs: each is Gaussian about the value in the data, independently of the others."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp import checks

AnyArray = Array | np.ndarray


def checked_variance(value, X: Float[AnyArray, "n d"]) -> AnyArray:
    """Check variances of inputs ``X``: one number, (d,) for the columns, or (n, d)."""
    variance = checks.not_negative("input_variance", value, X.dtype)
    if variance.shape not in ((), X.shape[1:], X.shape):
        raise ValueError(
            f"input_variance must be one number, or have shape {X.shape[1:]} (one a column of X) or {X.shape}; "
            f"got {variance.shape}"
        )
    checks.same_dtype("input_variance", variance, "X", X)
    return variance


class InputVariance(eqx.Module):
    """Variances (n, u) of the u uncertain input columns; all other columns are known."""

    variance: Float[AnyArray, "n u"]
    columns: tuple[int, ...] = eqx.field(static=True)

    @classmethod
    def of(cls, variance: AnyArray) -> "InputVariance | None":
        """From variances (n, d) of all columns; None where all are zero."""
        if isinstance(variance, jax.core.Tracer):
            return cls(variance, tuple(range(variance.shape[1])))
        columns = tuple(int(i) for i in np.flatnonzero(np.any(np.asarray(variance) > 0, axis=0)))
        if not columns:
            return None
        return cls(variance if len(columns) == variance.shape[1] else variance[:, columns], columns)

    def full(self, num_inputs: int) -> Float[AnyArray, "n d"]:
        """Variances (n, d) of all columns, zero for known ones."""
        if len(self.columns) == num_inputs:
            return self.variance
        zero = jnp.zeros((len(self.variance), num_inputs), self.variance.dtype)
        return zero.at[:, jnp.asarray(self.columns)].set(self.variance)

    def nodes(self, X: Float[AnyArray, "n d"], z: Float[AnyArray, "k u"]) -> Float[AnyArray, "n k d"]:
        """Inputs ``x + √s·z`` for each row and each of ``z``."""
        positive = self.variance > 0  # the root of zero has no derivative
        root = jnp.where(positive, jnp.sqrt(jnp.where(positive, self.variance, 1.0)), 0.0)
        shift = root[:, None, :] * z
        if len(self.columns) == X.shape[1]:
            return X[:, None, :] + shift
        wide = jnp.broadcast_to(X[:, None, :], (len(X), len(z), X.shape[1]))
        return wide.at[:, :, jnp.asarray(self.columns)].add(shift)
