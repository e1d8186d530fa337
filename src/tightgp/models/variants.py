"""Special cases of SVGP by their own names."""

from tightgp.kernels import Kernel
from tightgp.likelihoods.base import Likelihood
from tightgp.models.svgp import SVGP
from tightgp.parameters import freeze


def SOLVEGP(kernel: Kernel, likelihood: Likelihood, Z, orthogonal, bound=None, **options) -> SVGP:
    """SOLVE-GP (Shi, Titsias & Mnih 2020): a second set of inducing inputs with a Gaussian of its own (maths §6).

    It is ``SVGP(..., orthogonal=orthogonal)``, with every bound that SVGP has.
    """
    return SVGP(kernel, likelihood, Z, bound, orthogonal=orthogonal, **options)


def ODVGP(kernel: Kernel, likelihood: Likelihood, Z, orthogonal, bound=None, **options) -> SVGP:
    """Orthogonally decoupled GP (Salimbeni et al. 2018): the second set moves the mean only (maths §6)."""
    return SVGP(kernel, likelihood, Z, bound, orthogonal=orthogonal, orthogonal_covariance="fixed", **options)


def VGP(kernel: Kernel, likelihood: Likelihood, X, **options) -> SVGP:
    """The full variational GP: inducing inputs at the data and held there (maths 5.5). O(N³)."""
    return freeze(SVGP(kernel, likelihood, X, "standard", **options), "Z*")
