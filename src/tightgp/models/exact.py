"""Exact GP regression: the yardstick, for data small enough."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp import diagnosis, linalg, means, parameters
from tightgp.data import Dataset
from tightgp.kernels import Kernel
from tightgp.latents import Latents, Whitened
from tightgp.likelihoods import Gaussian
from tightgp.models.base import Model, check_finite, check_mean, check_parts, noise_parameter, to_rows
from tightgp.parameters import Parameter
from tightgp.posterior import Posterior
from tightgp.statistics import Rows


class ExactGP(Model):
    """GP regression with Gaussian noise, O(N³) time and O(N²) memory. The data's dtype decides the precision.

    >>> ExactGP(SquaredExponential(), noise_variance=0.1).log_evidence(Dataset(X, y))
    """

    kernel: Kernel
    mean: means.Mean
    _noise_variance: Parameter | None

    def __init__(self, kernel: Kernel, noise_variance=0.1, mean: means.Mean | None = None):
        mean = means.Zero() if mean is None else mean
        check_parts(kernel, mean)
        self.kernel, self.mean = kernel, mean
        self._noise_variance = noise_parameter(noise_variance)

    @property
    def noise_variance(self) -> Float[Array, ""]:
        """Noise variance σ²; zero where all noise is known from the data."""
        return jnp.zeros(()) if self._noise_variance is None else self._noise_variance.value

    def log_evidence(self, data: Dataset) -> Float[Array, ""]:
        """``log N(y | m, Kff + σ²I)``, summed over outputs, in total nats."""
        model, rows = self.prepare(data)
        return check_finite(_log_evidence(model, rows)[0], model, rows)

    def posterior(self, data: Dataset) -> Posterior:
        """The exact posterior, its factor computed once."""
        model, rows = self.prepare(data)
        latents = _latents(model, rows)
        check_finite(jnp.sum(latents.q[0].mean), model, rows)
        return Posterior(
            latents=(latents,),
            mean=model.mean,
            likelihood=Gaussian(model._noise_variance),
            mixing=None,
            scale=None,
            training=None,
            vector=data.vector,
        )

    def prepare(self, data: Dataset) -> tuple["ExactGP", Rows]:
        dtype = data.X.dtype if isinstance(data, Dataset) else None
        if dtype is not None and data.spread is not None:
            raise ValueError("ExactGP needs inputs that are known; with input_variance use tightgp.SGPR")
        rows = jax.tree.map(jnp.asarray, to_rows(data, self._noise_variance, dtype))
        model = parameters.cast(self, rows.X.dtype)
        check_mean(model.mean, rows.X, data.num_outputs)
        jax.eval_shape(model.kernel, rows.X)
        return model, rows

    def objective(self, rows: Rows) -> tuple[Float[Array, ""], dict[str, Any]]:
        value, diagnostics = _log_evidence(self, rows)
        return value + parameters.log_prior(self), diagnostics

    def random_start(self, key, rows: Rows) -> "ExactGP":
        return parameters.perturbed(self, key)

    def explain(self, rows: Rows) -> str:
        return diagnosis.explain(self, rows, self.kernel, rows.X, "Kff")


def _factor(model: ExactGP, rows: Rows):
    K = model.kernel(rows.X) + jnp.diag(model.noise_variance.astype(rows.X.dtype) + rows.known)
    return linalg.factorise(K, jitter=0.0), rows.y - model.mean(rows.X)


@eqx.filter_jit
def _log_evidence(model: ExactGP, rows: Rows):
    factor, y = _factor(model, rows)
    logdet, quadratic = linalg.logdet_quadratic(factor.matrix, y, factor.inverse)
    n, p = rows.y.shape
    value = -0.5 * (p * (n * jnp.log(2 * jnp.pi) + logdet) + quadratic)
    return value, {"noise_variance": model.noise_variance, "jitter": factor.jitter}


@eqx.filter_jit
@linalg.full_precision
def _latents(model: ExactGP, rows: Rows) -> Latents:
    factor, y = _factor(model, rows)
    return Latents(model.kernel, rows.X, factor.matrix, factor.inverse, (Whitened(factor.inverse @ y, None),))
