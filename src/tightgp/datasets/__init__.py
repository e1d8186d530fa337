"""Data sets: the paper's, by name, and synthetic ones.

A file is looked for in the folder that the environment variable ``TIGHTGP_DATA`` names, then in the operating system's
cache for tightgp. If it is in neither, it is downloaded to the cache and its checksum is compared, where both address
and checksum are known.

>>> data = tgp.datasets.load("kin40k")  # doctest: +SKIP
>>> parts = tgp.datasets.split("kin40k", seed=0)  # doctest: +SKIP
>>> print(tgp.datasets.describe("kin40k"))
kin40k: forward kinematics of an eight-link robot arm, almost without noise
...
"""

from tightgp.datasets.catalogue import describe, names
from tightgp.datasets.download import fetch, locate
from tightgp.datasets.loading import Loaded, load
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
