"""Models: fields, objective, posterior; the algebra is elsewhere."""

from tightgp.models.base import Model
from tightgp.models.exact import ExactGP
from tightgp.models.sgpr import SGPR

__all__ = ["SGPR", "ExactGP", "Model"]
