"""Several classes without an order: one latent function for each.

Targets are labels 0 to C−1 in one column. `moments` and `predict` speak of the C indicators of the classes: the
means (n, C) are the classes' probabilities p, the variances are p(1−p).
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr

from tightgp import checks
from tightgp.likelihoods.base import Likelihood, hermite, refuse, several
from tightgp.likelihoods.counts import whole


def _of_class(values, y):
    """For each row the value of its class: (..., n, C) to (..., n, 1)."""
    chosen = jnp.arange(values.shape[-1]) == y
    return jnp.sum(jnp.where(chosen, values, 0), axis=-1, keepdims=True)


class _Classes(Likelihood):
    """Labels 0 to C−1."""

    num_classes: int = eqx.field(static=True)

    @property
    def num_latents(self) -> int:
        return self.num_classes

    def check_targets(self, y) -> None:
        last = self.num_classes - 1
        refuse(self, y, lambda y: whole(y, last), f"a label, a whole number from 0 to {last},")


class Softmax(_Classes):
    """``P(y=c|f) = exp(f_c)/Σ_k exp(f_k)``. `predict` gives the classes' probabilities (n, C) and their p(1−p).

    With more than two classes expectations are over draws.
    """

    def __init__(self, num_classes):
        self.num_classes = several("num_classes", num_classes, "one class leaves nothing to learn")

    def log_density(self, F, y):
        return _of_class(F, y) - jax.nn.logsumexp(F, axis=-1, keepdims=True)

    def moments(self, F):
        p = jax.nn.softmax(F, axis=-1)
        return p, p * (1 - p)

    def sample(self, key, F):
        return jax.random.categorical(key, F)[..., None].astype(F.dtype)

    def expected_log_density(self, mean, var, y, key=None):
        F, log_weights = self._nodes(mean, var, key)
        normaliser = jnp.tensordot(jnp.exp(log_weights), jax.nn.logsumexp(F, axis=-1, keepdims=True), axes=1)
        return _of_class(mean, y) - normaliser


class RobustMax(_Classes):
    """The class of the largest latent has probability 1−ε, each other one ε/(C−1): mislabelled rows pull little.

    `predict` gives the classes' probabilities (n, C) and their p(1−p). Everything follows from the probability that
    a latent is the largest, ``E[Π_{c≠y} Φ((f_y − m_c)/s_c)]``, an integral over one latent.
    """

    epsilon: float = eqx.field(static=True)

    def __init__(self, num_classes, epsilon=1e-3):
        self.num_classes = several("num_classes", num_classes, "one class leaves nothing to learn")
        self.epsilon = checks.number("epsilon", epsilon)
        if not 0 < self.epsilon < 1:
            raise ValueError(f"epsilon must be above 0 and below 1, got {epsilon}")

    @property
    def _other(self) -> float:
        return self.epsilon / (self.num_classes - 1)

    def _spread(self, largest):
        """Probability of a class from that of its latent being the largest."""
        return self._other + largest * (1 - self.epsilon - self._other)

    def _largest(self, mean, var, y):
        """The probability that the latent of class y is the largest of its row."""
        # The floor keeps the derivative in var from overflowing; below it a latent is known to all its digits.
        var = jnp.maximum(var, jnp.finfo(var.dtype).eps ** 2)
        f, log_weights = hermite(_of_class(mean, y), _of_class(var, y))
        others = jnp.where(jnp.arange(self.num_classes) == y, 1.0, ndtr((f - mean) / jnp.sqrt(var)))
        return jnp.tensordot(jnp.exp(log_weights), jnp.prod(others, axis=-1, keepdims=True), axes=1)

    def log_density(self, F, y):
        right = jnp.argmax(F, axis=-1, keepdims=True) == y
        return jnp.where(right, math.log1p(-self.epsilon), math.log(self._other)).astype(F.dtype)

    def moments(self, F):
        largest = jax.nn.one_hot(jnp.argmax(F, axis=-1), self.num_classes, dtype=F.dtype)
        p = self._spread(largest)
        return p, p * (1 - p)

    def sample(self, key, F):
        return jax.random.categorical(key, jnp.log(self.moments(F)[0]))[..., None].astype(F.dtype)

    def expected_log_density(self, mean, var, y, key=None):
        right, wrong = math.log1p(-self.epsilon), math.log(self._other)
        return wrong + self._largest(mean, var, y) * (right - wrong)

    def predict(self, mean, var, key=None):
        # Class by class: all at once would hold C² numbers for each row and node.
        columns = jax.lax.map(lambda c: self._largest(mean, var, c)[:, 0], jnp.arange(self.num_classes))
        p = self._spread(columns.T / jnp.sum(columns, axis=0)[:, None])
        return p, p * (1 - p)

    def predictive_log_density(self, mean, var, y, key=None):
        return jnp.log(_of_class(self.predict(mean, var)[0], y))
