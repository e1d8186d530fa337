"""Texts and whole numbers that are dates, and which format they are in."""

import re
import warnings

import numpy as np
import pandas as pd

_DAYS = (
    "%Y-%m-%d",
    "%Y/%m/%d",
    "%Y.%m.%d",
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%d-%m-%Y",
    "%m-%d-%Y",
    "%d.%m.%Y",
    "%d/%m/%y",
    "%m/%d/%y",
    "%d.%m.%y",
    "%Y%m%d",
    "%b %d, %Y",
    "%B %d, %Y",
    "%b %d %Y",
    "%d %b %Y",
    "%d %B %Y",
    "%d-%b-%Y",
    "%d-%b-%y",
    "%b %Y",
    "%B %Y",
    "%Y-%m",
    "%Y/%m",
)
_TIMES = (
    "",
    " %H:%M",
    " %H:%M:%S",
    " %H:%M:%S.%f",
    "T%H:%M",
    "T%H:%M:%S",
    "T%H:%M:%S.%f",
    "T%H:%M:%SZ",
    "T%H:%M:%S.%fZ",
    " %I:%M %p",
    " %I:%M:%S %p",
)
#: What most dates look like: a cheap test before formats are tried.
_LOOKS = re.compile(r"(?=.*\d)[\w.,/\- :+T]{6,35}")
#: How many texts decide which formats are worth trying on all.
_SAMPLE = 50
_NAMED = re.compile(r"(^|[_\s])(date|day|datum|dato|fecha|dt|time|timestamp)([_\s]|$)|date$", re.IGNORECASE)


def fitting_formats(texts: list[str], share: float = 1.0) -> list[str]:
    """The formats in which at least this share of the texts are dates; several if day and month could be exchanged.

    >>> from tightgp.estimators.reading.dates import fitting_formats
    >>> fitting_formats(["31/12/2020", "01/02/2021"])
    ['%d/%m/%Y']
    >>> fitting_formats(["01/02/2020", "03/04/2021"])
    ['%d/%m/%Y', '%m/%d/%Y']
    """
    if not texts or sum(_LOOKS.fullmatch(text.strip()) is not None for text in texts[:_SAMPLE]) < share * min(
        len(texts), _SAMPLE
    ):
        return []
    some, found = texts[:_SAMPLE], []
    for day in _DAYS:
        for time in _TIMES:
            form = day + time
            if np.mean(parse(some, form).notna()) >= share and np.mean(parse(texts, form).notna()) >= share:
                found.append(form)
                break
    years = [form for form in found if "%Y" in form]
    return years or found


def parse(texts, form: str) -> pd.Series:
    """Texts as times; NaT where one is not in this format."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        stripped = pd.Series(texts, dtype="object").map(lambda text: text.strip() if isinstance(text, str) else text)
        return pd.to_datetime(stripped, format=form, errors="coerce")


def are_compact_dates(name: str, values: np.ndarray) -> bool:
    """Whether whole numbers such as 20240131 are dates: all are, and there are many or the column's name says so."""
    if not len(values) or values.min() < 19000101 or values.max() > 21001231:
        return False
    unique = np.unique(values)
    if len(unique) < 2 or (len(unique) < 20 and not _NAMED.search(name)):
        return False
    return bool(parse([str(int(value)) for value in unique], "%Y%m%d").notna().all())
