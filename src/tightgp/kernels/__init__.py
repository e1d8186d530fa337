"""Kernels, and ``+`` and ``*`` between them."""

from tightgp.kernels.base import Constant, Kernel, Product, Sum, White
from tightgp.kernels.polynomial import Linear, Polynomial
from tightgp.kernels.stationary import (
    Matern12,
    Matern32,
    Matern52,
    Periodic,
    RationalQuadratic,
    SquaredExponential,
    Stationary,
)

__all__ = [
    "Constant",
    "Kernel",
    "Linear",
    "Matern12",
    "Matern32",
    "Matern52",
    "Periodic",
    "Polynomial",
    "Product",
    "RationalQuadratic",
    "SquaredExponential",
    "Stationary",
    "Sum",
    "White",
]
