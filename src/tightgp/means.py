"""Mean functions."""

import abc

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp.parameters import Parameter, reader, real


class Mean(eqx.Module):
    """A prior mean ``m(x)``, one number or one for each of P outputs."""

    @abc.abstractmethod
    def __call__(self, X: Float[Array, "n d"]) -> Float[Array, "n p"]:
        """The mean at each row; one column stands for every output."""


class Zero(Mean):
    """``m(x) = 0``."""

    def __call__(self, X):
        return jnp.zeros((X.shape[0], 1), X.dtype)


class Constant(Mean):
    """``m(x) = c``, with one level or one for each output."""

    _level: Parameter
    level = reader("_level", "The constant c.")

    def __init__(self, level=0.0):
        self._level = real(level, name="level")
        if self._level.raw.ndim > 1:
            raise ValueError(f"level must be one number or have shape (P,), got {self._level.raw.shape}")

    def __call__(self, X):
        level = jnp.atleast_1d(self.level)
        return jnp.broadcast_to(level, (X.shape[0], level.shape[0]))


class Linear(Mean):
    """``m(x) = slopeᵀx + intercept``, with slopes (D,) or (D, P)."""

    _slope: Parameter
    _intercept: Parameter
    slope = reader("_slope", "Slopes, one for each input (and output).")
    intercept = reader("_intercept", "Intercept, one number or one for each output.")

    def __init__(self, slope, intercept=0.0):
        self._slope = real(slope, name="slope")
        self._intercept = real(intercept, name="intercept")
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
