"""q(X): an independent Gaussian for each uncertain input of each row (maths 7.7)."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp import checks, parameters
from tightgp.data import Dataset
from tightgp.data.input_variance import AnyArray, InputVariance
from tightgp.data.rows import Rows
from tightgp.parameters import Parameter, reader


def check_prior(prior: InputVariance) -> None:
    """Refuse a prior whose variance is zero in some rows of a column: q(x) could not differ from it there."""
    if not isinstance(prior.variance, jax.core.Tracer) and np.any(np.asarray(prior.variance) <= 0):
        raise ValueError("input_variance must be above zero in every row of a column that is uncertain")


class LatentInputs(eqx.Module):
    """``q(X) = Π N(x_iq | mean_iq, variance_iq)`` over N rows and Q uncertain columns."""

    _mean: Parameter
    _variance: Parameter

    mean = reader("_mean", "Means (N, Q).")
    variance = reader("_variance", "Variances (N, Q).")

    def __init__(self, mean, variance=0.1):
        self._mean = parameters.real(mean, name="mean")
        checks.matrix("mean", self._mean.raw)
        if not isinstance(variance, Parameter):
            value = checks.positive("variance", variance)
            if value.shape not in ((), self._mean.raw.shape):
                raise ValueError(f"variance must be one number or have shape {self._mean.raw.shape}, got {value.shape}")
            full = jnp.broadcast_to(jnp.asarray(value, self._mean.raw.dtype), self.mean.shape)
            variance = parameters.positive(full, name="variance", squared=True)
        self._variance = variance

    def check(self, data: Dataset) -> None:
        """Refuse data with another number of rows, or of uncertain columns."""
        if not isinstance(data, Dataset):
            raise ValueError(f"data must be a tightgp.Dataset such as Dataset.latent(Y, 2), got {type(data).__name__}")
        n, q = self.mean.shape
        if data.num_data != n:
            raise ValueError(
                f"data have {data.num_data} row(s) but the model has latent inputs of {n}; they must agree"
            )
        prior = data.uncertain_inputs
        if prior is None:
            raise ValueError(
                "data say that all inputs are known; pass Dataset.latent(Y, Q), or Dataset(X, Y, input_variance=...)"
            )
        if len(prior.columns) != q:
            raise ValueError(
                f"data have {len(prior.columns)} uncertain input column(s) but the model has {q}; they must agree"
            )
        check_prior(prior)

    def take(self, index: AnyArray) -> "LatentInputs":
        """The latent inputs of some rows."""
        return jax.tree.map(lambda a: a[index], self)

    def placed(self, rows: Rows) -> Rows:
        """``rows`` with q in place of the prior of their inputs."""
        prior, columns = _prior(rows)
        X = self.mean if columns is None else jnp.asarray(rows.X).at[:, columns].set(self.mean)
        return rows._replace(X=X, input_variance=InputVariance(self.variance, prior.columns))

    def divergence(self, rows: Rows) -> Float[Array, ""]:
        """``Σ_i weight_i KL[q(x_i) ‖ p(x_i)]`` with the prior p of these rows."""
        prior, columns = _prior(rows)
        X = rows.X if columns is None else rows.X[:, columns]
        ratio = self.variance / prior.variance
        each = ratio + (self.mean - X) ** 2 / prior.variance - 1 - jnp.log(ratio)
        return 0.5 * jnp.sum(rows.weight * jnp.sum(each, axis=1))

    def perturbed(self, key) -> "LatentInputs":
        """Another start: means moved at random by a tenth of their standard deviation."""
        if self._mean.frozen:
            return self
        noise = jax.random.normal(key, self.mean.shape, self.mean.dtype)
        moved = self.mean + 0.1 * jnp.std(self.mean, axis=0) * noise
        return eqx.tree_at(lambda i: i._mean.raw, self, moved)


def _prior(rows: Rows) -> tuple[InputVariance, Array | None]:
    """The prior of the rows' inputs and its columns; None where these are all columns of the inputs."""
    prior = rows.input_variance
    assert prior is not None
    return prior, None if len(prior.columns) == rows.X.shape[1] else jnp.asarray(prior.columns)
