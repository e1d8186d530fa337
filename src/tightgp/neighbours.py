"""The nearest training rows of new inputs, exactly, by a tree."""

from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from tightgp import partition
from tightgp.kernels import Kernel


class Neighbourhood(NamedTuple):
    """Rows in a tree over inputs that are divided by a kernel's lengthscales."""

    tree: cKDTree
    metric: np.ndarray

    @classmethod
    def of(cls, X: np.ndarray, kernel: Kernel) -> "Neighbourhood":
        """The tree of rows ``X``."""
        metric = partition.metric(X, np.asarray(kernel.length_scales(X.shape[1])))
        return cls(cKDTree(np.asarray(X, np.float64) / metric), metric)

    def nearest(self, X: np.ndarray, count: int) -> np.ndarray:
        """The numbers (n, count) of the rows nearest to each of ``X``; all of them where there are not so many."""
        wanted = np.arange(1, min(count, self.tree.n) + 1)
        return self.tree.query(np.asarray(X, np.float64) / self.metric, wanted, workers=-1)[1]
