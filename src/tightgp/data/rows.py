"""The one container of rows: what objectives, posteriors and minibatches are given of a data set."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from tightgp.data.input_variance import InputVariance
from tightgp.numerics.chunks import pad_rows


class Rows(NamedTuple):
    """Rows of a data set as arrays, on the host or on a device.

    Attributes:
        X: inputs (n, d).
        y: targets (n, p), NaN where an output is missing.
        weight: (n,), for how many rows of the whole data set each row stands: 1 for a whole data set, N/|B| in a
            minibatch, 0 for padding.
        noise_variance: (n,), the known part of each row's noise variance; None where there is none.
        input_variance: which inputs are uncertain, and how much; None where all are known.
        index: (n,), the number of each row in the data set; None where rows are in its order.
        conditioners: (n, w), rows that each row's block is given, all rows of the block taken together: their numbers
            within the same piece of the placed rows (see `Partition.pieces`), -1 for none. None without neighbours.
        noise_factor: (n,), by what the model's own noise variance is multiplied in each row; None where by one.
    """

    X: Any
    y: Any
    weight: Any
    noise_variance: Any = None
    input_variance: InputVariance | None = None
    index: Any = None
    conditioners: Any = None
    noise_factor: Any = None

    @property
    def num_rows(self) -> int:
        """Number of rows, padding included."""
        return self.X.shape[0]

    def noise(self, own: Any) -> Any:
        """Noise variance of each row (n,): the model's ``own`` σ² times the row's factor, and the known part."""
        xp: Any = np if isinstance(own, np.ndarray | float) else jax.numpy
        noise = own * (xp.ones(self.num_rows, self.X.dtype) if self.noise_factor is None else self.noise_factor)
        return noise if self.noise_variance is None else noise + self.noise_variance

    def map(self, function: Callable) -> "Rows":
        """Apply ``function`` to each array."""
        return jax.tree.map(function, self)

    def padded(self, length: int) -> "Rows":
        """These rows and copies of the last one with weight 0 and no conditioners, ``length`` in all."""
        if length == self.num_rows:
            return self
        rows = self.map(lambda a: pad_rows(a, length))
        real = np.arange(length) < self.num_rows
        xp: Any = np if isinstance(rows.weight, np.ndarray) else jax.numpy
        rows = rows._replace(weight=xp.where(real, rows.weight, 0).astype(self.weight.dtype))
        if rows.conditioners is None:
            return rows
        return rows._replace(conditioners=xp.where(real[:, None], rows.conditioners, -1))

    def take(self, which: Any) -> "Rows":
        """Some of the rows, by numbers or a slice; ``index`` says which they are."""
        index = np.arange(self.num_rows) if self.index is None else self.index
        return self._replace(index=index).map(lambda a: a[which])
