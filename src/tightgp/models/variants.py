"""Special cases of SVGP under their own names."""

from tightgp.kernels import Kernel
from tightgp.likelihoods.base import Likelihood
from tightgp.models.svgp import SVGP
from tightgp.parameters import freeze


def SOLVEGP(kernel: Kernel, likelihood: Likelihood, Z, orthogonal, bound=None, **options) -> SVGP:
    """SOLVE-GP (Shi, Titsias & Mnih 2020): a second set of inducing inputs with its own Gaussian (maths §6).

    The same as ``SVGP(..., orthogonal=orthogonal)``; all bounds of `SVGP` are available.

    >>> model = tgp.SOLVEGP(tgp.kernels.Matern32(), tgp.likelihoods.Gaussian(), X[:10], X[10:15])
    >>> model.orthogonal.shape
    (5, 2)
    """
    return SVGP(kernel, likelihood, Z, bound, orthogonal=orthogonal, **options)


def ODVGP(kernel: Kernel, likelihood: Likelihood, Z, orthogonal, bound=None, **options) -> SVGP:
    """Orthogonally decoupled GP (Salimbeni et al. 2018): the second set changes the mean only (maths §6).

    >>> model = tgp.ODVGP(tgp.kernels.Matern32(), tgp.likelihoods.Gaussian(), X[:10], X[10:15])
    >>> tgp.named_parameters(model)["q_orthogonal.root"].frozen
    True
    """
    return SVGP(kernel, likelihood, Z, bound, orthogonal=orthogonal, orthogonal_covariance="fixed", **options)


def VGP(kernel: Kernel, likelihood: Likelihood, X, **options) -> SVGP:
    """The full variational GP: inducing inputs fixed at the data ``X`` (maths 5.5). O(N³).

    >>> model = tgp.VGP(tgp.kernels.Matern32(), tgp.likelihoods.Bernoulli(), X)
    >>> model.Z.shape
    (60, 2)
    """
    return freeze(SVGP(kernel, likelihood, X, "standard", **options), "Z*")
