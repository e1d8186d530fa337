"""The Bayesian GP-LVM: regression on inputs that are not known, with a trained Gaussian over them (maths 7.7)."""

from dataclasses import replace
from typing import Any

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
from tightgp.models.base import BatchModel, as_estimate, check_finite
from tightgp.models.latent_inputs import LatentInputs, check_prior
from tightgp.models.sgpr import SGPR
from tightgp.models.svgp import SVGP
from tightgp.numerics.components import principal
from tightgp.posterior import Posterior


class GPLVM(BatchModel):
    """A Bayesian GP-LVM (Titsias & Lawrence 2010): ``model`` on inputs that are unknown, or known up to a variance.

    The data say what is known of the inputs beforehand: ``Dataset.latent(Y, Q)`` is a standard normal prior over Q
    of them, ``Dataset(X, Y, input_variance=...)`` a Gaussian about X; columns without variance stay as they are. The
    bound is that of ``model``, with ψ-statistics, less the divergence of q(X) from this prior.

    Args:
        model: `SGPR`, for all rows at once with q(u) in closed form, or `SVGP`, for minibatches and other likelihoods
            (``num_latents`` is then the number of columns of Y).
        mean: means (N, Q) of q(X) to start from, of the uncertain columns.
        variance: its variances: one number, or (N, Q).

    >>> model = GPLVM.start(Y, num_latents=7, num_inducing=30)
    >>> result = fit(model, Dataset.latent(Y, 7))
    >>> result.model.inputs.mean, result.model.relevance
    """

    model: SGPR | SVGP
    inputs: LatentInputs

    def __init__(self, model: SGPR | SVGP, mean, variance=0.1):
        if not isinstance(model, SGPR | SVGP):
            raise ValueError(f"model must be tightgp.SGPR or tightgp.SVGP, got {type(model).__name__}")
        self.model, self.inputs = model, LatentInputs(mean, variance)
        if self.inputs.mean.dtype != self._dtype:
            raise ValueError(
                f"mean has dtype {self.inputs.mean.dtype} but the model has {self._dtype}; use one of them"
            )

    @classmethod
    def of(cls, model: SGPR | SVGP, data: Dataset) -> "GPLVM":
        """A model for inputs that are known up to the variance that ``data`` give them: q(X) starts there.

        >>> model = GPLVM.of(SGPR(kernel, Z), Dataset(X, y, input_variance=0.1))
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
        """A start by principal components: their scores as means, k-means of these as inducing inputs.

        ``kernel`` is by default a squared exponential with a lengthscale for each latent input, the shorter the more
        its component explains. ``noise_variance`` starts at what all components leave of the variance of ``Y``, at
        least a hundredth of it. ``collapsed=False``, or a ``likelihood``, makes a model for minibatches. Columns of
        ``Y`` are best centred, and of like scale.
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
        scores, shares, left = _components(np.asarray(Y), num_latents)
        if kernel is None:
            kernel = kernels.SquaredExponential(np.nanvar(Y) or 1.0, np.sqrt(shares[0] / shares))
        Z = inducing.kmeans(scores, num_inducing, seed=seed)
        noise = max(left, 0.01 * float(np.nanvar(Y)), 1e-4) if noise_variance is None else noise_variance
        if collapsed is None:
            collapsed = likelihood is None
        if collapsed and likelihood is not None:
            raise ValueError("likelihood goes with an explicit q(u): leave out collapsed=True")
        if collapsed:
            return cls(SGPR(kernel, Z, noise, "diagonal" if bound is None else bound), scores)
        likelihood = Gaussian(noise) if likelihood is None else likelihood
        return cls(SVGP(kernel, likelihood, Z, bound, num_latents=Y.shape[1]), scores)

    @property
    def relevance(self) -> Float[Array, " q"]:
        """One over the lengthscale of each input: near zero where it is not used."""
        return 1 / self._kernel.length_scales(self._Z.shape[1])

    @property
    def draws_anew(self) -> bool:
        """Whether training needs fresh draws in each step: few that stay the same would be learnt by heart."""
        drawn = isinstance(self.model, SVGP) and not self.model.likelihood.quadratic
        return drawn and self.inputs.mean.shape[1] > 1

    @property
    def remembers_rows(self) -> bool:
        """Whether something is kept for each row, so that it must be known which one a row is."""
        return True

    def elbo(self, data: Dataset, key=None, rows=None) -> Float[Array, ""]:
        """The bound on the log evidence, in total nats (maths 7.7).

        With `SVGP`, ``rows`` says which rows (numbers or a slice) of ``data`` make up a minibatch, from which the same
        total is estimated without bias; ``key`` is for likelihoods that take expectations by draws.
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
        """The functions of the latent inputs, as `SGPR.posterior` and `SVGP.posterior` give them."""
        self.check_rows(data)
        if isinstance(self.model, SVGP):
            return self.model.for_targets(data.vector).posterior()
        full = self.inputs.as_uncertain(data.uncertain_inputs).full(data.num_inputs)
        X = self.inputs.among(data.X, data.uncertain_inputs)
        return self.model.posterior(replace(data, X=X, input_variance=full))

    def check_rows(self, data: Dataset) -> Rows:
        """Refuse data that this model cannot be trained on; its rows, still where they are."""
        if not isinstance(data, Dataset):
            raise ValueError(f"data must be a tightgp.Dataset such as Dataset.latent(Y, 2), got {type(data).__name__}")
        self.inputs.check(data)
        if isinstance(self.model, SGPR):
            self.model.check_data(data)
        else:
            self.model.check_rows(data)
        return data.rows()._replace(index=np.arange(data.num_data))

    def for_targets(self, vector: bool) -> "GPLVM":
        """This model for targets (N,) or (N, 1)."""
        if isinstance(self.model, SGPR):
            return self
        return eqx.tree_at(lambda m: m.model, self, self.model.for_targets(vector))

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
        return eqx.tree_at(lambda m: (m.model, m.inputs), self, (model, inputs))

    def explain(self, rows: PlacedRows) -> str:
        return self.model.explain(_placed(self, rows))

    def _title(self) -> str:
        n, q = self.inputs.mean.shape
        return f"GPLVM, {n} rows, {q} latent inputs; {self.model._title()}"

    @property
    def _kernel(self) -> Kernel:
        return self.model.kernel[0] if isinstance(self.model.kernel, tuple) else self.model.kernel

    @property
    def _Z(self):
        return self.model.Z[0] if isinstance(self.model.Z, tuple) else self.model.Z

    @property
    def _dtype(self):
        return self._Z.dtype


def _components(Y: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Scores of the principal components of unit variance, their variances, and the mean variance that they leave.

    Missing cells count as their column's mean. Where there are fewer components, small noise fills up.
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
    """The rows with q(X) in place of what is known of the inputs."""

    def place_inputs(rows: Rows) -> Rows:
        q = model.inputs.take(rows.index)
        prior = rows.input_variance
        return rows._replace(X=q.among(rows.X, prior), input_variance=q.as_uncertain(prior))

    return rows.changed(place_inputs)


@eqx.filter_jit
def _elbo(model: GPLVM, rows: PlacedRows, key: jax.Array):
    value, followed = model.model.value_on(_placed(model, rows), key)
    known = rows.like
    divergence = model.inputs.take(known.index).divergence(known.X, known.input_variance, known.weight)
    return value - divergence, {"divergence": jnp.zeros(()), **followed, "input_divergence": divergence}
