"""Optimise a Python function in one call."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tightgp import checks
from tightgp.optimise.optimiser import Optimiser
from tightgp.progress import ProgressBar


class Result(NamedTuple):
    """The best point and value, all points (n, D) and values (n,) in the order in which they were tried."""

    x: np.ndarray
    y: float
    X: np.ndarray
    values: np.ndarray
    optimiser: Optimiser


def minimise(
    function: Callable[[np.ndarray], float],
    bounds: Any,
    num_calls: int = 30,
    *,
    progress: bool = False,
    callback: Callable[[Optimiser], Any] | None = None,
    **options: Any,
) -> Result:
    """Find where ``function`` of a point (D,) is smallest, in few calls.

    Args:
        function: what is minimised, or maximised with ``maximise=True``.
        bounds: as of `Optimiser`.
        num_calls: how often ``function`` is called.
        progress: show a bar.
        callback: called with the optimiser after each value; it ends the search by returning True.
        **options: of `Optimiser`: ``acquisition``, ``maximise``, ``num_initial``, ``seed``.

    >>> found = tgp.optimise.minimise(lambda x: (x[0] - 0.3) ** 2, [(0.0, 1.0)], num_calls=8, num_initial=4)
    >>> bool(abs(found.x[0] - 0.3) < 0.1)
    True
    """
    checks.count("num_calls", num_calls)
    search = Optimiser(bounds, **options)
    with ProgressBar(num_calls, progress, "search") as bar:
        for call in range(num_calls):
            x = search.ask()
            search.tell(x, function(x))
            bar.update(call + 1, f"best {search.best.y:.6g}")
            if callback is not None and callback(search):
                break
    best = search.best
    return Result(best.x, best.y, search.X, search.y, search)
