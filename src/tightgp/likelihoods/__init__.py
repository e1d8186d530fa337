"""Likelihoods: the distribution of targets given the latent functions."""

from tightgp.likelihoods.base import Likelihood
from tightgp.likelihoods.binary import Bernoulli, Binomial
from tightgp.likelihoods.counts import NegativeBinomial, Poisson, ZeroInflated
from tightgp.likelihoods.fractions import Beta
from tightgp.likelihoods.multiclass import RobustMax, Softmax
from tightgp.likelihoods.ordinal import Ordinal
from tightgp.likelihoods.positive import Exponential, Gamma, LogNormal
from tightgp.likelihoods.real import Gaussian, HeteroscedasticGaussian, StudentT

__all__ = [
    "Bernoulli",
    "Beta",
    "Binomial",
    "Exponential",
    "Gamma",
    "Gaussian",
    "HeteroscedasticGaussian",
    "Likelihood",
    "LogNormal",
    "NegativeBinomial",
    "Ordinal",
    "Poisson",
    "RobustMax",
    "Softmax",
    "StudentT",
    "ZeroInflated",
]
