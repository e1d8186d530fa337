"""Real-valued targets: Gaussian noise, Gaussian noise whose variance is itself a function, Student's t noise."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp.likelihoods.base import FINITE, ClosedExpectation, ClosedForm, Likelihood, positive_per_output
from tightgp.likelihoods.quadrature import gauss_hermite
from tightgp.likelihoods.special import log_beta, log_gamma_peak, log_normal, safe_exp
from tightgp.parameters import FLOOR, Parameter, positive, reader

#: Points of the grids over log λ on which rates λ are integrated.
_NUM_RATES = 100
_LOG_RATES, _STEP = np.linspace(-40.0, 3.7, _NUM_RATES, retstep=True)


class Gaussian(ClosedForm):
    """``y = f + ε`` with ``ε ~ N(0, σ²)``.

    Args:
        noise_variance: the noise variance σ², one number or one for each output; None where the data have all of the
            noise (``Dataset(..., noise_variance=)``).

    >>> mean, var = tgp.likelihoods.Gaussian(0.5).predict(np.array([[1.0]]), np.array([[2.0]]))
    >>> var
    Array([[2.5]], dtype=float64)
    """

    support = FINITE
    per_output = ("noise_variance",)
    quadratic = True

    _noise_variance: Parameter | None
    known: Float[Array, "n 1"] | None
    factor: Float[Array, "n 1"] | None

    def __init__(self, noise_variance=0.1):
        self.known = self.factor = self._noise_variance = None
        if noise_variance is not None:
            self._noise_variance = positive_per_output(noise_variance, "noise_variance", squared=True)

    @property
    def noise_variance(self) -> Float[Array, "*p"]:
        """Noise variance σ²; zero where all noise is known from the data."""
        return jnp.asarray(0.0) if self._noise_variance is None else self._noise_variance.value

    @property
    def variance(self) -> Float[Array, "..."]:
        """σ² times the rows' factors, plus their known noise variances."""
        own = self.noise_variance if self.factor is None else self.noise_variance * self.factor
        return own if self.known is None else own + self.known

    def of_rows(self, known, factor) -> "Gaussian":
        columns = tuple(None if a is None else a[:, None] for a in (known, factor))
        return eqx.tree_at(lambda g: (g.known, g.factor), self, columns, is_leaf=lambda x: x is None)

    def sample(self, key, F):
        return F + jnp.sqrt(self.variance) * jax.random.normal(key, F.shape, F.dtype)

    def predict(self, mean, var, key=None):
        return mean, var + self.variance

    def predictive_log_density(self, mean, var, y, key=None):
        return log_normal(y, mean, var + self.variance)


class HeteroscedasticGaussian(ClosedExpectation):
    """``y = f + ε`` with ``ε ~ N(0, exp(g))``: two latents, f and g.

    All expectations have closed forms but the predictive density, which integrates over g.

    >>> mean, var = tgp.likelihoods.HeteroscedasticGaussian().moments(np.array([[2.0, 0.0]]))
    >>> var
    Array([[1.]], dtype=float64)
    """

    support = FINITE
    num_latents = 2

    def sample(self, key, F):
        return F[..., :1] + jnp.exp(0.5 * F[..., 1:]) * jax.random.normal(key, F[..., :1].shape, F.dtype)

    def expected_log_density(self, mean, var, y, key=None):
        f, g, vf, vg = mean[..., :1], mean[..., 1:], var[..., :1], var[..., 1:]
        return -0.5 * (math.log(2 * math.pi) + g + ((y - f) ** 2 + vf) * safe_exp(0.5 * vg - g))

    def predict(self, mean, var, key=None):
        return mean[..., :1], var[..., :1] + jnp.exp(mean[..., 1:] + 0.5 * var[..., 1:])

    def predictive_log_density(self, mean, var, y, key=None):
        g, log_weights = gauss_hermite(mean[:, 1:], var[:, 1:])
        # Large enough that (y − f)²/variance² does not overflow, which would make gradients NaN.
        smallest = float(jnp.finfo(mean.dtype).tiny) ** 0.4
        variance = jnp.maximum(var[:, :1] + safe_exp(g), smallest)
        return jax.nn.logsumexp(log_normal(y, mean[:, :1], variance) + log_weights[:, None, None], axis=0)


def _expected_log1p_square(mean, var):
    """``E[log(1 + x²)]`` under ``x ~ N(mean, var)``.

    ``log(1 + x²) = ∫ (1 − exp(−λx²)) exp(−λ) dλ/λ``, and ``E[exp(−λx²)]`` has a closed form.
    """
    rate = jnp.asarray(np.exp(_LOG_RATES), mean.dtype)[:, None, None]
    wider = 1 + 2 * rate * var
    log_expected = -0.5 * jnp.log1p(2 * rate * var) - rate * mean**2 / wider
    return -_STEP.item() * jnp.sum(jnp.exp(-rate) * jnp.expm1(log_expected), axis=0)


class StudentT(Likelihood):
    """``y = f + s·t`` where t has Student's distribution with ν degrees of freedom: robust to outliers.

    The degrees of freedom are fixed in training unless `unfreeze` is called. The variance is infinite for ν ≤ 2; the
    mean that `predict` gives is then the median of y.

    Args:
        df: the degrees of freedom ν; the fewer, the heavier the tails.
        scale: the scale s of the noise, one number or one for each output.

    >>> mean, var = tgp.likelihoods.StudentT(df=4.0, scale=0.5).moments(np.array([[1.0]]))
    >>> var
    Array([[0.5]], dtype=float64)
    """

    support = FINITE
    per_output = ("scale",)

    _df: Parameter
    _scale: Parameter
    df = reader("_df", "Degrees of freedom ν; the fewer, the heavier the tails.")
    scale = reader("_scale", "Scale s of the noise, one number or one for each output.")

    def __init__(self, df=4.0, scale=1.0):
        self._df = positive(df, name="df", floor=FLOOR, frozen=True, scalar=True)
        self._scale = positive_per_output(scale, "scale")

    def _log_density(self, log1p_square):
        """Log density where ``log1p_square`` is ``log(1 + t²/ν)`` or its expectation."""
        log_norm = log_beta(0.5 * self.df, jnp.full_like(self.df, 0.5)) + 0.5 * jnp.log(self.df) + jnp.log(self.scale)
        return -log_norm - 0.5 * (self.df + 1) * log1p_square

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

    def expected_log_density(self, mean, var, y, key=None):
        unit = self.scale * jnp.sqrt(self.df)
        return self._log_density(_expected_log1p_square((y - mean) / unit, var / unit**2))

    def predictive_log_density(self, mean, var, y, key=None):
        # t is Gaussian with variance 1/λ, λ ~ Gamma(ν/2, ν/2): f is integrated in closed form and log λ on an even
        # grid. Nodes over f would miss noise that is much smaller than the uncertainty of f.
        df = jax.lax.stop_gradient(self.df)
        first, last = -11 / jnp.sqrt(1 + df) - 50 / (1 + df), jnp.log1p(8 * jnp.sqrt(2 / df) + 72 / df)
        log_rate = jnp.linspace(first, last, _NUM_RATES)[:, None, None]
        step, half = (last - first) / (_NUM_RATES - 1), 0.5 * self.df
        log_weights = jnp.log(step) + log_gamma_peak(half) + half * (1 + log_rate - safe_exp(log_rate))
        variance = var + self.scale**2 * safe_exp(-log_rate)
        return jax.nn.logsumexp(log_weights + log_normal(y, mean, variance), axis=0)

    def predict(self, mean, var, key=None):
        return mean, var + self._variance()
