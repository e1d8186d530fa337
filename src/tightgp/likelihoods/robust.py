"""Noise with heavy tails."""

from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from tightgp.likelihoods.base import Likelihood, per_output, refuse
from tightgp.likelihoods.gaussian import log_normal
from tightgp.likelihoods.special import exp, log_beta, log_gamma_peak
from tightgp.parameters import FLOOR, Parameter, positive, reader

#: Points of the even grids on which rates λ are integrated over log λ.
_NUM_RATES = 100
_LOG_RATES, _STEP = np.linspace(-40.0, 3.7, _NUM_RATES, retstep=True)


def _expected_log1p_square(mean, var):
    """``E[log(1 + x²)]`` under ``x ~ N(mean, var)``, for every variance.

    ``log(1 + x²) = ∫ (1 − exp(−λx²)) exp(−λ) dλ/λ``, and ``E[exp(−λx²)]`` has a closed form.
    """
    rate = jnp.asarray(np.exp(_LOG_RATES), mean.dtype)[:, None, None]
    wider = 1 + 2 * rate * var
    log_expected = -0.5 * jnp.log1p(2 * rate * var) - rate * mean**2 / wider
    return -_STEP.item() * jnp.sum(jnp.exp(-rate) * jnp.expm1(log_expected), axis=0)


class StudentT(Likelihood):
    """``y = f + scale·t`` with t from Student's distribution: outliers pull less than under Gaussian noise.

    The degrees of freedom ``df`` are held fixed in training unless `unfreeze` says otherwise. The variance is
    infinite for df ≤ 2; `predict` then still gives f's mean, which is y's median.
    """

    outputwise: ClassVar[tuple[str, ...]] = ("scale",)

    _df: Parameter
    _scale: Parameter
    df = reader("_df", "Degrees of freedom; the fewer, the heavier the tails.")
    scale = reader("_scale", "Size of the noise, one number or one for each output.")

    def __init__(self, df=4.0, scale=1.0):
        self._df = positive(df, name="df", floor=FLOOR, frozen=True, scalar=True)
        self._scale = per_output(scale, "scale", floor=FLOOR)

    def _log_density(self, log1p_square):
        size = log_beta(0.5 * self.df, jnp.full_like(self.df, 0.5)) + 0.5 * jnp.log(self.df) + jnp.log(self.scale)
        return -size - 0.5 * (self.df + 1) * log1p_square

    def log_density(self, F, y):
        return self._log_density(jnp.log1p(((y - F) / self.scale) ** 2 / self.df))

    def _variance(self):
        finite = self.df > 2
        ratio = self.df / jnp.where(finite, self.df - 2, 1.0)
        return jnp.where(finite, self.scale**2 * ratio, jnp.inf)

    def moments(self, F):
        return F, jnp.broadcast_to(self._variance(), F.shape)

    def sample(self, key, F):
        return F + self.scale * jax.random.t(key, self.df, F.shape, F.dtype)

    def check_targets(self, y) -> None:
        refuse(self, y, np.isinf, "finite")

    def expected_log_density(self, mean, var, y, key=None):
        unit = self.scale * jnp.sqrt(self.df)
        return self._log_density(_expected_log1p_square((y - mean) / unit, var / unit**2))

    def predictive_log_density(self, mean, var, y, key=None):
        # t is Gaussian with variance 1/λ, λ ~ Gamma(df/2, df/2), so f is integrated in closed form and log λ on an
        # even grid: nodes over f would miss noise that is much smaller than f's uncertainty.
        df = jax.lax.stop_gradient(self.df)
        first, last = -11 / jnp.sqrt(1 + df) - 50 / (1 + df), jnp.log1p(8 * jnp.sqrt(2 / df) + 72 / df)
        log_rate = jnp.linspace(first, last, _NUM_RATES)[:, None, None]
        step, half = (last - first) / (_NUM_RATES - 1), 0.5 * self.df
        log_weights = jnp.log(step) + log_gamma_peak(half) + half * (1 + log_rate - exp(log_rate))
        variance = var + self.scale**2 * exp(-log_rate)
        return jax.nn.logsumexp(log_weights + log_normal(y, mean, variance), axis=0)

    def predict(self, mean, var, key=None):
        return mean, var + self._variance()
