"""Two outcomes."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.special import log_ndtr, ndtr

from tightgp import checks
from tightgp.likelihoods.base import Likelihood, refuse

#: How a probability follows from f, and its logarithm. Both are symmetric: p(−f) = 1 − p(f).
LINKS: dict[str, tuple[Callable, Callable]] = {
    "probit": (ndtr, log_ndtr),
    "logit": (jax.nn.sigmoid, jax.nn.log_sigmoid),
}


class Bernoulli(Likelihood):
    """Labels 0 or 1, with ``P(y=1|f) = Φ(f)`` ("probit") or ``σ(f)`` ("logit"). `predict` gives ``P(y=1)``.

    Under the probit link predictions have a closed form.
    """

    link: str = eqx.field(static=True)

    def __init__(self, link="probit"):
        checks.choice("link", link, tuple(LINKS))
        self.link = link

    def log_density(self, F, y):
        _, log_probability = LINKS[self.link]
        return log_probability((2 * y - 1) * F)

    def moments(self, F):
        probability, _ = LINKS[self.link]
        return probability(F), probability(F) * probability(-F)

    def sample(self, key, F):
        return jax.random.bernoulli(key, self.moments(F)[0]).astype(F.dtype)

    def check_targets(self, y) -> None:
        refuse(self, y, lambda y: (y != 0) & (y != 1), "a label, 0 or 1 (for labels -1 and 1 pass (y + 1) / 2),")

    def predict(self, mean, var, key=None):
        p = jnp.exp(self.predictive_log_density(mean, var, jnp.ones_like(mean)))
        return p, p * (1 - p)

    def predictive_log_density(self, mean, var, y, key=None):
        if self.link == "probit":
            return self.log_density(mean / jnp.sqrt(1 + var), y)
        return super().predictive_log_density(mean, var, y, key)
