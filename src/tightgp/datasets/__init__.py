"""Data sets: the paper's, by name, and some that are made up.

The files are looked for first in the folder that the environment variable ``TIGHTGP_DATA`` names, then in the
operating system's cache folder for tightgp, and are downloaded there, with a checksum, where that can be done.

>>> data = datasets.load("kin40k")
>>> parts = datasets.split("kin40k", seed=0)
>>> print(datasets.describe("kin40k"))
"""

from tightgp.datasets.catalogue import describe, names
from tightgp.datasets.loading import Loaded, load
from tightgp.datasets.places import fetch, locate
from tightgp.datasets.source import DatasetError, Source
from tightgp.datasets.splits import Split, split
from tightgp.datasets.synthetic import classes, count_rate, counts, mixed_table, wiggly

__all__ = [
    "DatasetError",
    "Loaded",
    "Source",
    "Split",
    "classes",
    "count_rate",
    "counts",
    "describe",
    "fetch",
    "load",
    "locate",
    "mixed_table",
    "names",
    "split",
    "wiggly",
]
