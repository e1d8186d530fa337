"""Ordered levels: ratings, grades, stages."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import log_ndtr, ndtr
from jaxtyping import Array, Float
from scipy.special import ndtri

from tightgp import checks
from tightgp.likelihoods.base import Likelihood, refuse, several
from tightgp.likelihoods.counts import whole
from tightgp.likelihoods.special import log_between
from tightgp.parameters import FLOOR, Parameter, positive, reader, real

_FEW = "for two levels use Bernoulli"


class Ordinal(Likelihood):
    """Levels 0 to K−1: y counts the edges below ``f + scale·ε``, so ``P(y=k|f) = Φ((b_k−f)/s) − Φ((b_{k−1}−f)/s)``.

    The K−1 edges are trained; the scale s is not, since the kernel's variance does the same. Say how many levels
    there are, or the edges to start from. Moments are those of the number of the level. Predictions have a
    closed form.
    """

    _first_edge: Parameter
    _gaps: Parameter
    _scale: Parameter
    first_edge = reader("_first_edge", "The edge between levels 0 and 1.")
    gaps = reader("_gaps", "From each edge to the next.")
    scale = reader("_scale", "Standard deviation s of what is added to f.")

    def __init__(self, num_levels=None, edges=None, scale=1.0):
        if edges is None:
            if num_levels is None:
                raise ValueError("Ordinal needs num_levels or edges")
            levels = several("num_levels", num_levels, _FEW, least=3)
            # All levels equally probable where f has mean 0 and variance 1, and so has the noise.
            edges = np.sqrt(2) * ndtri(np.arange(1, levels) / levels)
        edges = checks.floats("edges", edges)
        if edges.ndim != 1 or len(edges) < 2:
            raise ValueError(f"edges must be at least 2 numbers, got shape {edges.shape}; {_FEW}")
        if num_levels is not None and num_levels != len(edges) + 1:
            raise ValueError(f"{len(edges)} edges make {len(edges) + 1} levels, but num_levels is {num_levels}")
        gaps = jnp.diff(edges)
        if not isinstance(gaps, jax.core.Tracer) and not np.all(np.asarray(gaps) > FLOOR):
            raise ValueError(f"edges must increase, by more than {FLOOR:g} each, got {np.asarray(edges)}")
        self._first_edge = real(edges[0], name="edges")
        self._gaps = positive(gaps, name="edges", floor=FLOOR)
        self._scale = positive(scale, name="scale", floor=FLOOR, frozen=True, scalar=True)

    @property
    def num_levels(self) -> int:
        """How many levels there are."""
        return self._gaps.raw.shape[0] + 2

    @property
    def edges(self) -> Float[Array, " e"]:
        """Where one level ends and the next begins."""
        return self.first_edge + jnp.concatenate([jnp.zeros(1, self.gaps.dtype), jnp.cumsum(self.gaps)])

    def _log_probability(self, F, y, scale):
        level, last = y.astype(int), self.num_levels - 1
        below = (self.edges[jnp.maximum(level - 1, 0)] - F) / scale
        outer = log_ndtr(jnp.where(level == 0, below, -below))  # edge 0 is above level 0 and below level 1
        inner = log_between(below, self.gaps[jnp.clip(level - 1, 0, last - 2)] / scale)
        return jnp.where((level == 0) | (level == last), outer, inner)

    def _moments(self, F, scale):
        z = (F[..., None] - self.edges) / scale[..., None]
        passed, stopped = ndtr(z), ndtr(-z)
        # y is a sum of indicators "edge passed"; two of them have the covariance P(further passed) P(nearer not).
        variance = jnp.sum(passed * (2 * jnp.cumsum(stopped, axis=-1) - stopped), axis=-1)
        return jnp.sum(passed, axis=-1), variance

    def log_density(self, F, y):
        return self._log_probability(F, y, self.scale)

    def moments(self, F):
        return self._moments(F, self.scale)

    def sample(self, key, F):
        noisy = F + self.scale * jax.random.normal(key, F.shape, F.dtype)
        return jnp.sum(noisy[..., None] > self.edges, axis=-1).astype(F.dtype)

    def check_targets(self, y) -> None:
        last = self.num_levels - 1
        refuse(self, y, lambda y: whole(y, last), f"whole numbers from 0 to {last}, the levels,")

    def predict(self, mean, var, key=None):
        return self._moments(mean, jnp.sqrt(self.scale**2 + var))

    def predictive_log_density(self, mean, var, y, key=None):
        return self._log_probability(mean, y, jnp.sqrt(self.scale**2 + var))
