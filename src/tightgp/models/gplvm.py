"""The Bayesian GP-LVM: regression on inputs that are not known, with a trained Gaussian over them (maths 7.7)."""

from dataclasses import replace
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp import checks, inducing, kernels
from tightgp.bounds.structures import Structure
from tightgp.data import Dataset
from tightgp.data.placement import OnDevice, PlacedRows
from tightgp.data.rows import Rows
from tightgp.kernels import Kernel
from tightgp.likelihoods import Gaussian
from tightgp.likelihoods.base import Likelihood
from tightgp.models.base import BatchModel, as_estimate, check_finite, with_fields
from tightgp.models.construction import as_tuple
from tightgp.models.latent_inputs import LatentInputs, check_prior
from tightgp.models.sgpr import SGPR
from tightgp.models.svgp import SVGP
from tightgp.numerics.components import principal
from tightgp.posterior import Posterior


class GPLVM(BatchModel):
    """A Bayesian GP-LVM (Titsias & Lawrence 2010): ``model`` on inputs that are unknown, or known up to a variance.

    The data give the prior of the inputs: ``Dataset.latent(Y, Q)`` a standard normal one over Q of them,
    ``Dataset(X, Y, input_variance=...)`` a Gaussian about X; columns without variance stay as they are. The bound is
    that of ``model``, with ψ-statistics, less the divergence of q(X) from the prior (maths 7.7).

    Args:
        model: `SGPR`, for all rows at once with q(u) in closed form; or `SVGP`, for minibatches and other likelihoods,
            with ``num_latents`` the number of columns of Y.
        mean: means (N, Q) of q(X) to start from, of the uncertain columns.
        variance: variances of q(X) to start from: one number, or (N, Q).

    >>> Y = np.column_stack([X, y])
    >>> model = tgp.GPLVM.start(Y, num_latents=2, num_inducing=10)
    >>> result = tgp.fit(model, tgp.Dataset.latent(Y, 2), steps=5, progress=False)
    >>> result.model.inputs.mean.shape, result.model.relevance.shape
    ((60, 2), (2,))
    """

    #: Whether the model has parameters for each row, so that minibatches must say which rows they hold.
    remembers_rows: ClassVar[bool] = True

    model: SGPR | SVGP
    inputs: LatentInputs

    def __init__(self, model: SGPR | SVGP, mean, variance=0.1):
        if not isinstance(model, SGPR | SVGP):
            raise ValueError(f"model must be tightgp.SGPR or tightgp.SVGP, got {type(model).__name__}")
        self.model, self.inputs = model, LatentInputs(mean, variance)
        checks.same_dtype("mean", self.inputs.mean, "the model", as_tuple(model.Z)[0])

    @classmethod
    def of(cls, model: SGPR | SVGP, data: Dataset) -> "GPLVM":
        """A model for inputs that are known up to the variance that ``data`` give them: q(X) starts there.

        >>> data = tgp.Dataset(X, y, input_variance=0.1)
        >>> model = tgp.GPLVM.of(tgp.SGPR(tgp.kernels.SquaredExponential(), X[:10]), data)
        >>> model.inputs.variance.shape
        (60, 2)
        """
        if not isinstance(data, Dataset) or data.uncertain_inputs is None:
            raise ValueError("data must be a Dataset with an input_variance: Dataset(X, y, input_variance=...)")
        prior = data.uncertain_inputs
        check_prior(prior)
        return cls(model, data.X[:, prior.columns], prior.variance)

    @classmethod
    def start(
        cls,
        Y,
        num_latents: int,
        num_inducing: int = 50,
        *,
        kernel: Kernel | None = None,
        noise_variance: float | None = None,
        bound: str | Structure | None = None,
        likelihood: Likelihood | None = None,
        collapsed: bool | None = None,
        seed: int = 0,
    ) -> "GPLVM":
        """Start from principal components: their scores as means, k-means centres of these as inducing inputs.

        Args:
            Y: outputs (N, P), best centred and of similar scale; NaN is a missing output.
            num_latents: number of latent inputs Q.
            num_inducing: number of inducing inputs M.
            kernel: None is a squared exponential with a lengthscale for each latent input, the shorter the more
                variance its component explains.
            noise_variance: None is the variance that the components leave, at least a hundredth of that of ``Y``.
            bound: of `SGPR` or `SVGP`; None is their default.
            likelihood: one of ``tightgp.likelihoods``, for an `SVGP`; None is Gaussian.
            collapsed: True makes an `SGPR`, False an `SVGP`; None an `SGPR` unless a likelihood is given.
            seed: for k-means.
        """
        Y = checks.floats("Y", Y)
        if Y.ndim != 2:
            raise ValueError(f"Y must have shape (N, P), rows by columns, got {Y.shape}")
        checks.not_infinite("Y", Y)
        empty = np.flatnonzero(np.all(np.isnan(np.asarray(Y)), axis=0))
        if len(empty):
            raise ValueError(f"Y has no value at all in column(s) {checks.listed(empty)}; leave them out")
        checks.count("num_latents", num_latents)
        checks.count("num_inducing", num_inducing, len(Y), "the number of rows of Y")
        if collapsed and likelihood is not None:
            raise ValueError("likelihood goes with an explicit q(u): leave out collapsed=True")
        scores, variances, left = _components(np.asarray(Y), num_latents)
        if kernel is None:
            kernel = kernels.SquaredExponential(np.nanvar(Y) or 1.0, np.sqrt(variances[0] / variances))
        Z = inducing.kmeans(scores, num_inducing, seed=seed)
        noise = max(left, 0.01 * float(np.nanvar(Y)), 1e-4) if noise_variance is None else noise_variance
        if collapsed or (collapsed is None and likelihood is None):
            return cls(SGPR(kernel, Z, noise, "diagonal" if bound is None else bound), scores)
        likelihood = Gaussian(noise) if likelihood is None else likelihood
        return cls(SVGP(kernel, likelihood, Z, bound, num_latents=Y.shape[1]), scores)

    @property
    def relevance(self) -> Float[Array, " q"]:
        """One over the lengthscale of each input: near zero for an input that does not matter."""
        kernel, Z = as_tuple(self.model.kernel)[0], as_tuple(self.model.Z)[0]
        return 1 / kernel.length_scales(Z.shape[1])

    @property
    def draws_anew(self) -> bool:
        """Whether training needs new draws in each step: a model overfits to few draws that stay the same."""
        drawn = isinstance(self.model, SVGP) and not self.model.likelihood.quadratic
        return drawn and self.inputs.mean.shape[1] > 1

    def elbo(self, data: Dataset, key=None, rows=None) -> Float[Array, ""]:
        """The bound on the log evidence, in total nats (maths 7.7).

        Args:
            data: all rows.
            key: random key for likelihoods whose expectations are draws; None always takes the same draws.
            rows: a minibatch, with `SVGP`: row numbers, a slice or a mask. The value is then an unbiased estimate of
                the same total.
        """
        model, whole = self.prepare(data)
        if rows is None:
            return check_finite(model.value_on(whole, key)[0], model, whole)
        if not isinstance(self.model, SVGP):
            raise ValueError("rows goes with a model with an explicit q(u): GPLVM(SVGP(...), ...)")
        try:
            chosen = np.arange(data.num_data)[rows]
        except IndexError as error:
            raise ValueError(f"rows must be row numbers, a slice or a mask of {data.num_data} rows: {error}") from None
        if chosen.ndim != 1 or not len(chosen):
            raise ValueError("rows must choose at least one row: row numbers such as [0, 3], a slice or a mask")
        batch = OnDevice(whole.sample(chosen))
        value, followed = model.value_on(batch, key)
        return check_finite(as_estimate(value, followed["divergence"], len(chosen), data.num_data), model, batch)

    def posterior(self, data: Dataset) -> Posterior:
        """The posterior of the functions of the latent inputs, as of `SGPR` or `SVGP`."""
        rows = self.check_rows(data)
        if isinstance(self.model, SVGP):
            return self.model.for_targets(data.vector).posterior()
        q = self.inputs.placed(rows)
        assert q.input_variance is not None
        return self.model.posterior(replace(data, X=q.X, input_variance=q.input_variance.full(data.num_inputs)))

    def check_rows(self, data: Dataset) -> Rows:
        """Refuse data that this model cannot be trained on; its rows, still where they are."""
        self.inputs.check(data)
        check = self.model.check_rows if isinstance(self.model, SVGP) else self.model.check_data
        check(data)
        return data.rows()._replace(index=np.arange(data.num_data))

    def for_targets(self, vector: bool) -> "GPLVM":
        """This model for targets (N,) or (N, 1)."""
        return with_fields(self, model=self.model.for_targets(vector)) if isinstance(self.model, SVGP) else self

    def value_on(self, rows: PlacedRows, key: jax.Array | None = None) -> tuple[Float[Array, ""], dict[str, Any]]:
        return _elbo(self, rows, jax.random.key(0) if key is None else key)

    @property
    def natural_rate(self) -> float:
        """That of the model."""
        return getattr(self.model, "natural_rate", 1.0)

    @property
    def minibatches(self) -> bool:
        """Whether it can be trained on minibatches."""
        return isinstance(self.model, SVGP)

    def score(self, rows: OnDevice) -> Float[Array, ""]:
        """Held-out rows have latent inputs of their own, which training does not find."""
        raise ValueError("validation needs rows with known inputs; a GPLVM has none")

    def random_start(self, key: jax.Array, rows: PlacedRows) -> "GPLVM":
        one, two = jax.random.split(key)
        inputs, model = self.inputs.perturbed(one), self.model.random_start(two, _placed(self, rows))
        return with_fields(self, model=model, inputs=inputs)

    def explain(self, rows: PlacedRows) -> str:
        return self.model.explain(_placed(self, rows))

    def _title(self) -> str:
        n, q = self.inputs.mean.shape
        return f"GPLVM, {n} rows, {q} latent inputs; {self.model._title()}"


