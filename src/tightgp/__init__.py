"""tightgp: sparse Gaussian processes with tight evidence bounds, on JAX."""

import os as _os

import jax as _jax

if _os.environ.get("TIGHTGP_X64", "1") != "0":
    _jax.config.update("jax_enable_x64", True)

from tightgp import datasets, distributed, inducing, kernels, likelihoods, means, parameters, priors
from tightgp.conditionals import Block, Conditional, PowerEP
from tightgp.data import Batches, Dataset
from tightgp.diagnosis import NumericalError
from tightgp.estimators import SparseGPClassifier, SparseGPCountRegressor, SparseGPRegressor
from tightgp.evidence import EvidenceBracket
from tightgp.modelfile import load, save
from tightgp.models import ODVGP, SGPR, SOLVEGP, SVGP, VGP, ExactGP
from tightgp.parameters import assign, freeze, named_parameters, unfreeze, with_priors
from tightgp.posterior import Posterior
from tightgp.training import FitResult, fit

__version__ = "0.1.0"

__all__ = [
    "ODVGP",
    "SGPR",
    "SOLVEGP",
    "SVGP",
    "VGP",
    "Batches",
    "Block",
    "Conditional",
    "Dataset",
    "EvidenceBracket",
    "ExactGP",
    "FitResult",
    "NumericalError",
    "Posterior",
    "PowerEP",
    "SparseGPClassifier",
    "SparseGPCountRegressor",
    "SparseGPRegressor",
    "assign",
    "datasets",
    "distributed",
    "fit",
    "freeze",
    "inducing",
    "kernels",
    "likelihoods",
    "load",
    "means",
    "named_parameters",
    "parameters",
    "priors",
    "save",
    "unfreeze",
    "with_priors",
]
