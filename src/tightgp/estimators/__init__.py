"""Estimators for scikit-learn: tables in, predictions with their uncertainty out."""

from tightgp.estimators.classification import SparseGPClassifier
from tightgp.estimators.counts import SparseGPCountRegressor
from tightgp.estimators.gplvm import BayesianGPLVM
from tightgp.estimators.regression import SparseGPRegressor

__all__ = ["BayesianGPLVM", "SparseGPClassifier", "SparseGPCountRegressor", "SparseGPRegressor"]
