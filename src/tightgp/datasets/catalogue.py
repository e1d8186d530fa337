"""The data sets of the paper, as `catalogue.toml` lists them."""

import difflib
import functools
import tomllib
from importlib.resources import files
from typing import Any

from tightgp.datasets.source import Source


def names() -> tuple[str, ...]:
    """The names of all data sets, the small ones first.

    >>> tgp.datasets.names()[:3]
    ('snelson', 'nybikes', 'pol')
    """
    return tuple(_catalogue())


def describe(name: str | Source) -> Source:
    """The catalogue's entry for a data set; print it to read it. A `Source` is returned as it is.

    >>> print(tgp.datasets.describe("pol"))
    pol: pole telecommunications
    15000 rows, 26 inputs; target: last column
    ...
    """
    if isinstance(name, Source):
        return name
    catalogue = _catalogue()
    if name in catalogue:
        return catalogue[name]
    near = difflib.get_close_matches(str(name).lower(), catalogue, n=1)
    suggestion = f"; did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"name must be one of {', '.join(map(repr, catalogue))}; got {name!r}{suggestion}")


@functools.cache
def _catalogue() -> dict[str, Source]:
    text = files("tightgp.datasets").joinpath("catalogue.toml").read_text("utf-8")
    return {name: Source(name=name, **_fields(entry)) for name, entry in tomllib.loads(text).items()}


def _fields(entry: dict[str, Any]) -> dict[str, Any]:
    """Fields of a `Source`: lists become tuples, and a number of inputs becomes the names x1, x2, ..."""
    if isinstance(entry["inputs"], int):
        entry["inputs"] = [f"x{i + 1}" for i in range(entry["inputs"])]
    return {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items()}
