"""Optimise a Python function in one call."""

import warnings
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

    A value that is not finite ends the search, with a warning and the result so far. An exception of ``function``, or
    Ctrl-C, goes on to the caller; its attribute ``optimiser`` has all values so far, and can be asked and told further.

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
        try:
            for call in range(num_calls):
                x = search.ask()
                value = function(x)
                if len(search.y) and not np.all(np.isfinite(np.asarray(value, float))):
                    warnings.warn(f"the search ends early: function gave {value} at {x}", stacklevel=2)
                    break
                search.tell(x, value)
                bar.update(call + 1, f"best {search.best.y:.6g}")
                if callback is not None and callback(search):
                    break
        except BaseException as error:
            error.__dict__["optimiser"] = search
            error.add_note(f"the {len(search.y)} value(s) so far are kept in this exception's attribute optimiser")
            raise
    best = search.best
    return Result(best.x, best.y, search.X, search.y, search)
