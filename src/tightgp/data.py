"""A table of inputs and targets, checked once."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tightgp import checks


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """Inputs ``X`` (N, D), targets ``y`` (N,) or (N, P), and optionally each row's known noise variance (N,).

    A known variance adds to the model's own: row i has noise ``noise_variance[i] + model.noise_variance``.
    Arrays are checked once and not copied: do not change them afterwards.

    >>> data = Dataset([[0.0], [1.0]], [0.3, 0.7])
    >>> data.num_data, data.num_inputs, data.num_outputs
    (2, 1, 1)
    """

    X: Any
    y: Any
    noise_variance: Any = None

    def __post_init__(self):
        X = checks.matrix("X", self.X)
        y = checks.floats("y", self.y, X.dtype)
        if y.ndim not in (1, 2):
            raise ValueError(f"y must have shape (N,) or (N, P), got {y.shape}")
        if y.shape[0] != X.shape[0]:
            raise ValueError(f"y has {y.shape[0]} row(s) but X has {X.shape[0]}; each row of X needs one target")
        if y.ndim == 2 and y.shape[1] == 0:
            raise ValueError(f"y has no columns (shape {y.shape}); it needs at least one")
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
        return Dataset(self.X[rows], self.y[rows], noise)

    def __repr__(self) -> str:
        known = "" if self.noise_variance is None else ", known noise variances"
        return f"Dataset(N={self.num_data}, D={self.num_inputs}, P={self.num_outputs}, {np.dtype(self.X.dtype)}{known})"
