"""Principal components, by which models of latent inputs and hidden layers begin."""

from typing import NamedTuple

import numpy as np


class Components(NamedTuple):
    """``Y`` less its column means is ``scores · diag(sizes) · directions``, the largest first."""

    scores: np.ndarray
    sizes: np.ndarray
    directions: np.ndarray


def principal(Y: np.ndarray) -> Components:
    """The components of the rows of ``Y``; missing cells count as their column's mean."""
    return Components(*np.linalg.svd(np.nan_to_num(Y - np.nanmean(Y, axis=0)), full_matrices=False))
