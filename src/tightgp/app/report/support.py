"""Where there are training rows: far from all of them, predictions are not to be relied on."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from tightgp.inducing import kmeans

_POINTS = 120


@dataclass(frozen=True, eq=False)
class Support:
    """Points (S, D) among the features of training rows, and how far from the nearest of them rows may be."""

    points: np.ndarray
    radius: float

    @classmethod
    def of(cls, features: np.ndarray) -> "Support":
        """The support of features (n, D), of which all but one in a hundred are clearly within the radius."""
        points = clusters(features, _POINTS)
        nearest = cdist(features, points).min(axis=1)
        return cls(points, float(1.1 * np.quantile(nearest, 0.99) + 1e-6))

    def holds(self, features: np.ndarray) -> np.ndarray:
        """Whether there are training rows near features (n, D)."""
        return cdist(features, self.points).min(axis=1) <= self.radius


def clusters(features: np.ndarray, count: int) -> np.ndarray:
    """Centres of at most ``count`` clusters of features (n, D)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fewer distinct rows need fewer centres
        return kmeans(features, min(count, len(features)), max_iter=10)


def inverse_lengthscales(estimator: Any) -> np.ndarray:
    """One over the lengthscale of each feature, by the kernel or else by the relevance of its column; or ones."""
    owners = estimator.encoding_.feature_columns
    kernel: Any = getattr(estimator.model_, "kernel", None)
    if hasattr(kernel, "length_scales"):
        inverse = 1 / np.asarray(kernel.length_scales(len(owners)))
    else:
        relevance = estimator.relevance_ or {}
        inverse = np.array([relevance.get(estimator.encoding_.columns[i].name, 0.0) for i in owners])
    return inverse if np.any(inverse > 0) else np.ones(len(owners))
