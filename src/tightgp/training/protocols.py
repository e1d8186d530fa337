"""What `fit` needs of a model. It knows no Gaussian process."""

from typing import Any, Protocol, runtime_checkable

import jax

from tightgp.data import Dataset
from tightgp.data.partition import Partition
from tightgp.data.placement import OnDevice, PlacedRows
from tightgp.data.rows import Rows


@runtime_checkable
class Trainable(Protocol):
    """Any model: `prepare` once, then `objective` many times."""

    def prepare(self, data: Any) -> tuple[Any, PlacedRows]:
        """The model with all that depends on the data fixed, and the rows placed on their devices."""

    def objective(self, rows: PlacedRows, key: jax.Array | None = None) -> tuple[jax.Array, dict[str, Any]]:
        """What training maximises, and named scalars for the trace. Pure."""

    def random_start(self, key: jax.Array, rows: PlacedRows) -> Any:
        """Another start for training."""

    def explain(self, rows: PlacedRows) -> str:
        """Why the objective is not finite."""


@runtime_checkable
class Minibatched(Protocol):
    """A model that can be trained on minibatches."""

    natural_rate: float

    def check_rows(self, data: Dataset) -> Rows:
        """The rows of ``data``, where they are; ValueError if the model cannot be trained on them."""

    def grouped_by(self, X: Any) -> Any:
        """The model with its partition of ``X`` fixed."""

    @property
    def batch_partition(self) -> Partition:
        """Which rows of a minibatch share a block."""

    def for_targets(self, vector: bool) -> Any:
        """The model for targets (N,), or (N, P)."""

    def score(self, rows: OnDevice) -> jax.Array:
        """How well held-out rows are predicted: the larger the better. Pure."""
