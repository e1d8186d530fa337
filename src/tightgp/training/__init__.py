"""Training: `fit`, its optimisers, its trace. Nothing here knows a Gaussian process."""

from tightgp.training.fit import fit
from tightgp.training.result import FitResult, StopReason

__all__ = ["FitResult", "StopReason", "fit"]