def _components(Y: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Scores of the principal components, scaled to unit variance; their variances; the mean variance they leave.

    Missing cells count as their column's mean. If there are fewer than ``count`` components, small noise fills up.
    """
    U, s, _ = principal(Y)
    found = min(count, int(np.sum(s > 1e-8 * max(s[0], 1e-300))))
    scores = 0.01 * np.random.default_rng(0).normal(size=(len(Y), count))
    scores[:, :found] = U[:, :found] * np.sqrt(len(Y))
    variances = np.full(count, 1e-4 * max(s[0] ** 2, 1e-300))
    variances[:found] = np.maximum(s[:found] ** 2, variances[0])
    left = float(np.sum(s[count:] ** 2) / Y.size)
    return scores.astype(Y.dtype), variances.astype(Y.dtype), left


def _placed(model: GPLVM, rows: PlacedRows) -> PlacedRows:
    """The rows with q(X) in place of the prior of their inputs."""
    return rows.changed(lambda some: model.inputs.take(some.index).placed(some))


@eqx.filter_jit
def _elbo(model: GPLVM, rows: PlacedRows, key: jax.Array):
    value, followed = model.model.value_on(_placed(model, rows), key)
    divergence = model.inputs.take(rows.like.index).divergence(rows.like)
    return value - divergence, {"divergence": jnp.zeros(()), **followed, "input_divergence": divergence}
