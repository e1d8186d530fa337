"""Data sets: inputs and targets, checked once; and data that come in batches."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from tightgp import checks
from tightgp.data.input_variance import InputVariance, checked_variance
from tightgp.data.partition import Partition
from tightgp.data.placement import PlacedRows, place
from tightgp.data.rows import Rows


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Inputs and targets of a regression, classification or count problem.

    Arrays are checked once and not copied: do not change them afterwards.

    Args:
        X: inputs (N, D).
        y: targets (N,) or (N, P).
        noise_variance: (N,), the known part of each row's noise variance. It adds to the model's own.
        missing: whether NaN in ``y`` stands for outputs that were not observed (for `SVGP`).
        noise_factor: (N,), by what the model's own noise variance is multiplied in each row, above zero: the inverse of
            a row's weight.
        input_variance: how uncertain inputs are: the true ones are Gaussian about ``X`` with these variances. One
            number, (D,) for the columns, or (N, D); zero where an input is known.

    >>> data = Dataset([[0.0], [1.0]], [0.3, 0.7])
    >>> data.num_data, data.num_inputs, data.num_outputs
    (2, 1, 1)
    """

    X: Any
    y: Any
    noise_variance: Any = None
    missing: bool = False
    input_variance: Any = None
    noise_factor: Any = None
    _placed: dict = field(default_factory=dict, init=False)

    def __post_init__(self):
        X = checks.matrix("X", self.X)
        y = checks.floats("y", self.y, X.dtype)
        if y.ndim not in (1, 2):
            raise ValueError(f"y must have shape (N,) or (N, P), got {y.shape}")
        if y.shape[0] != X.shape[0]:
            raise ValueError(f"y has {y.shape[0]} row(s) but X has {X.shape[0]}; each row of X needs one target")
        if y.ndim == 2 and y.shape[1] == 0:
            raise ValueError(f"y has no columns (shape {y.shape}); it needs at least one")
        if self.missing:
            checks.not_infinite("y", y)
        else:
            checks.finite("y", y)
        checks.squarable("y", y)
        checks.same_dtype("y", y, "X", X)
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "y", y)
        if self.noise_variance is not None:
            noise = checks.not_negative("noise_variance", self.noise_variance, X.dtype)
            if noise.shape != (X.shape[0],):
                raise ValueError(f"noise_variance must have shape ({X.shape[0]},), one a row of X, got {noise.shape}")
            checks.same_dtype("noise_variance", noise, "X", X)
            object.__setattr__(self, "noise_variance", noise)
        if self.noise_factor is not None:
            factor = checks.positive("noise_factor", checks.floats("noise_factor", self.noise_factor, X.dtype))
            if factor.shape != (X.shape[0],):
                raise ValueError(f"noise_factor must have shape ({X.shape[0]},), one a row of X, got {factor.shape}")
            object.__setattr__(self, "noise_factor", factor)
        if self.input_variance is not None:
            object.__setattr__(self, "input_variance", checked_variance(self.input_variance, X))

    @classmethod
    def latent(cls, y: Any, num_latents: int, missing: bool = False) -> "Dataset":
        """Targets whose inputs are unknown, with a standard normal prior over ``num_latents`` inputs a row.

        >>> Dataset.latent(np.zeros((5, 3)), 2)
        Dataset(N=5, D=2, P=3, float64, uncertain inputs)
        """
        y = checks.floats("y", y)
        if y.ndim != 2:
            raise ValueError(f"y must have shape (N, P), rows by columns, got {y.shape}")
        X = np.zeros((len(y), checks.count("num_latents", num_latents)), y.dtype)
        return cls(X, y, missing=missing, input_variance=np.ones((), y.dtype))

    @property
    def uncertain_inputs(self) -> InputVariance | None:
        """Which inputs are uncertain, and how much; None where all are known."""
        if self.input_variance is None:
            return None
        xp: Any = np if isinstance(self.input_variance, np.ndarray) else jnp
        return InputVariance.of(xp.broadcast_to(self.input_variance, self.X.shape))

    @property
    def num_data(self) -> int:
        """Number of rows N."""
        return self.X.shape[0]

    @property
    def num_inputs(self) -> int:
        """Number of input columns D."""
        return self.X.shape[1]

    @property
    def num_outputs(self) -> int:
        """Number of outputs P."""
        return 1 if self.vector else self.y.shape[1]

    @property
    def vector(self) -> bool:
        """Whether ``y`` was given as (N,): predictions then have no column axis either."""
        return self.y.ndim == 1

    @property
    def targets(self) -> Any:
        """``y`` as (N, P)."""
        return self.y[:, None] if self.vector else self.y

    def rows(self) -> Rows:
        """The data as `Rows`, still where they are; nothing is copied."""
        weight = np.broadcast_to(np.ones((), self.X.dtype), self.num_data)
        noise = {"noise_variance": self.noise_variance, "noise_factor": self.noise_factor}
        return Rows(self.X, self.targets, weight, input_variance=self.uncertain_inputs, **noise)

    def placed(self, partition: Partition, metric: Any = None) -> tuple[PlacedRows, np.ndarray | None]:
        """The rows on their devices, in the order of a partition, and that order (None where it is their own).

        The last answer is kept: training, bounds and posteriors on the same data share it.
        """
        key = (partition, None if metric is None else np.asarray(metric).tobytes())
        kept = self._placed.get("kept")  # one entry: threads may ask for different partitions at the same time
        if kept is None or kept[0] != key:
            order = partition.order(self.X, metric)
            placed = place(self.rows(), order, partition, metric)
            if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(placed)):
                return placed, order  # inside a JAX trace, which nothing may outlive
            kept = key, (placed, order)
            self._placed["kept"] = kept
        return kept[1]

    def take(self, rows) -> "Dataset":
        """The data set of these rows: indices, a slice or a mask."""
        noise, factor = (None if a is None else a[rows] for a in (self.noise_variance, self.noise_factor))
        variance = self.input_variance
        variance = variance[rows] if np.ndim(variance) == 2 else variance
        return Dataset(self.X[rows], self.y[rows], noise, self.missing, variance, factor)

    def __repr__(self) -> str:
        known = "" if self.noise_variance is None else ", known noise variances"
        known += "" if self.input_variance is None else ", uncertain inputs"
        return f"Dataset(N={self.num_data}, D={self.num_inputs}, P={self.num_outputs}, {np.dtype(self.X.dtype)}{known})"


