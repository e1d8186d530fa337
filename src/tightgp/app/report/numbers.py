"""Numbers as text for readers, with few digits, thousands separated and a true minus sign; and names, shortened."""

import math

#: A narrow space that keeps a number and its unit on one line.
THIN = "\u202f"
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def number(value: float | None, digits: int = 3) -> str:
    """``value`` to about ``digits`` significant digits; digits before the decimal point are never rounded.

    >>> number(-12345.678), number(0.012345), number(3.2e-9), number(None)
    ('−12,346', '0.0123', '3.20 × 10⁻⁹', '–')
    """
    if value is None:
        return "–"
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else str(value)
    size = math.floor(math.log10(abs(value)))
    if size >= 9 or size < -4:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return _signed(f"{mantissa} × {power_of_ten(int(exponent))}")
    return fixed(value, max(0, digits - 1 - size))


def fixed(value: float, decimals: int) -> str:
    """``value`` with a fixed number of decimals.

    >>> fixed(-1234.5, 2)
    '−1,234.50'
    """
    return _signed(f"{value:,.{decimals}f}")


def power_of_ten(exponent: int) -> str:
    """A power of ten.

    >>> power_of_ten(-6)
    '10⁻⁶'
    """
    return f"10{str(exponent).translate(_SUPERSCRIPTS)}"


def whole(value: int) -> str:
    """A whole number.

    >>> whole(36000)
    '36,000'
    """
    return fixed(value, 0)


def percent(share: float | None, decimals: int = 1) -> str:
    """A share in per cent; only exact zero and one are shown as 0 and 100.

    >>> percent(0.941), percent(0.99999), percent(0.95, 0)
    ('94.1\\u202f%', '>99.9\\u202f%', '95\\u202f%')
    """
    if share is None:
        return "–"
    text, step = f"{100 * share:.{decimals}f}", 10.0**-decimals
    if float(text) == 100 and share < 1:
        text = f">{100 - step:.{decimals}f}"
    elif float(text) == 0 and share > 0:
        text = f"<{step:.{decimals}f}"
    elif float(text) in (0, 100):
        text = text.split(".")[0]
    return _signed(f"{text}{THIN}%")


def duration(seconds: float | None) -> str:
    """A length of time.

    >>> duration(0.83), duration(200.0), duration(7500.0)
    ('0.83\\u202fs', '3\\u202fmin 20\\u202fs', '2\\u202fh 5\\u202fmin')
    """
    if seconds is None:
        return "–"
    if seconds < 99.5:
        return f"{number(seconds, 2)}{THIN}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}{THIN}min {rest}{THIN}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}{THIN}h {minutes}{THIN}min"


def interval(low: float | None, high: float | None) -> str:
    """The ends of an interval, with enough digits to show its width.

    >>> interval(88.231, 146.02), interval(1.0, 15.0), interval(-0.0421, 0.1)
    ('88 to 146', '1 to 15', '−0.04 to 0.10')
    """
    if low is None or high is None:
        return "–"
    width = abs(high - low)
    if not 1e-4 <= width < 1e9 or max(abs(low), abs(high)) >= 1e9:
        return f"{number(low)} to {number(high)}"
    whole_ends = float(low).is_integer() and float(high).is_integer()
    decimals = 0 if whole_ends else max(0, 1 - math.floor(math.log10(width)))
    return f"{fixed(low, decimals)} to {fixed(high, decimals)}"


def counted(count: int, noun: str) -> str:
    """A count with its noun.

    >>> counted(1, "row"), counted(1200, "row")
    ('1 row', '1,200 rows')
    """
    return f"{whole(count)} {noun}{'' if count == 1 else 's'}"


def shortened(text: str, most: int) -> str:
    """The text on one line, cut to at most ``most`` characters with an ellipsis.

    >>> shortened("a long name", 7)
    'a long…'
    """
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def _signed(text: str) -> str:
    return text.replace("-", "−")
