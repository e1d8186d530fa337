"""Ordered levels: ratings, grades, stages."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr, ndtr
from jaxtyping import Array, Float
from scipy.special import ndtri

from tightgp import checks
from tightgp.likelihoods.base import ClosedForm, whole_numbers
from tightgp.likelihoods.special import log_ndtr_difference
from tightgp.parameters import FLOOR, Parameter, positive, reader, real


class Ordinal(ClosedForm):
    """``P(y=k | f) = Φ((b_k − f)/s) − Φ((b_{k−1} − f)/s)`` for levels k = 0 to K−1 with edges b.

    The level is the number of edges below ``f + s·ε``. The K−1 edges are trained; the scale s is fixed, since the
    kernel's variance has the same effect. `moments` and `predict` describe the number of the level. Predictions have a
    closed form.

    Args:
        num_levels: the number of levels K, at least 3; may be left out where ``edges`` are given.
        edges: the K−1 increasing edges to start from; by default those that make all levels equally probable.
        scale: the standard deviation s of the noise added to f.

    >>> likelihood = tgp.likelihoods.Ordinal(edges=[-1.0, 0.0, 1.0])
    >>> likelihood.num_levels
    4
    """

    _first_edge: Parameter
    _gaps: Parameter
    _scale: Parameter
    first_edge = reader("_first_edge", "The edge between levels 0 and 1.")
    gaps = reader("_gaps", "Distances from each edge to the next.")
    scale = reader("_scale", "Standard deviation s of the noise added to f.")

    def __init__(self, num_levels=None, edges=None, scale=1.0):
        if edges is None:
            if num_levels is None:
                raise ValueError("Ordinal needs num_levels or edges")
            levels = checks.count("num_levels", num_levels, least=3, hint="for two levels use Bernoulli")
            # All levels have the same probability under f ~ N(0, 1) with noise of variance 1.
            edges = np.sqrt(2) * ndtri(np.arange(1, levels) / levels)
        edges = checks.floats("edges", edges)
        if edges.ndim != 1 or len(edges) < 2:
            raise ValueError(f"edges must be 2 or more numbers, got shape {edges.shape}; for two levels use Bernoulli")
        if num_levels is not None and num_levels != len(edges) + 1:
            raise ValueError(f"{len(edges)} edges make {len(edges) + 1} levels, but num_levels is {num_levels}")
        self._first_edge = real(edges[0], name="edges")
        self._gaps = positive(jnp.diff(edges), name="gaps between edges", floor=FLOOR)
        self._scale = positive(scale, name="scale", floor=FLOOR, frozen=True, scalar=True)

    @property
    def num_levels(self) -> int:
        """The number of levels K."""
        return self._gaps.raw.shape[0] + 2

    @property
    def edges(self) -> Float[Array, " e"]:
        """The K−1 edges between levels."""
        return self.first_edge + jnp.concatenate([jnp.zeros(1, self.gaps.dtype), jnp.cumsum(self.gaps)])

    @property
    def support(self):
        last = self.num_levels - 1
        return whole_numbers(f"whole numbers from 0 to {last}, the levels,", last)

    def predictive_log_density(self, mean, var, y, key=None):
        scale, level, last = jnp.sqrt(self.scale**2 + var), y.astype(int), self.num_levels - 1
        below = (self.edges[jnp.maximum(level - 1, 0)] - mean) / scale
        outer = log_ndtr(jnp.where(level == 0, below, -below))  # edge 0 is above level 0 and below level 1
        inner = log_ndtr_difference(below, self.gaps[jnp.clip(level - 1, 0, last - 2)] / scale)
        return jnp.where((level == 0) | (level == last), outer, inner)

    def predict(self, mean, var, key=None):
        z = (mean[..., None] - self.edges) / jnp.sqrt(self.scale**2 + var)[..., None]
        above, below = ndtr(z), ndtr(-z)
        # y is the sum of the indicators "above edge i", with covariances P(above the higher) P(below the lower).
        variance = jnp.sum(above * (2 * jnp.cumsum(below, axis=-1) - below), axis=-1)
        return jnp.sum(above, axis=-1), variance

    def sample(self, key, F):
        noisy = F + self.scale * jax.random.normal(key, F.shape, F.dtype)
        return jnp.sum(noisy[..., None] > self.edges, axis=-1).astype(F.dtype)
