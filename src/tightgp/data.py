"""A table of inputs and targets, checked once."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tightgp import checks
from tightgp.spread import Spread, checked_variance


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Inputs ``X`` (N, D), targets ``y`` (N,) or (N, P), and optionally each row's known noise variance (N,).

    With ``missing=True`` a NaN in ``y`` is an output that was not seen in its row (for SVGP).
    A known variance adds to the model's own: row i has noise ``noise_variance[i] + model.noise_variance``.
    ``input_variance`` says how uncertain inputs are: the true ones are Gaussian about ``X`` with these variances, one
    number, (D,) one for each column, or (N, D); zero where an input is known.
    Arrays are checked once and not copied: do not change them afterwards.

    >>> data = Dataset([[0.0], [1.0]], [0.3, 0.7])
    >>> data.num_data, data.num_inputs, data.num_outputs
    (2, 1, 1)
    """

    X: Any
    y: Any
    noise_variance: Any = None
    missing: bool = False
    input_variance: Any = None

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
        checks.same_dtype("y", y, "X", X)
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "y", y)
        if self.noise_variance is not None:
            noise = checks.not_negative("noise_variance", self.noise_variance, X.dtype)
            if noise.shape != (X.shape[0],):
                raise ValueError(f"noise_variance must have shape ({X.shape[0]},), one a row of X, got {noise.shape}")
            checks.same_dtype("noise_variance", noise, "X", X)
            object.__setattr__(self, "noise_variance", noise)
        if self.input_variance is not None:
            object.__setattr__(self, "input_variance", checked_variance(self.input_variance, X))

    @classmethod
    def latent(cls, y: Any, num_latents: int, missing: bool = False) -> "Dataset":
        """Targets whose inputs are not known at all: a standard normal prior over ``num_latents`` of them.

        >>> data = Dataset.latent(Y, 2)
        """
        y = checks.floats("y", y)
        if y.ndim != 2:
            raise ValueError(f"y must have shape (N, P), rows by columns, got {y.shape}")
        X = np.zeros((len(y), checks.count("num_latents", num_latents)), y.dtype)
        return cls(X, y, missing=missing, input_variance=np.ones((), y.dtype))

    @property
    def spread(self) -> Spread | None:
        """How uncertain inputs are; None where all are known."""
        if self.input_variance is None:
            return None
        xp: Any = np if isinstance(self.input_variance, np.ndarray) else jnp
        return Spread.of(xp.broadcast_to(self.input_variance, self.X.shape))

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
        """Whether ``y`` was given as (N,), so that predictions have no column axis either."""
        return self.y.ndim == 1

    @property
    def targets(self) -> Any:
        """``y`` as (N, P)."""
        return self.y[:, None] if self.vector else self.y

    def take(self, rows) -> "Dataset":
        """The data set of these rows: indices, a slice or a mask."""
        noise = None if self.noise_variance is None else self.noise_variance[rows]
        variance = self.input_variance
        variance = variance[rows] if np.ndim(variance) == 2 else variance
        return Dataset(self.X[rows], self.y[rows], noise, self.missing, variance)

    def __repr__(self) -> str:
        known = "" if self.noise_variance is None else ", known noise variances"
        known += "" if self.input_variance is None else ", uncertain inputs"
        return f"Dataset(N={self.num_data}, D={self.num_inputs}, P={self.num_outputs}, {np.dtype(self.X.dtype)}{known})"


@dataclass(frozen=True, eq=False)
class Batches:
    """Data that come batch by batch, ``num_data`` rows in all, for what fits nowhere at once.

    ``source`` is called (or iterated) anew for each epoch and gives a `Dataset` or a pair ``(X, y)`` at a time. It
    should give the rows in random order; how many come at a time does not matter. An epoch ends after
    ``num_data`` rows, so the source may be endless.

    >>> def read():
    ...     for path in paths:
    ...         yield load(path)
    >>> fit(model, Batches(read, num_data=10**9), batch_size=1024, epochs=1)
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
        """The first that comes."""
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


class Batch(NamedTuple):
    """Rows of a data set as an objective takes them.

    ``weight`` says for how many rows of the whole each one stands: one for the whole data set, N/|B| in a minibatch,
    zero for padding. Its sum is N, on average where minibatches are made of blocks. ``known`` is the known part of each
    row's noise variance, or None. ``key`` is for expectations by draws. ``spread`` says how uncertain inputs are, and
    ``index`` which row of the whole each one is, for models that keep something for each row.
    """

    X: Any
    y: Any
    known: Any
    weight: Any
    key: Any
    spread: Spread | None = None
    index: Any = None

    def padded(self, count: int) -> "Batch":
        """This batch with ``count`` rows, of which the new ones weigh nothing."""
        extra = count - self.X.shape[0]
        if not extra:
            return self

        def pad(a):
            return jnp.concatenate([a, jnp.broadcast_to(a[-1:], (extra, *a.shape[1:]))])

        weight = jnp.concatenate([self.weight, jnp.zeros(extra, self.weight.dtype)])
        return self.each(pad)._replace(weight=weight)

    def each(self, change: Callable) -> "Batch":
        """This batch with ``change`` made to every array that has a row for each of its rows."""
        return jax.tree.map(change, self._replace(key=None))._replace(key=self.key)
