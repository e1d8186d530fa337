"""Which rows share a block of V: orders of the rows in which blocks are consecutive (maths 1.6)."""

import numpy as np

from tightgp.conditionals import Conditional


def order(X: np.ndarray, structure: Conditional, metric: np.ndarray) -> np.ndarray | None:
    """The row order that makes ``structure``'s blocks consecutive; None where it is the order they have.

    "locality" is a median-split tree on ``X / metric``: each part is cut across its widest input into two
    parts of whole blocks. O(N log N), deterministic.
    """
    if structure.size == 1 or structure.partition == "rows":
        return None
    if structure.partition == "random":
        return np.random.default_rng(structure.seed).permutation(len(X))
    scaled = np.asarray(X) / metric
    result, todo = [], [np.arange(len(X))]
    while todo:
        rows = todo.pop()
        if len(rows) <= structure.size:
            result.append(rows)
            continue
        part = scaled[rows]
        column = part[:, np.argmax(part.max(axis=0) - part.min(axis=0))]
        left = -(-len(rows) // structure.size) // 2 * structure.size
        chosen = np.argpartition(column, left - 1, kind="introselect")
        todo.extend([rows[np.sort(chosen[left:])], rows[np.sort(chosen[:left])]])
    return np.concatenate(result)


def metric(X: np.ndarray, length_scales: np.ndarray) -> np.ndarray:
    """Scales that make distances in different inputs comparable: lengthscales, or spreads where there is none."""
    if np.any(np.isfinite(length_scales)):
        return np.asarray(length_scales)
    spread = np.std(np.asarray(X), axis=0)
    return np.where(spread > 0, spread, 1.0)
