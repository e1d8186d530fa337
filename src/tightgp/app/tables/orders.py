"""Levels that have an order which everybody knows."""

import re

_ORDERS = (
    ("very low", "low", "medium", "high", "very high"),
    ("low", "mid", "high"),
    ("low", "moderate", "high"),
    ("xxs", "xs", "s", "m", "l", "xl", "xxl", "xxxl"),
    ("small", "medium", "large", "extra large"),
    ("very poor", "poor", "fair", "good", "very good", "excellent"),
    ("bad", "average", "good"),
    ("strongly disagree", "disagree", "neutral", "agree", "strongly agree"),
    ("never", "rarely", "sometimes", "often", "always"),
    ("none", "mild", "moderate", "severe"),
    ("primary", "secondary", "tertiary"),
    ("beginner", "intermediate", "advanced", "expert"),
    ("bronze", "silver", "gold", "platinum"),
    ("first", "second", "third", "fourth", "fifth"),
    ("fair", "good", "very good", "premium", "ideal"),
    ("po", "fa", "ta", "gd", "ex"),
)
_RANGE = re.compile(r"(?:<|>|>=|<=|under|over)?\s*(\d+(?:\.\d+)?)\s*(?:(?:-|–|to)\s*\d+(?:\.\d+)?|\+)?\s*[a-z]*")


def known_order(levels: set[str]) -> tuple[str, ...]:
    """The levels, in lower case, from lowest to highest; empty if their order is not known.

    >>> from tightgp.app.tables.orders import known_order
    >>> known_order({"high", "low", "medium"})
    ('low', 'medium', 'high')
    >>> known_order({"20-29", "under 10", "10-19", "30+"})
    ('under 10', '10-19', '20-29', '30+')
    """
    if len(levels) < 3:
        return ()
    for order in _ORDERS:
        if levels <= set(order):
            return tuple(level for level in order if level in levels)
    matches = {level: _RANGE.fullmatch(level) for level in levels}
    if all(matches.values()) and any(not level.replace(".", "").isdigit() for level in levels):
        starts = {
            level: (float(match[1]), not level.startswith(("<", "under"))) for level, match in matches.items() if match
        }
        if len(set(starts.values())) == len(levels):
            return tuple(sorted(levels, key=lambda level: starts[level]))
    return ()
