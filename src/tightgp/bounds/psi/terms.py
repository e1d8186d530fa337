"""Kernels as sums of terms whose averages have closed forms: Gaussian bumps, linear, white noise (maths 7.2)."""

from functools import reduce
from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp.kernels import Constant, Kernel, Linear, Product, SquaredExponential, Sum, White


class Bump(NamedTuple):
    """``variance · exp(−½ Σ_d precision_d (x_d − x'_d)²)``; a constant if all precisions are zero."""

    variance: Float[Array, ""]
    precision: Float[Array, " d"]


class Terms(NamedTuple):
    """Bumps, the variances of slopes (None if there is no linear term), and the variance of white noise."""

    bumps: tuple[Bump, ...]
    slopes: Float[Array, " d"] | None
    white: Float[Array, ""]


def terms(kernel: Kernel, num_inputs: int) -> Terms | None:
    """``kernel`` as a sum of such terms; None if it is not one."""
    zero = jnp.zeros(())
    if type(kernel) is Sum:
        parts = [part for part in (terms(part, num_inputs) for part in kernel.parts) if part is not None]
        if len(parts) < len(kernel.parts):
            return None
        bumps = tuple(bump for part in parts for bump in part.bumps)
        slopes = [part.slopes for part in parts if part.slopes is not None]
        return Terms(bumps, sum(slopes[1:], slopes[0]) if slopes else None, sum((part.white for part in parts), zero))
    if type(kernel) is Linear:
        return Terms((), kernel.over_all_inputs(kernel.variance, num_inputs, 0.0), zero)
    if type(kernel) is White:
        return Terms((), None, kernel.variance)
    bump = _bump(kernel, num_inputs)
    return None if bump is None else Terms((bump,), None, zero)


def _bump(kernel: Kernel, num_inputs: int) -> Bump | None:
    if type(kernel) is SquaredExponential:
        return Bump(kernel.variance, kernel.over_all_inputs(kernel.lengthscale**-2.0, num_inputs, 0.0))
    if type(kernel) is Constant:
        return Bump(kernel.variance, jnp.zeros(num_inputs, kernel.variance.dtype))
    if type(kernel) is Product:
        bumps = [bump for bump in (_bump(part, num_inputs) for part in kernel.parts) if bump is not None]
        if len(bumps) < len(kernel.parts):
            return None
        return reduce(lambda one, two: Bump(one.variance * two.variance, one.precision + two.precision), bumps)
    return None
