"""Models: fields, objective, posterior; the algebra is elsewhere."""

from tightgp.models.base import Model
from tightgp.models.exact import ExactGP
from tightgp.models.sgpr import SGPR
from tightgp.models.svgp import SVGP
from tightgp.models.variants import ODVGP, SOLVEGP, VGP

__all__ = ["ODVGP", "SGPR", "SOLVEGP", "SVGP", "VGP", "ExactGP", "Model"]
