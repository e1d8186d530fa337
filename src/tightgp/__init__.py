"""tightgp: sparse Gaussian processes with tight evidence bounds, on JAX.

Importing it takes a moment: each public name imports what it needs when it is first used.
"""

import importlib as _importlib
import importlib.util as _importlib_util
import os as _os
import sys as _sys
from typing import TYPE_CHECKING as _TYPE_CHECKING


class _DoublePrecision:
    """Switches JAX to 64-bit floats as soon as it is imported."""

    def find_spec(self, name, path=None, target=None):
        """JAX's module, with the switch at the end of its import."""
        if name != "jax":
            return None
        _sys.meta_path.remove(self)
        spec = _importlib_util.find_spec(name)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module):
                execute(module)
                module.config.update("jax_enable_x64", True)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if _os.environ.get("TIGHTGP_X64", "1") != "0":
    if "jax" in _sys.modules:
        _sys.modules["jax"].config.update("jax_enable_x64", True)
    else:
        _sys.meta_path.insert(0, _DoublePrecision())

if _TYPE_CHECKING:
    from tightgp import datasets, distributed, inducing, kernels, likelihoods, means, optimise, parameters, priors
    from tightgp.bounds.adapted import Certified
    from tightgp.bounds.evidence import EvidenceBracket
    from tightgp.bounds.structures import Block, Neighbours, PowerEP, Structure, Vecchia
    from tightgp.data import Batches, Dataset
    from tightgp.estimators import BayesianGPLVM, SparseGPClassifier, SparseGPCountRegressor, SparseGPRegressor
    from tightgp.exporting import export
    from tightgp.io.modelfile import load, save
    from tightgp.io.program import Program
    from tightgp.mcmc import log_density
    from tightgp.models import GPLVM, ODVGP, SGPR, SOLVEGP, SVGP, VGP, DeepGP, ExactGP, HiddenLayer
    from tightgp.numerics.linalg import NumericalError
    from tightgp.parameters import assign, freeze, named_parameters, unfreeze, with_priors
    from tightgp.placing import place
    from tightgp.posterior import AveragedPosterior, Posterior
    from tightgp.training import FitResult, StopReason, fit

__version__ = "0.1.0"

#: The public names of each module.
_NAMES = {
    "bounds.adapted": ("Certified",),
    "bounds.evidence": ("EvidenceBracket",),
    "bounds.structures": ("Block", "Neighbours", "PowerEP", "Structure", "Vecchia"),
    "data": ("Batches", "Dataset"),
    "estimators": ("BayesianGPLVM", "SparseGPClassifier", "SparseGPCountRegressor", "SparseGPRegressor"),
    "exporting": ("export",),
    "io.modelfile": ("load", "save"),
    "io.program": ("Program",),
    "mcmc": ("log_density",),
    "models": ("GPLVM", "ODVGP", "SGPR", "SOLVEGP", "SVGP", "VGP", "DeepGP", "ExactGP", "HiddenLayer"),
    "numerics.linalg": ("NumericalError",),
    "parameters": ("assign", "freeze", "named_parameters", "unfreeze", "with_priors"),
    "placing": ("place",),
    "posterior": ("AveragedPosterior", "Posterior"),
    "training": ("FitResult", "StopReason", "fit"),
}
_MODULES = (
    "datasets",
    "distributed",
    "inducing",
    "kernels",
    "likelihoods",
    "means",
    "optimise",
    "parameters",
    "priors",
)
_HOME = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [
    "GPLVM",
    "ODVGP",
    "SGPR",
    "SOLVEGP",
    "SVGP",
    "VGP",
    "AveragedPosterior",
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
    "Program",
    "SparseGPClassifier",
    "SparseGPCountRegressor",
    "SparseGPRegressor",
    "StopReason",
    "Structure",
    "Vecchia",
    "assign",
    "datasets",
    "distributed",
    "export",
    "fit",
    "freeze",
    "inducing",
    "kernels",
    "likelihoods",
    "load",
    "log_density",
    "means",
    "named_parameters",
    "optimise",
    "parameters",
    "place",
    "priors",
    "save",
    "unfreeze",
    "with_priors",
]


def __getattr__(name: str):
    """Import a public name when it is first used."""
    if name in _MODULES:
        return _importlib.import_module(f"tightgp.{name}")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(_importlib.import_module(f"tightgp.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
