"""Exact GP regression, for small data: what sparse models are compared with."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp import means, parameters
from tightgp.bounds import exact
from tightgp.bounds.latents import Latents, Whitened
from tightgp.data import Dataset
from tightgp.data.placement import OnDevice, PlacedRows, on_device
from tightgp.data.rows import Rows
from tightgp.kernels import Kernel
from tightgp.models import base
from tightgp.numerics import dense, linalg
from tightgp.numerics.compiling import quickly_compiled
from tightgp.numerics.linalg import Whitener
from tightgp.numerics.threads import with_one_blas_thread
from tightgp.parameters import Parameter
from tightgp.posterior import Posterior


class ExactGP(base.Model):
    """GP regression with Gaussian noise, O(N³) time and O(N²) memory. The data's dtype decides the precision.

    Args:
        kernel: one of ``tightgp.kernels``.
        noise_variance: σ², where training starts; None if the data have known noise and there is no other.
        mean: one of ``tightgp.means``; None is zero.

    >>> model = tgp.ExactGP(tgp.kernels.SquaredExponential(), noise_variance=0.1)
    >>> float(model.log_evidence(tgp.Dataset(np.zeros((1, 1)), np.zeros(1)))).__round__(3)
    -0.967
    """

    kernel: Kernel
    mean: means.Mean
    _noise_variance: Parameter | None

    def __init__(self, kernel: Kernel, noise_variance=0.1, mean: means.Mean | None = None):
        mean = means.Zero() if mean is None else mean
        base.check_parts(kernel, mean)
        self.kernel, self.mean = kernel, mean
        self._noise_variance = base.noise_parameter(noise_variance)

    @property
    def noise_variance(self) -> Float[Array, ""]:
        """Noise variance σ²; zero if all noise is known from the data."""
        return jnp.zeros(()) if self._noise_variance is None else self._noise_variance.value

    @with_one_blas_thread
    def log_evidence(self, data: Dataset) -> Float[Array, ""]:
        """``log N(y | m, Kff + σ²I)``, summed over outputs, in total nats."""
        model, rows = self.prepare(data)
        return base.check_finite(model.value_on(rows)[0], model, rows)

    @with_one_blas_thread
    def posterior(self, data: Dataset) -> Posterior:
        """The exact posterior; its factor is computed once."""
        model, rows = self.prepare(data)
        latents = _latents(model, rows.rows)
        base.check_finite(latents.q[0].mean, model, rows)
        return base.gaussian_posterior(latents, model.mean, model._noise_variance, data.vector)

    def prepare(self, data: Dataset) -> tuple["ExactGP", OnDevice]:
        base.check_gaussian_data(data, self._noise_variance)
        if data.uncertain_inputs is not None:
            raise ValueError("ExactGP needs inputs that are known; with input_variance use tightgp.SGPR")
        rows = on_device(data.rows())
        model = parameters.cast(self, rows.rows.X.dtype)
        base.check_mean(model.mean, rows.rows.X, data.num_outputs)
        jax.eval_shape(model.kernel, rows.rows.X)
        return model, rows

    @eqx.filter_jit
    def value_on(self, rows: PlacedRows, key: jax.Array | None = None) -> tuple[Float[Array, ""], dict[str, Any]]:
        assert isinstance(rows, OnDevice)
        X = rows.rows.X
        value, jitter = exact.log_density(self.kernel, X, rows.rows.y - self.mean(X), _noise(self, rows.rows))
        return value, {"noise_variance": self.noise_variance, "jitter": jitter}

    def random_start(self, key: jax.Array, rows: PlacedRows) -> "ExactGP":
        return parameters.perturbed(self, key)

    def explain(self, rows: PlacedRows) -> str:
        assert isinstance(rows, OnDevice)
        return base.explain_rows(self, rows, self.kernel, rows.rows.X, "Kff")


def _noise(model: ExactGP, rows: Rows) -> Float[Array, " n"]:
    """Noise variance of each row."""
    return rows.noise(model.noise_variance.astype(rows.X.dtype))


@quickly_compiled
@linalg.full_precision
def _latents(model: ExactGP, rows: Rows) -> Latents:
    W = dense.inverse(exact.factor(model.kernel, rows.X, _noise(model, rows))[0])
    return Latents(model.kernel, rows.X, Whitener(W), (Whitened(W @ (rows.y - model.mean(rows.X)), None),))
