"""Unordered classes, with one latent for each.

Targets are labels 0 to C−1 in one column. `moments` and `predict` describe the C indicators of the classes: the means
(n, C) are the class probabilities p, the variances are p(1−p).
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr

from tightgp import checks
from tightgp.likelihoods.base import Likelihood, whole_numbers
from tightgp.likelihoods.quadrature import gauss_hermite


def _at_label(values, y):
    """The entry of each row that belongs to its label: (..., n, C) to (..., n, 1)."""
    return jnp.sum(jnp.where(jnp.arange(values.shape[-1]) == y, values, 0), axis=-1, keepdims=True)


class _Classes(Likelihood):
    """Labels 0 to C−1."""

    num_classes: int = eqx.field(static=True)

    def __init__(self, num_classes):
        self.num_classes = checks.count("num_classes", num_classes, least=2)

    @property
    def num_latents(self) -> int:
        return self.num_classes

    @property
    def support(self):
        last = self.num_classes - 1
        return whole_numbers(f"a label, a whole number from 0 to {last},", last)

    def sample(self, key, F):
        return jax.random.categorical(key, jnp.log(self.moments(F)[0]))[..., None].astype(F.dtype)


class Softmax(_Classes):
    """``P(y=c | f) = exp(f_c) / Σ_k exp(f_k)``. `predict` gives the class probabilities p (n, C) and p(1−p).

    With more than two classes expectations are averages over draws.

    Args:
        num_classes: the number of classes C, at least 2.

    >>> p, _ = tgp.likelihoods.Softmax(num_classes=4).moments(np.zeros((1, 4)))
    >>> p
    Array([[0.25, 0.25, 0.25, 0.25]], dtype=float64)
    """

    def log_density(self, F, y):
        return _at_label(F, y) - jax.nn.logsumexp(F, axis=-1, keepdims=True)

    def moments(self, F):
        p = jax.nn.softmax(F, axis=-1)
        return p, p * (1 - p)


class RobustMax(_Classes):
    """``P(y=c | f) = 1 − ε`` for the class with the largest latent, ``ε/(C−1)`` for each other: robust to wrong labels.

    `predict` gives the class probabilities p (n, C) and p(1−p). All expectations follow from the probability that a
    latent is the largest, ``E[Π_{c≠y} Φ((f_y − m_c)/s_c)]``, an integral over one latent.

    Args:
        num_classes: the number of classes C, at least 2.
        epsilon: the probability ε of another class than that of the largest latent.

    >>> p, _ = tgp.likelihoods.RobustMax(num_classes=3, epsilon=0.2).moments(np.array([[0.0, 5.0, 1.0]]))
    >>> p
    Array([[0.1, 0.8, 0.1]], dtype=float64)
    """

    epsilon: float = eqx.field(static=True)

    def __init__(self, num_classes, epsilon=1e-3):
        super().__init__(num_classes)
        self.epsilon = checks.number("epsilon", epsilon)
        if not 0 < self.epsilon < 1:
            raise ValueError(f"epsilon must be above 0 and below 1, got {epsilon}")

    @property
    def _wrong(self) -> float:
        """Probability of each class but that of the largest latent."""
        return self.epsilon / (self.num_classes - 1)

    def _class_probability(self, largest):
        """Probability of a class, from the probability that its latent is the largest."""
        return self._wrong + largest * (1 - self.epsilon - self._wrong)

    def _probability_largest(self, mean, var, y):
        """Probability that the latent of class y is the largest of its row."""
        # The floor keeps the derivative in var from overflowing; it is below the rounding error of a latent.
        var = jnp.maximum(var, jnp.finfo(var.dtype).eps ** 2)
        f, log_weights = gauss_hermite(_at_label(mean, y), _at_label(var, y))
        others = jnp.where(jnp.arange(self.num_classes) == y, 1.0, ndtr((f - mean) / jnp.sqrt(var)))
        return jnp.tensordot(jnp.exp(log_weights), jnp.prod(others, axis=-1, keepdims=True), axes=1)

    def log_density(self, F, y):
        right = jnp.argmax(F, axis=-1, keepdims=True) == y
        return jnp.where(right, math.log1p(-self.epsilon), math.log(self._wrong)).astype(F.dtype)

    def moments(self, F):
        largest = jax.nn.one_hot(jnp.argmax(F, axis=-1), self.num_classes, dtype=F.dtype)
        p = self._class_probability(largest)
        return p, p * (1 - p)

    def expected_log_density(self, mean, var, y, key=None):
        right, wrong = math.log1p(-self.epsilon), math.log(self._wrong)
        return wrong + self._probability_largest(mean, var, y) * (right - wrong)

    def predict(self, mean, var, key=None):
        # One class at a time: all at once would need C² numbers for each row and node.
        classes = jnp.arange(self.num_classes)
        columns = jax.lax.map(lambda c: self._probability_largest(mean, var, c)[:, 0], classes)
        p = self._class_probability(columns.T / jnp.sum(columns, axis=0)[:, None])
        return p, p * (1 - p)

    def predictive_log_density(self, mean, var, y, key=None):
        return jnp.log(_at_label(self.predict(mean, var)[0], y))
