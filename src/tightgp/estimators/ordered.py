"""Ordered levels as targets: which order they have, and where the training of their edges starts."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtri

from tightgp.likelihoods import Ordinal

#: Levels that are rarer than this start with a gap of this length, in units of the latent function's noise.
_LEAST_GAP = 1e-3


class Levels(NamedTuple):
    """The levels of the training rows, lowest first (K,), the position of each row's own (n,), and their rows (K,)."""

    classes: np.ndarray
    codes: np.ndarray
    counts: np.ndarray


def declared_order(levels: Any, y: Any) -> list | None:
    """The order that the user gave: ``levels``, or the categories of an ordered pandas column ``y``; None for neither.

    >>> from tightgp.estimators.ordered import declared_order
    >>> declared_order(None, pd.Categorical(["high", "low"], ["low", "high"], ordered=True))
    ['low', 'high']
    """
    if levels is None:
        kind = getattr(y, "dtype", None)
        return kind.categories.tolist() if isinstance(kind, pd.CategoricalDtype) and kind.ordered else None
    problem = f"levels must be None or a list of different labels, lowest first; got {levels!r}"
    if isinstance(levels, str):
        raise ValueError(problem)
    try:
        order = list(levels)
        distinct = len(set(order))
    except TypeError:
        raise ValueError(problem) from None
    if not order or distinct < len(order):
        raise ValueError(problem)
    return order


def find_levels(y: np.ndarray, order: list | None) -> Levels:
    """The levels that labels ``y`` (n,) hold, in the order that was declared, or else in that of numbers.

    >>> from tightgp.estimators.ordered import find_levels
    >>> find_levels(np.array(["mid", "low", "mid"]), ["low", "mid", "high"]).classes.tolist()
    ['low', 'mid']
    """
    if order is None:
        if y.dtype.kind not in "biuf":
            raise ValueError(
                f"y holds labels such as {y.tolist()[0]!r}, which have no order of their own: give levels=, the labels "
                "from the lowest to the highest, or an ordered pandas Categorical"
            )
        return Levels(*np.unique(y, return_inverse=True, return_counts=True))
    place = {level: i for i, level in enumerate(order)}
    found = np.array([place.get(label, -1) for label in y.tolist()])
    if np.any(found < 0):
        row = int(np.argmax(found < 0))
        raise ValueError(f"y has {y.tolist()[row]!r} in row {row}, which is not one of levels: {order}")
    _, first, codes, counts = np.unique(found, return_index=True, return_inverse=True, return_counts=True)
    return Levels(y[first], codes, counts)


def normal_scores(counts: np.ndarray) -> np.ndarray:
    """The quantile of a standard normal variable in the middle of each level's share of the rows (K,)."""
    return ndtri((np.cumsum(counts) - counts / 2) / counts.sum())


def likelihood_of_levels(rates: np.ndarray, variance: float) -> Ordinal:
    """The likelihood that gives the levels their ``rates`` (K,) under f ~ N(0, ``variance``) (maths 5.6d)."""
    edges = np.sqrt(1 + variance) * ndtri(np.cumsum(rates)[:-1])
    gaps = np.maximum(np.diff(edges), _LEAST_GAP)
    return Ordinal(edges=edges[0] + np.append(0.0, np.cumsum(gaps)))
