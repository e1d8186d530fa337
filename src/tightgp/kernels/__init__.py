"""Kernels, and ``+`` and ``*`` between them."""

from tightgp.kernels.base import Kernel
from tightgp.kernels.composition import Product, Sum
from tightgp.kernels.nonstationary import Constant, Linear, Polynomial, White
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
