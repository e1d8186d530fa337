"""Kernels, and ``+`` and ``*`` between them."""

from tightgp.kernels.base import Constant, Kernel, Product, Sum, White
from tightgp.kernels.change import ChangePoint
from tightgp.kernels.deep import Deep
from tightgp.kernels.gradients import WithGradients
from tightgp.kernels.matern import Matern
from tightgp.kernels.polynomial import Linear, Polynomial
from tightgp.kernels.spectral import SpectralMixture
from tightgp.kernels.sphere import GreatCircle, OnSphere
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
    "ChangePoint",
    "Constant",
    "Deep",
    "GreatCircle",
    "Kernel",
    "Linear",
    "Matern",
    "Matern12",
    "Matern32",
    "Matern52",
    "OnSphere",
    "Periodic",
    "Polynomial",
    "Product",
    "RationalQuadratic",
    "SpectralMixture",
    "SquaredExponential",
    "Stationary",
    "Sum",
    "White",
    "WithGradients",
]
