"""A data set as arrays, in its own units and with the names of its columns."""

from dataclasses import dataclass

import numpy as np

from tightgp.data.dataset import Dataset
from tightgp.datasets import download, formats
from tightgp.datasets.catalogue import describe
from tightgp.datasets.source import Source


@dataclass(frozen=True, eq=False, repr=False)
class Loaded:
    """A data set in memory: inputs ``X`` (N, D), targets ``y`` (N,) in their own units, and its `Source`.

    >>> source = tgp.datasets.Source("mine", "made up", "mine.csv", rows=60, inputs=("a", "b"), target="c")
    >>> tgp.datasets.Loaded(X, y, source)
    Loaded('mine', N=60, D=2, target='c')
    """

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
        """All rows as a `Dataset`, not standardised; `split` standardises."""
        return Dataset(self.X, self.y)

    def __repr__(self) -> str:
        return f"Loaded({self.source.name!r}, N={self.X.shape[0]}, D={self.X.shape[1]}, target={self.target!r})"


def load(name: str | Source, progress: bool = True) -> Loaded:
    """Load a data set, and download it first if it is not on this machine.

    Args:
        name: one of `names`, or the `Source` of your own file.
        progress: show a bar while it is downloaded.

    >>> import os
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> from unittest.mock import patch
    >>> mine = tgp.datasets.Source("mine", "my measurements", "mine.csv", rows=2, inputs=("a", "b"), target="c")
    >>> with TemporaryDirectory() as folder, patch.dict(os.environ, TIGHTGP_DATA=folder):
    ...     length = Path(folder, "mine.csv").write_text("1,2,3\\n4,5,6\\n")
    ...     tgp.datasets.load(mine)
    Loaded('mine', N=2, D=2, target='c')
    """
    source = describe(name)
    X, y = formats.read(source, download.fetch(source, progress))
    return Loaded(X, y, source)
