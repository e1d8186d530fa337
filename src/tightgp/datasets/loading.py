"""A data set as arrays, in its own units and with the names of its columns."""

from dataclasses import dataclass

import numpy as np

from tightgp.data import Dataset
from tightgp.datasets import formats, places
from tightgp.datasets.catalogue import describe
from tightgp.datasets.source import Source


@dataclass(frozen=True, eq=False, repr=False)
class Loaded:
    """Inputs ``X`` (N, D) and targets ``y`` (N,) as they are in the file, and where they come from."""

    X: np.ndarray
    y: np.ndarray
    source: Source

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the inputs."""
        return self.source.inputs

    @property
    def target(self) -> str:
        """The name of the target."""
        return self.source.target

    @property
    def dataset(self) -> Dataset:
        """All rows, to be fitted as they are; `split` standardises."""
        return Dataset(self.X, self.y)

    def __repr__(self) -> str:
        return f"Loaded({self.source.name!r}, N={self.X.shape[0]}, D={self.X.shape[1]}, target={self.target!r})"


def load(name: str | Source, progress: bool = True) -> Loaded:
    """The data set ``name`` (see `names`), downloaded first where need be.

    >>> data = load("kin40k")
    >>> data.X.shape, data.y.shape
    ((40000, 8), (40000,))
    """
    source = describe(name)
    X, y = formats.read(source, places.fetch(source, progress))
    return Loaded(X, y, source)
