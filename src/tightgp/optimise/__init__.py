"""Bayesian optimisation: the next point to try, from what was seen so far.

`Optimiser` asks and is told, `minimise` does both; `tightgp.optimise.botorch` is for loops in BoTorch.
"""

from tightgp.optimise.loop import Result, minimise
from tightgp.optimise.optimiser import Optimiser
from tightgp.optimise.space import Integer, Real

__all__ = ["Integer", "Optimiser", "Real", "Result", "minimise"]
