"""The training rows that a posterior keeps, for predictions that go back to them."""

import functools
from collections.abc import Iterable
from dataclasses import replace

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp.bounds import statistics
from tightgp.bounds.latents import Latents
from tightgp.bounds.statistics import Process
from tightgp.bounds.structures import Structure
from tightgp.data.neighbours import NeighbourSearch
from tightgp.data.partition import metric_of
from tightgp.data.rows import Rows
from tightgp.kernels import Kernel


class TrainingRows(eqx.Module):
    """Training rows on the host, in the data's order.

    A posterior at the optimal q(u) also keeps the process, the order in which blocks are consecutive (None where it is
    the data's), and Σ r; beside an explicit q(u) these are None. ``metric`` is what inputs were divided by when
    training searched for neighbours, so that predictions find such neighbours too; None where it did not search.
    """

    rows: Rows
    structure: Structure = eqx.field(static=True)
    process: Process | None = None
    order: np.ndarray | None = None
    residual: Float[Array, ""] | None = None
    metric: Float[Array, " d"] | None = None

    @functools.cached_property
    def prepared(self) -> dict:
        """What predictions have computed of these rows and keep; not part of files."""
        return {}

    def search_metric(self, kernel: Kernel) -> np.ndarray:
        """What inputs are divided by to find neighbours: as in training, or the lengthscales of ``kernel``."""
        lengthscales = kernel.length_scales(self.rows.X.shape[1]) if self.metric is None else self.metric
        return metric_of(self.rows.X, [np.asarray(lengthscales)])

    def with_metric(self, kernels: Iterable[Kernel]) -> "TrainingRows":
        """These rows with the metric of their search, which then stays whatever rows come or go.

        Nothing changes where the kernels differ in it: their lengthscales are the metrics, whatever the rows.
        """
        first, *others = [self.search_metric(kernel) for kernel in kernels]
        shared = all(np.array_equal(first, other) for other in others)
        return replace(self, metric=jnp.asarray(first)) if shared else self

    def search(self, kernel: Kernel) -> NeighbourSearch:
        """The search for neighbours among these rows."""
        return NeighbourSearch.of(np.asarray(self.rows.X), self.search_metric(kernel))

    @property
    def in_order(self) -> Rows:
        """The rows in the order of their blocks."""
        return self.rows if self.order is None else self.rows.take(self.order)._replace(index=None)

    def optimal_V(self, latents: Latents) -> Float[Array, "b s s"]:
        """The diagonal blocks of the optimal V (maths 1.4), in the order of the blocks."""
        assert self.process is not None
        assert self.residual is not None
        rows = self.in_order.map(jnp.asarray)
        return statistics.optimal_V(self.process, rows, latents.whitener.inverse, self.structure, self.residual)

    def optimal_v(self, latents: Latents) -> Float[Array, " n"]:
        """The diagonal of the optimal V, in the data's order."""
        v = jnp.diagonal(self.optimal_V(latents), axis1=1, axis2=2).reshape(-1)[: self.rows.num_rows]
        return v if self.order is None else jnp.zeros_like(v).at[self.order].set(v)
