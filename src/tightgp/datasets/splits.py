"""Training, validation and test rows by seed, standardised by the training part."""

from dataclasses import dataclass

import numpy as np

from tightgp import checks
from tightgp.data import Dataset
from tightgp.datasets.loading import Loaded, load
from tightgp.datasets.source import Source


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Three data sets in standard units, the rows they were, and the way back: units = shift + scale × standard."""

    train: Dataset
    validation: Dataset | None
    test: Dataset
    rows: tuple[np.ndarray, np.ndarray, np.ndarray]
    input_shift: np.ndarray
    input_scale: np.ndarray
    target_shift: float
    target_scale: float
    source: Source
    seed: int

    def inputs(self, X) -> np.ndarray:
        """New inputs (N, D), given in units, as the model wants them."""
        X = np.asarray(checks.matrix("X", X, columns=len(self.input_shift)))
        return (X - self.input_shift) / self.input_scale

    def in_units(self, mean, var=None):
        """A predicted mean, or a mean and a variance, in the units of the target."""
        mean = self.target_shift + self.target_scale * np.asarray(mean)
        return mean if var is None else (mean, self.target_scale**2 * np.asarray(var))

    def log_density_in_units(self, log_density):
        """A log density of standardised targets as one of targets in their units."""
        return np.asarray(log_density) - np.log(self.target_scale)

    def __repr__(self) -> str:
        counts = "/".join(str(len(rows)) for rows in self.rows)
        return f"Split({self.source.name!r}, seed={self.seed}, rows={counts})"


def split(
    data: str | Source | Loaded,
    seed: int = 0,
    *,
    test: float = 0.2,
    validation: float = 0.2,
    standardise_targets: bool | None = None,
) -> Split:
    """The rows in an order drawn by ``seed``: the last ``test`` of them test, ``validation`` of the rest validate.

    The default is the paper's: 64 % train, 16 % validate, 20 % test. Inputs are standardised by the training part, and
    targets too unless they are counts or classes (or ``standardise_targets`` says otherwise). What is constant in
    the training part is centred and left unscaled.

    >>> parts = split("kin40k", seed=3)
    >>> parts
    Split('kin40k', seed=3, rows=25600/6400/8000)
    """
    checks.seed("seed", seed)
    _share("test", test)
    _share("validation", validation)
    loaded = data if isinstance(data, Loaded) else load(data)
    count = len(loaded.y)
    order = np.random.default_rng(seed).permutation(count)
    rest, test_rows = np.split(order, [int((1 - test) * count)])
    train_rows, validation_rows = np.split(rest, [int((1 - validation) * len(rest))])
    if min(len(train_rows), len(test_rows)) == 0:
        raise ValueError(f"{count} rows with test={test} and validation={validation} leave no row to train or to test")
    scaled = loaded.source.task == "regression" if standardise_targets is None else standardise_targets
    shift, scale = _statistics(loaded, train_rows)
    if not scaled:
        shift[-1], scale[-1] = 0.0, 1.0

    def part(rows: np.ndarray) -> Dataset:
        return Dataset((loaded.X[rows] - shift[:-1]) / scale[:-1], (loaded.y[rows] - shift[-1]) / scale[-1])

    return Split(
        train=part(train_rows),
        validation=part(validation_rows) if len(validation_rows) else None,
        test=part(test_rows),
        rows=(train_rows, validation_rows, test_rows),
        input_shift=shift[:-1],
        input_scale=scale[:-1],
        target_shift=float(shift[-1]),
        target_scale=float(scale[-1]),
        source=loaded.source,
        seed=int(seed),
    )


def _share(name: str, value: float) -> None:
    if not 0 <= checks.number(name, value) < 1:
        raise ValueError(f"{name} must be a share from 0 to below 1, got {value}")


def _statistics(loaded: Loaded, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of every column, the target last.

    They are taken of one table, row by row: of a lone column NumPy sums in another order, and the last digits differ.
    """
    table = np.column_stack([loaded.X[rows], loaded.y[rows]])
    shift, scale = table.mean(axis=0), table.std(axis=0)
    # Rounding can give a constant column a tiny deviation, so it is known by its extremes.
    constant = table.min(axis=0) == table.max(axis=0)
    shift[constant], scale[constant] = table[0, constant], 1.0
    return shift, scale
