"""tightgp: sparse Gaussian processes with tight evidence bounds, on JAX."""

import os as _os
from typing import TYPE_CHECKING as _TYPE_CHECKING

import jax as _jax

if _os.environ.get("TIGHTGP_X64", "1") != "0":
    _jax.config.update("jax_enable_x64", True)

from tightgp import datasets, distributed, inducing, kernels, likelihoods, means, parameters, priors
from tightgp.bounds.adapted import Certified
from tightgp.bounds.evidence import EvidenceBracket
from tightgp.bounds.structures import Block, Neighbours, PowerEP, Structure, Vecchia
from tightgp.data import Batches, Dataset
from tightgp.io.modelfile import load, save
from tightgp.models import GPLVM, ODVGP, SGPR, SOLVEGP, SVGP, VGP, DeepGP, ExactGP, HiddenLayer
from tightgp.numerics.linalg import NumericalError
from tightgp.parameters import assign, freeze, named_parameters, unfreeze, with_priors
from tightgp.placing import place
from tightgp.posterior import Posterior
from tightgp.training import FitResult, StopReason, fit

if _TYPE_CHECKING:
    from tightgp.estimators import BayesianGPLVM, SparseGPClassifier, SparseGPCountRegressor, SparseGPRegressor

__version__ = "0.1.0"

__all__ = [
    "GPLVM",
    "ODVGP",
    "SGPR",
    "SOLVEGP",
    "SVGP",
    "VGP",
    "Batches",
    "BayesianGPLVM",
    "Block",
    "Certified",
    "Dataset",
    "DeepGP",
    "EvidenceBracket",
    "ExactGP",
    "FitResult",
    "HiddenLayer",
    "Neighbours",
    "NumericalError",
    "Posterior",
    "PowerEP",
    "SparseGPClassifier",
    "SparseGPCountRegressor",
    "SparseGPRegressor",
    "StopReason",
    "Structure",
    "Vecchia",
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
    "place",
    "priors",
    "save",
    "unfreeze",
    "with_priors",
]


def __getattr__(name: str):
    """Import the estimators when one is first used: pandas and scikit-learn take a second to import."""
    if name in ("BayesianGPLVM", "SparseGPClassifier", "SparseGPCountRegressor", "SparseGPRegressor"):
        from tightgp import estimators

        return getattr(estimators, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
