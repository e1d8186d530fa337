"""Models: fields, objective, posterior; the algebra is elsewhere."""

from tightgp.models.base import Model
from tightgp.models.deep import DeepGP
from tightgp.models.exact import ExactGP
from tightgp.models.gplvm import GPLVM
from tightgp.models.hidden import HiddenLayer
from tightgp.models.sgpr import SGPR
from tightgp.models.svgp import SVGP
from tightgp.models.variants import ODVGP, SOLVEGP, VGP

__all__ = ["GPLVM", "ODVGP", "SGPR", "SOLVEGP", "SVGP", "VGP", "DeepGP", "ExactGP", "HiddenLayer", "Model"]
