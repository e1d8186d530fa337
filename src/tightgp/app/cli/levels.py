"""Targets whose values have an order: which it is, and when the ordinal likelihood is worth a word."""

import numpy as np
import pandas as pd

from tightgp.app.tables import TableError
from tightgp.app.tables.errors import quoted
from tightgp.app.tables.findings import option
from tightgp.app.tables.orders import known_order

#: Ordered levels may be so many; of more numbers no edge between two could be told.
_MOST_LEVELS = 50
#: Whole numbers that may be ratings: so many different ones, so far apart, each in so many rows on average.
_FEWEST_RATINGS, _MOST_RATINGS, _LEAST_ROWS = 3, 11, 5
#: How the order of levels is given.
_ORDER = "LOWEST<...<HIGHEST"


def order_of_texts(y: pd.Series) -> tuple[str, ...]:
    """The levels of an ordered column, or of texts whose order everybody knows, lowest first; empty for others."""
    if isinstance(y.dtype, pd.CategoricalDtype):
        return tuple(map(str, y.cat.categories)) if y.cat.ordered else ()
    if y.dtype.kind in "biufmM":
        return ()
    labels = [str(label) for label in y.unique()]
    folded = {label.strip().casefold(): label for label in labels}
    order = known_order(set(folded))
    return tuple(folded[level] for level in order) if len(folded) == len(labels) else ()


def ordered_levels(y: pd.Series, name: str, path: str) -> list:
    """The levels of a target that is fitted by the ordinal likelihood, lowest first; refused if they have no order."""
    if y.dtype.kind in "biuf":
        levels = np.unique(y.to_numpy()).tolist()
        if len(levels) > _MOST_LEVELS:
            raise TableError(
                path,
                f"target {name!r} holds {len(levels):,} different numbers, too many for ordered levels; group them "
                "into fewer, or pass --likelihood gaussian",
            )
        return levels
    if order := order_of_texts(y):
        return list(order)
    found = ", ".join(quoted(str(label)) for label in y.value_counts().index[:8])
    raise TableError(
        path,
        f"target {name!r} has levels whose order is not known, such as {found}; give all of them in order with "
        f"{option(name, _ORDER)}",
    )


def ordinal_labels(y: pd.Series) -> np.ndarray:
    """The labels of ordered levels: numbers, whole if they all are, or texts."""
    if y.dtype.kind not in "biuf":
        return np.asarray([str(label) for label in y.tolist()])
    values = y.to_numpy()
    return values.astype(int) if values.dtype.kind == "f" and np.all(values % 1 == 0) else values


def describe_levels(levels: list, name: str) -> str:
    """The order that was read, and the option that changes it."""
    shown = "<".join(f"{level:g}" if isinstance(level, float) else str(level) for level in levels)
    return f"Target {name!r} is fitted as ordered levels, {shown} (change: {option(name, _ORDER)})"


def offer_ordinal(likelihood: str, y: pd.Series, name: str) -> str:
    """What to say of a target that was guessed to be something else but may hold ordered levels; empty for others."""
    if likelihood == "classes":
        order = order_of_texts(y)
        if len(order) < _FEWEST_RATINGS:
            return ""
        return f"The classes of {name!r} have an order, {'<'.join(order)}: --likelihood ordinal makes use of it"
    if likelihood != "gaussian" or y.dtype.kind not in "iuf":
        return ""
    values = np.unique(y.to_numpy(np.float64))
    few = _FEWEST_RATINGS <= len(values) <= _MOST_RATINGS and len(y) >= _LEAST_ROWS * len(values)
    if not few or np.any(values % 1) or np.ptp(values) >= _MOST_RATINGS:
        return ""
    return (
        f"The {len(values)} whole numbers of {name!r}, from {values[0]:g} to {values[-1]:g}, may be levels such as "
        "ratings: --likelihood ordinal gives the probability of each"
    )
