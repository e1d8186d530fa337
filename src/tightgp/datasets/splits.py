"""Training, validation and test rows by seed, standardised by the training rows."""

from dataclasses import dataclass

import numpy as np

from tightgp import checks
from tightgp.data.dataset import Dataset
from tightgp.data.scaling import mean_and_scale
from tightgp.datasets.loading import Loaded, load
from tightgp.datasets.source import Source


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """Three standardised data sets, and how to convert to and from the original units.

    In each column, ``original = shift + scale * standardised``.

    Attributes:
        train, validation, test: the standardised data sets; ``validation`` is None if it has no rows.
        rows: the row numbers of the three in the loaded data.
        input_shift, input_scale: (D,) for the inputs.
        target_shift, target_scale: for the target; 0 and 1 if it is not standardised.
        source, seed: the data set, and the seed of its split.
    """

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
        """Standardise new inputs (N, D) that are in the original units."""
        X = np.asarray(checks.matrix("X", X, columns=len(self.input_shift)))
        return (X - self.input_shift) / self.input_scale

    def in_units(self, mean, var=None):
        """A predicted mean, or a mean and a variance, in the original units of the target."""
        mean = self.target_shift + self.target_scale * np.asarray(mean)
        return mean if var is None else (mean, self.target_scale**2 * np.asarray(var))

    def log_density_in_units(self, log_density):
        """The log density of targets in their original units, from that of standardised targets."""
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
    """Split a data set at random into training, validation and test rows, and standardise it by the training rows.

    The default is the paper's: 64 % train, 16 % validate, 20 % test. A column that is constant in the training rows is
    centred and not scaled.

    Args:
        data: the name of a data set, a `Source`, or a `Loaded`.
        seed: decides which rows go where.
        test: share of all rows to test on.
        validation: share of the other rows to validate on.
        standardise_targets: None standardises targets unless they are counts or classes.

    >>> source = tgp.datasets.Source("mine", "made up", "mine.csv", rows=60, inputs=("a", "b"), target="c")
    >>> parts = tgp.datasets.split(tgp.datasets.Loaded(X, y, source), seed=3)
    >>> parts
    Split('mine', seed=3, rows=38/10/12)
    >>> np.round(parts.train.X.std(axis=0), 9)
    array([1., 1.])
    """
    checks.seed("seed", seed)
    checks.share("test", test)
    checks.share("validation", validation)
    loaded = data if isinstance(data, Loaded) else load(data)
    count = len(loaded.y)
    order = np.random.default_rng(seed).permutation(count)
    rest, test_rows = np.split(order, [int((1 - test) * count)])
    train_rows, validation_rows = np.split(rest, [int((1 - validation) * len(rest))])
    if min(len(train_rows), len(test_rows)) == 0:
        raise ValueError(f"{count} rows with test={test} and validation={validation} leave no row to train or to test")
    # One table, because NumPy sums a single column in another order, and the last digits would differ.
    shift, scale = mean_and_scale(np.column_stack([loaded.X[train_rows], loaded.y[train_rows]]))
    standardised = loaded.source.task == "regression" if standardise_targets is None else standardise_targets
    if not standardised:
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
