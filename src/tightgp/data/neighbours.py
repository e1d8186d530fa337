"""The nearest training rows of new inputs, found exactly by a tree."""

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from tightgp.data.partition import metric_of


class NeighbourSearch(NamedTuple):
    """A tree over rows whose inputs are divided by ``metric`` (d,)."""

    tree: cKDTree
    metric: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, lengthscales) -> "NeighbourSearch":
        """Build the tree over rows ``X`` (n, d), in units of the lengthscales (d,)."""
        metric = metric_of(X, [lengthscales])
        return cls(cKDTree(np.asarray(X, np.float64) / metric), metric)

    def nearest(self, X: np.ndarray, count: int) -> np.ndarray:
        """The numbers (n, count) of the rows nearest to each of ``X``; all rows where there are fewer."""
        wanted = np.arange(1, min(count, self.tree.n) + 1)
        workers = -1 if len(X) > 256 else 1  # for few rows, starting threads takes longer than the search
        return self.tree.query(np.asarray(X, np.float64) / self.metric, wanted, workers=workers)[1]
