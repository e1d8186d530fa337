"""Mean functions."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp.parameters import Parameter, check_per_output, reader, real


class Mean(eqx.Module):
    """A prior mean ``m(x)``, one number or one for each of P outputs."""

    @abc.abstractmethod
    def __call__(self, X: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """``m(x)`` for each row; a single column applies to every output."""


class Zero(Mean):
    """``m(x) = 0``.

    >>> tgp.means.Zero()(X).shape
    (60, 1)
    """

    def __call__(self, X):
        return jnp.zeros((X.shape[0], 1), X.dtype)


class Constant(Mean):
    """``m(x) = c``.

    Args:
        level: the constant c, one number or one for each output.

    >>> tgp.means.Constant([1.0, 2.0])(X[:1])
    Array([[1., 2.]], dtype=float64)
    """

    _level: Parameter
    level = reader("_level", "The constant c.")

    def __init__(self, level=0.0):
        self._level = check_per_output("level", real(level, name="level"))

    def __call__(self, X):
        level = jnp.atleast_1d(self.level)
        return jnp.broadcast_to(level, (X.shape[0], level.shape[0]))


class Linear(Mean):
    """``m(x) = slopeᵀx + intercept``.

    Args:
        slope: the slopes, of shape (D,) or (D, P).
        intercept: the intercept, one number or one for each output.

    >>> tgp.means.Linear([1.0, -1.0], intercept=0.5)(np.array([[3.0, 1.0]]))
    Array([[2.5]], dtype=float64)
    """

    _slope: Parameter
    _intercept: Parameter
    slope = reader("_slope", "Slopes, one for each input (and output).")
    intercept = reader("_intercept", "Intercept, one number or one for each output.")

    def __init__(self, slope, intercept=0.0):
        self._slope = real(slope, name="slope")
        self._intercept = check_per_output("intercept", real(intercept, name="intercept"))
        if self._slope.raw.ndim not in (1, 2):
            raise ValueError(f"slope must have shape (D,) or (D, P), got {self._slope.raw.shape}")

    def __call__(self, X):
        slope = self.slope if self.slope.ndim == 2 else self.slope[:, None]
        if slope.shape[0] != X.shape[1]:
            raise ValueError(f"slope has {slope.shape[0]} rows but X has {X.shape[1]} column(s)")
        intercept = jnp.atleast_1d(self.intercept)
        if slope.shape[1] > 1 and intercept.shape[0] not in (1, slope.shape[1]):
            raise ValueError(f"intercept has shape {self.intercept.shape} but slope gives {slope.shape[1]} outputs")
        return X @ slope + intercept