@dataclass(frozen=True, eq=False)
class Batches:
    """Data that come batch by batch, for data sets that fit nowhere at once.

    Args:
        source: called (or iterated again) for each epoch; gives a `Dataset` or a pair ``(X, y)`` at a time, of any
            size. It should give the rows in random order, and may be endless: an epoch ends after ``num_data`` rows.
        num_data: number of rows in an epoch.

    >>> batches = Batches([(np.zeros((3, 1)), np.ones(3)), (np.ones((2, 1)), np.zeros(2))], num_data=5)
    >>> [data.num_data for data in batches]
    [3, 2]
    """

    source: Callable[[], Iterable] | Iterable
    num_data: int

    def __post_init__(self):
        checks.count("num_data", self.num_data)
        if not callable(self.source) and (not hasattr(self.source, "__iter__") or hasattr(self.source, "__next__")):
            raise ValueError(
                "source must be a function that returns an iterator, or something that can be iterated again for "
                f"each epoch such as a list; got {type(self.source).__name__}"
            )

    def first(self) -> Dataset:
        """The first batch."""
        for data in self:
            return data
        raise ValueError("source of Batches gave nothing; it must give at least one Dataset or (X, y) in each epoch")

    def __iter__(self) -> Iterator[Dataset]:
        for item in self.source() if callable(self.source) else self.source:
            if isinstance(item, Dataset):
                yield item
            elif isinstance(item, tuple | list) and len(item) == 2:
                yield Dataset(*item)
            else:
                raise ValueError(f"source must give Dataset or (X, y), got {type(item).__name__}")
