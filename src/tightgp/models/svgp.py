"""Sparse variational GPs with an explicit q(u): minibatches, every likelihood, several latent functions."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp import checks, diagnosis, linalg, means, parameters, partition, uncollapsed
from tightgp.conditionals import Conditional
from tightgp.data import Batch, Dataset
from tightgp.kernels import Kernel
from tightgp.latents import Latents
from tightgp.likelihoods.base import Likelihood
from tightgp.models.base import (
    Partitioned,
    check_finite,
    check_mean,
    check_parts,
    check_uncertain,
    jitter_level,
    mean_log_density,
    with_fields,
)
from tightgp.models.construction import (
    WHOLE_BATCH,
    as_tuple,
    check_data,
    choose_bound,
    count_latents,
    inducing_sets,
    is_many,
    trained_scales,
)
from tightgp.parameters import Parameter
from tightgp.posterior import Posterior
from tightgp.refinement import Training
from tightgp.statistics import Rows
from tightgp.uncollapsed import Functions
from tightgp.variational import COVARIANCES, VariationalGaussian


class SVGP(Partitioned):
    """A GP with any likelihood, inducing inputs ``Z`` and a trained Gaussian q(u) (maths §4–6).

    ``bound`` is "diagonal" (the default for Gaussian noise), "standard", "block" (the minibatch is the block),
    ``Block(64)`` (blocks of neighbours, of which minibatches hold whole ones), or "spherical", the default for every
    other likelihood: one trained ``v`` for each latent function. The dtype of ``Z`` decides all precision.

    Args:
        kernel: one kernel for all latent functions, or a list with one for each.
        likelihood: one of ``tightgp.likelihoods``; it says how many latent functions there are, or
            ``num_latents`` does, one for each column of y.
        Z: inducing inputs (M, D) for all latent functions, or a list with an array for each.
        mixing: (P, L), the start of a linear model of coregionalisation ``f = mixing · g``: P outputs from L
            independent latent functions g. Outputs that are missing in a row are NaN in
            ``Dataset(..., missing=True)``.
        whiten: whether q is over ``L⁻¹u`` (the default) or over u.
        covariance: "full", "diagonal", or "fixed" where it starts: at the prior's.
        orthogonal: further inducing inputs (Q, D) whose part that is independent of ``u`` has its own
            independent Gaussian (SOLVE-GP, maths §6), with ``orthogonal_covariance`` "full", "diagonal" or
            "fixed" (ODVGP).

    >>> model = SVGP(SquaredExponential(), likelihoods.Poisson(), Z)
    >>> result = fit(model, data, batch_size=256, epochs=100)
    """

    kernel: Kernel | tuple[Kernel, ...]
    likelihood: Likelihood
    mean: means.Mean
    _Z: Parameter | tuple[Parameter, ...]
    _orthogonal: Parameter | None
    _mixing: Parameter | None
    _v: Parameter | None
    q: VariationalGaussian | tuple[VariationalGaussian, ...]
    q_orthogonal: VariationalGaussian | tuple[VariationalGaussian, ...] | None
    bound: Conditional = eqx.field(static=True)
    whiten: bool = eqx.field(static=True)
    jitter: float = eqx.field(static=True)
    vector: bool = eqx.field(static=True)

    def __init__(
        self,
        kernel: Kernel | list[Kernel] | tuple[Kernel, ...],
        likelihood: Likelihood,
        Z,
        bound: str | Conditional | None = None,
        *,
        mean: means.Mean | None = None,
        num_latents: int | None = None,
        mixing=None,
        whiten: bool = True,
        covariance: str = "full",
        orthogonal=None,
        orthogonal_covariance: str = "full",
        jitter: float | None = None,
    ):
        kernels = tuple(kernel) if isinstance(kernel, list | tuple) else (kernel,)
        mean = means.Zero() if mean is None else mean
        for one in kernels:
            check_parts(one, mean)
        checks.instance("likelihood", likelihood, Likelihood, "tightgp.likelihoods")
        checks.choice("covariance", covariance, COVARIANCES)
        checks.choice("orthogonal_covariance", orthogonal_covariance, COVARIANCES)
        self.bound = choose_bound(bound, likelihood)
        sets = inducing_sets("Z", Z)
        dtype = sets[0].raw.dtype
        many_kernels, many_sets = isinstance(kernel, list | tuple), is_many(Z)
        count = count_latents(
            len(kernels) if many_kernels else None, len(sets) if many_sets else None, likelihood, num_latents, mixing
        )
        groups = max(len(sets), len(kernels))
        each = (1,) * groups if groups > 1 else (count,)

        self.kernel = parameters.cast(kernels if many_kernels else kernels[0], dtype)
        self._Z = sets if many_sets else sets[0]
        self.likelihood, self.mean = parameters.cast((likelihood, mean), dtype)
        self._mixing = None if mixing is None else parameters.cast(parameters.real(mixing, name="mixing"), dtype)
        self._v = trained_scales(self.bound, count, dtype)
        self._orthogonal = None
        if orthogonal is not None:
            if is_many(orthogonal):
                raise ValueError("orthogonal must be one set of inducing inputs (Q, D), shared by all latents")
            self._orthogonal = inducing_sets("orthogonal", orthogonal)[0]
            checks.matrix("orthogonal", self._orthogonal.value, sets[0].raw.shape[1])
            checks.same_dtype("orthogonal", self._orthogonal.value, "Z", sets[0].raw)
        if whiten not in (True, False):
            raise ValueError(f"whiten must be True or False, got {whiten!r}")
        self.whiten, self.vector = bool(whiten), True
        self.jitter = jitter_level(jitter, dtype)
        if orthogonal is not None and not self.whiten:
            raise ValueError("whiten must be True where orthogonal inducing inputs are given: their q is whitened")
        self.q, self.q_orthogonal = (), None  # what follows needs the rest
        starts, seconds = [], []
        for (one, inputs), functions in zip(self._inputs(), each, strict=True):
            m = len(inputs) - self._num_orthogonal()
            jax.eval_shape(one, inputs)  # a kernel that does not fit Z's columns says so here
            lower = None if self.whiten else _lower(one, inputs, self.jitter)
            starts.append(VariationalGaussian.prior(lower, m, functions, covariance, dtype))
            if orthogonal is not None:
                more = VariationalGaussian.prior(None, len(inputs) - m, functions, orthogonal_covariance, dtype)
                seconds.append(more)
        self.q = tuple(starts) if groups > 1 else starts[0]
        if seconds:
            self.q_orthogonal = tuple(seconds) if groups > 1 else seconds[0]

    @property
    def Z(self) -> Float[Array, "m d"] | tuple[Float[Array, "m d"], ...]:
        """Inducing inputs (M, D), or a tuple of them."""
        return tuple(z.value for z in self._Z) if isinstance(self._Z, tuple) else self._Z.value

    @property
    def orthogonal(self) -> Float[Array, "m d"] | None:
        """Orthogonal inducing inputs (Q, D)."""
        return None if self._orthogonal is None else self._orthogonal.value

    @property
    def mixing(self) -> Float[Array, "p l"] | None:
        """The matrix of the linear model of coregionalisation."""
        return None if self._mixing is None else self._mixing.value

    @property
    def v(self) -> Float[Array, " l"] | None:
        """The scale of each latent function's conditional covariance: trained under "spherical", one under
        "standard", None where each row or block has its own."""
        if self._v is not None:
            return self._v.value
        return None if self.bound.curvature else jnp.ones(self.num_latents, self._dtype)

    @property
    def num_latents(self) -> int:
        """Number of latent functions L."""
        return sum(q.mean.shape[1] for q in as_tuple(self.q))

    @property
    def num_outputs(self) -> int:
        """Columns that y must have."""
        if self.likelihood.num_latents is not None:
            return 1
        return self.num_latents if self._mixing is None else self._mixing.raw.shape[0]

    def elbo(self, data: Dataset, num_data: int | None = None, key=None) -> Float[Array, ""]:
        """The bound on the log evidence, in total nats (maths 4.1, 5.1).

        With ``num_data``, ``data`` is a minibatch of so many rows, and this an unbiased estimate of the same total.
        Blocks are made among its own rows: the total is then that of a partition into such batches.
        ``key`` is for likelihoods that take expectations by draws; without it the draws are always the same.
        """
        if num_data is not None:
            checks.count("num_data", num_data)
        model, batch = self.prepare(data)
        batch = batch if key is None else batch._replace(key=key)
        if num_data is not None:
            batch = batch._replace(weight=batch.weight * (num_data / data.num_data))
        return check_finite(_elbo(model, batch)[0], model, batch)

    def posterior(self, data: Dataset | None = None, *, scaled: bool = False) -> Posterior:
        """The posterior that q(u) implies, its factors computed once.

        With ``data``, the training rows, it can also predict from neighbours (maths 8.4; Gaussian noise).
        ``scaled`` multiplies the conditional's variance by the trained v also at new inputs (maths 8.3).
        """
        functions, _ = _functions(self)
        whole = jnp.all(jnp.stack([jnp.all(jnp.isfinite(group.W)) for group in functions.latents]))
        if not isinstance(whole, jax.core.Tracer) and not bool(whole):
            raise diagnosis.NumericalError("Kuu could not be factorised; elbo(data) says more about why")
        if scaled and self.v is None:
            raise ValueError(f"scaled=True needs one v for each latent function; the {self.bound.name} bound has none")
        return Posterior(
            latents=functions.latents,
            mean=self.mean,
            likelihood=self.likelihood,
            mixing=self.mixing,
            scale=self.v if scaled else None,
            training=None if data is None else self._keep(data),
            vector=self.vector and self.num_outputs == 1,
        )

    def _keep(self, data: Dataset) -> Training:
        batch = self.as_batch(data)
        known = np.zeros(data.num_data, data.X.dtype) if batch.known is None else batch.known
        return Training(None, Rows(batch.X, batch.y, known, batch.spread), None, None, self.bound)

    def prepare(self, data: Dataset) -> tuple["SVGP", Batch]:
        batch = self.as_batch(data)
        model, order, _ = self.arrange(data.X)
        if order is not None:
            batch = batch.each(lambda a: a[order])
        return model.for_targets(data.vector), jax.tree.map(jnp.asarray, batch)

    def arrange(self, X) -> tuple["SVGP", np.ndarray | None, int]:
        """This model with its partition of ``X`` fixed; the row order that makes blocks consecutive, None where they
        are so; and how many rows a minibatch must not part."""
        bound, order = partition.arrange(self.bound, as_tuple(self.kernel), X)
        model = self if bound is self.bound else with_fields(self, bound=bound)
        return model, order, 1 if bound.size == WHOLE_BATCH else bound.size

    def for_targets(self, vector: bool) -> "SVGP":
        """This model for targets (N,) or (N, 1): its predictions will have the same shape."""
        return self if vector == self.vector else with_fields(self, vector=vector)

    def as_batch(self, data: Dataset) -> Batch:
        """Checked rows, still where they are."""
        if not isinstance(data, Dataset):
            raise ValueError(f"data must be a tightgp.Dataset(X, y), got {type(data).__name__}")
        functions = self.num_latents if self._mixing is None else self._mixing.raw.shape[0]
        check_mean(self.mean, data.X, functions, shared=self.likelihood.num_latents is None)
        check_data(data, as_tuple(self._Z)[0].raw, self.likelihood, self.num_outputs)
        spread = data.spread
        if spread is not None and self.likelihood.quadratic:
            check_uncertain(spread, as_tuple(self.kernel), self.mean, self.bound, data.num_inputs)
            if self._mixing is not None:
                raise ValueError("mixing needs inputs that are known: with input_variance leave one of them out")
        weight = np.ones(data.num_data, data.X.dtype)
        return Batch(data.X, data.targets, data.noise_variance, weight, jax.random.key(0), spread)

    def bound_on(self, rows: Batch) -> tuple[Float[Array, ""], dict[str, Any]]:
        """The bound on rows as they are, and named scalars worth following. Pure."""
        return _elbo(self, rows)

    def objective(self, rows: Batch) -> tuple[Float[Array, ""], dict[str, Any]]:
        value, followed = self.bound_on(rows)
        return value + parameters.log_prior(self), followed

    @property
    def natural_rate(self) -> float:
        """The step size of natural gradients on all rows: one where a single step solves for q (maths 4.4)."""
        free = self.q_orthogonal is None and self._mixing is None
        full = all(q.root.ndim == 3 and not q._root.frozen for q in as_tuple(self.q))
        return 1.0 if self.likelihood.quadratic and free and full else 0.1

    def score(self, rows: Batch) -> Float[Array, ""]:
        """Mean log density of the targets of ``rows`` under the predictive distribution."""
        return mean_log_density(self, rows)

    def random_start(self, key, rows: Batch) -> "SVGP":
        key_z, key_p = jax.random.split(key)
        model = parameters.perturbed(self, key_p)
        for i, z in enumerate(as_tuple(self._Z)):
            if not z.frozen:
                chosen = jax.random.choice(
                    jax.random.fold_in(key_z, i), rows.X.shape[0], (len(z.raw),), replace=rows.X.shape[0] < len(z.raw)
                )
                model = eqx.tree_at(lambda m, i=i: as_tuple(m._Z)[i].raw, model, jnp.asarray(rows.X)[chosen])
        return model

    def explain(self, rows: Batch) -> str:
        kernel, Z = self._inputs()[0]
        return diagnosis.explain(self, rows, kernel, Z, "Kuu")

    def _title(self) -> str:
        sizes = " + ".join(str(len(z.raw)) for z in as_tuple(self._Z))
        more = f" + {self._num_orthogonal()} orthogonal" if self._orthogonal is not None else ""
        name = type(self.likelihood).__name__
        return f"SVGP, {name}, bound {self.bound.name}, M = {sizes}{more}, {self._dtype}"

    @property
    def _dtype(self):
        return as_tuple(self._Z)[0].raw.dtype

    def _num_orthogonal(self) -> int:
        return 0 if self._orthogonal is None else len(self._orthogonal.raw)

    def _inputs(self) -> list[tuple[Kernel, Float[Array, "m d"]]]:
        """The kernel and all inducing inputs of each group of latents."""
        kernels, sets = as_tuple(self.kernel), [z.value for z in as_tuple(self._Z)]
        groups = max(len(kernels), len(sets))
        if self._orthogonal is not None:
            sets = [jnp.concatenate([z, self._orthogonal.value]) for z in sets]
        kernels = kernels * groups if len(kernels) == 1 else kernels
        return list(zip(kernels, sets * groups if len(sets) == 1 else sets, strict=True))


@eqx.filter_jit
def _lower(kernel: Kernel, Z, jitter: float):
    return linalg.factorise(kernel(Z), jitter).lower


@eqx.filter_jit
@linalg.full_precision
def _functions(model: SVGP) -> tuple[Functions, Float[Array, ""]]:
    """The model as the bound takes it, and the largest jitter that its factors took."""
    first = as_tuple(model.q)
    segments = zip(first, as_tuple(model.q_orthogonal, len(first)), strict=True)
    latents, levels = [], []
    for (kernel, Z), (q, second) in zip(model._inputs(), segments, strict=True):
        factor = linalg.factorise(kernel(Z), model.jitter)
        parts = (q.whitened() if model.whiten else q.unwhitened(factor),)
        parts += () if second is None else (second.whitened(),)
        latents.append(Latents(kernel, Z, factor.matrix, factor.inverse, parts))
        levels.append(factor.jitter)
    functions = Functions(tuple(latents), model.mixing, model.mean, model.likelihood, model.v)
    return functions, jnp.max(jnp.stack(levels))


@eqx.filter_jit
def _elbo(model: SVGP, batch: Batch):
    functions, jitter = _functions(model)
    value, followed = uncollapsed.bound(functions, batch, model.bound)
    for name, p in parameters.named_parameters(model.likelihood).items():
        if p.raw.ndim == 0 and not p.frozen:
            followed[name.split(".")[-1]] = p.value
    if model._v is not None:
        followed["v"] = jnp.mean(model._v.value)
    return value, {**followed, "jitter": jitter}
