"""Texts that are numbers: money, percent, thousands, decimal commas, accountants' negatives."""

import re
from typing import NamedTuple

import numpy as np

_CURRENCIES = r"US\$|A\$|C\$|R\$|[$€£¥₹₽₩₺]|USD|EUR|GBP|CHF|JPY|CNY|INR|AUD|CAD|SEK|NOK|DKK|PLN|kr\.?|Rs\.?|zł"
_AMOUNT = re.compile(
    rf"(?P<open>\()?\s*(?P<sign>[-+−])?\s*(?P<before>{_CURRENCIES})?\s*(?P<sign2>[-+−])?\s*"
    rf"(?P<body>[\d.,](?:[\d.,'’_ \u00a0\u202f]*[\d.,])?(?:[eE][-+]?\d+)?)"
    rf"\s*(?P<after>{_CURRENCIES}|%)?\s*(?P<close>\))?"
)
_SPACES = re.compile(r"(?<=\d)['’_ \u00a0\u202f](?=\d{3}(?!\d))")
#: A number whose decimal mark is a point; the mirror image has commas and points exchanged.
_POINT = re.compile(r"(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d*)?(?:[eE][-+]?\d+)?|\.\d+(?:[eE][-+]?\d+)?")
_MIRROR = str.maketrans(",.", ".,")
#: Before these signs of money, a comma stands between thousands.
_WITH_POINTS = ("$", "A$", "C$", "£", "AUD", "CAD", "₹", "Rs", "Rs.")
_SAME = {"US$": "$", "USD": "$", "EUR": "€", "GBP": "£", "INR": "₹", "JPY": "¥", "CNY": "¥"}
#: Words for a missing cell among numbers.
MISSING_WORDS = ("", "?", "-", "--", "—", "n/a", "na", "nan", "null", "none", "missing", "unknown", "#n/a", "#div/0!")


class Amounts(NamedTuple):
    """Different texts of one column, read as numbers.

    Attributes:
        values: (n,) numbers; NaN where a text is a word for a missing cell, or no number.
        strays: (n,) which texts are no number.
        decimal: the decimal mark, "point" or "comma"; empty where either would do and give other numbers.
        unit: "%", a sign of money, or empty.
        mixed: units that do not go together, for a message; else empty.
    """

    values: np.ndarray
    strays: np.ndarray
    decimal: str
    unit: str
    mixed: str = ""


def read_amounts(texts: list[str], decimal: str = "") -> Amounts:
    """Read different texts of one column as numbers; the decimal mark is found out unless it is given.

    >>> from tightgp.estimators.reading.amounts import read_amounts
    >>> read_amounts(["$12,345.00", "($7.50)"]).values.tolist()
    [12345.0, -7.5]
    >>> read_amounts(["12.345,67", "1,5"]).values.tolist()
    [12345.67, 1.5]
    """
    missing = np.array([text.strip().casefold() in MISSING_WORDS for text in texts], bool)
    found = [None if gone else _AMOUNT.fullmatch(text.strip()) for text, gone in zip(texts, missing, strict=True)]
    bodies = [None if match is None else _SPACES.sub("", match["body"]) for match in found]
    units = [None if match is None else (match["before"] or match["after"] or "") for match in found]
    units = [None if unit is None else _SAME.get(unit, unit) for unit in units]
    point = np.array([body is not None and _POINT.fullmatch(body) is not None for body in bodies], bool)
    mirrored = [None if body is None else body.translate(_MIRROR) for body in bodies]
    comma = np.array([body is not None and _POINT.fullmatch(body) is not None for body in mirrored], bool)
    known = decimal or _decimal_mark(bodies, units, point, comma)
    chosen, fits = (mirrored, comma) if known == "comma" else (bodies, point)
    values = np.full(len(texts), np.nan)
    for i in np.flatnonzero(fits):
        match = found[i]
        negative = bool(match["open"] and match["close"]) or "-" in (match["sign"], match["sign2"])  # type: ignore[index]
        negative = negative or "−" in (match["sign"], match["sign2"])  # type: ignore[index]
        values[i] = float(chosen[i].replace(",", "")) * (-1 if negative else 1)  # type: ignore[union-attr]
    used = {units[i]: i for i in np.flatnonzero(fits)}
    several = sorted(unit for unit in used if unit)
    mixed = ""
    if len(several) > 1 or ("%" in used and "" in used and values[used[""]] != 0):
        mixed = " and ".join(f"{texts[i].strip()!r}" for _, i in sorted(used.items())[:3])
    return Amounts(values, ~fits & ~missing, known, several[0] if several else "", mixed)


def _decimal_mark(bodies, units, point: np.ndarray, comma: np.ndarray) -> str:
    """The decimal mark under which more texts are numbers; "" where that does not tell."""
    if point.sum() != comma.sum():
        return "point" if point.sum() > comma.sum() else "comma"
    read = [body for body, fits in zip(bodies, point & comma, strict=True) if fits]
    named = [unit for unit in units if unit and unit != "%"]
    if any(unit in _WITH_POINTS for unit in named) or not any("," in body or "." in body for body in read):
        return "point"
    if not any("," in body for body in read) and not named:
        return "point"
    return ""
