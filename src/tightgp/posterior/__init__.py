"""Posteriors: what a trained model predicts."""

from tightgp.posterior.averaged import AveragedPosterior
from tightgp.posterior.deep import DeepPosterior
from tightgp.posterior.posterior import Posterior

__all__ = ["AveragedPosterior", "DeepPosterior", "Posterior"]
