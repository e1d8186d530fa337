"""Sparse variational GPs with an explicit q(u): minibatches, every likelihood, several latent functions."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp import checks, means, parameters
from tightgp.bounds import uncollapsed
from tightgp.bounds.latents import Latents
from tightgp.bounds.structures import Structure
from tightgp.bounds.uncollapsed import Functions
from tightgp.data import Dataset
from tightgp.data.placement import PlacedRows
from tightgp.data.rows import Rows
from tightgp.kernels import Kernel
from tightgp.likelihoods.base import Likelihood
from tightgp.models.base import (
    BatchModel,
    Grouped,
    as_estimate,
    check_finite,
    check_mean,
    check_parts,
    check_uncertain,
    explain_rows,
    jitter_level,
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
from tightgp.models.variational import COVARIANCES, VariationalGaussian
from tightgp.numerics import linalg
from tightgp.parameters import Parameter
from tightgp.posterior import Posterior
from tightgp.posterior.training_rows import TrainingRows


class SVGP(Grouped, BatchModel):
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
    metric: Float[Array, " d"] | None
    bound: Structure = eqx.field(static=True)
    whiten: bool = eqx.field(static=True)
    jitter: float = eqx.field(static=True)
    vector: bool = eqx.field(static=True)

    def __init__(
        self,
        kernel: Kernel | list[Kernel] | tuple[Kernel, ...],
        likelihood: Likelihood,
        Z,
        bound: str | Structure | None = None,
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
        self.bound, self.metric = choose_bound(bound, likelihood), None
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
        for (one, inputs), functions in zip(self.groups(), each, strict=True):
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
        return jnp.ones(self.num_latents, self._dtype) if self.bound.uniform else None

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

    def elbo(self, data: Dataset, num_data: int | None = None, key: jax.Array | None = None) -> Float[Array, ""]:
        """The bound on the log evidence, in total nats (maths 4.1, 5.1).

        Args:
            data: the data; or, with ``num_data``, a minibatch of so many rows. The answer is then an unbiased estimate
                of the same total; blocks are made among the minibatch's own rows.
            num_data: number of rows of the whole data set.
            key: for likelihoods whose expectations are draws; without it the draws are always the same.
        """
        if num_data is not None:
            checks.count("num_data", num_data)
        model, rows = self.prepare(data)
        value, followed = model.value_on(rows, key)
        return check_finite(as_estimate(value, followed["divergence"], data.num_data, num_data), model, rows)

    def posterior(self, data: Dataset | None = None, *, scaled: bool = False) -> Posterior:
        """The posterior that q(u) implies, its factors computed once.

        Args:
            data: the training rows, for predictions from neighbours (maths 8.4; Gaussian noise).
            scaled: multiply the conditional's variance by the trained v also at new inputs (maths 8.3).
        """
        functions, _ = _functions(self)
        whole = jnp.all(jnp.stack([jnp.all(jnp.isfinite(group.whitener.inverse)) for group in functions.latents]))
        if not isinstance(whole, jax.core.Tracer) and not bool(whole):
            raise linalg.NumericalError("Kuu could not be factorised; elbo(data) says more about why")
        if scaled and self.v is None:
            raise ValueError(f"scaled=True needs one v for each latent function; the {self.bound.name} bound has none")
        return Posterior(
            latents=functions.latents,
            mean=self.mean,
            likelihood=self.likelihood,
            mixing=self.mixing,
            scale=self.v if scaled else None,
            training=None if data is None else TrainingRows(self.check_rows(data), self.bound),
            vector=self.vector and self.num_outputs == 1,
        )

    def prepare(self, data: Dataset) -> tuple["SVGP", PlacedRows]:
        self.check_rows(data)
        model = self.grouped_by(data.X)
        return model.for_targets(data.vector), data.placed(model.bound.partition, model.metric)[0]

    def grouped_by(self, X) -> "SVGP":
        """This model with its partition of ``X`` fixed."""
        return self.with_metric(X, as_tuple(self.kernel))

    @property
    def rows_together(self) -> int:
        """How many consecutive rows a minibatch must not part."""
        size = self.bound.partition.size
        if self.bound.partition.neighbours:
            raise ValueError(
                "bound='neighbours' cannot be trained on minibatches yet: leave out batch_size, or use tightgp.Block(64)"
            )
        return 1 if size == WHOLE_BATCH else size

    def for_targets(self, vector: bool) -> "SVGP":
        """This model for targets (N,) or (N, 1): its predictions will have the same shape."""
        return self if vector == self.vector else with_fields(self, vector=vector)

    def check_rows(self, data: Dataset) -> Rows:
        """Refuse data that this model cannot be trained on; its rows, still where they are."""
        if not isinstance(data, Dataset):
            raise ValueError(f"data must be a tightgp.Dataset(X, y), got {type(data).__name__}")
        functions = self.num_latents if self._mixing is None else self._mixing.raw.shape[0]
        check_mean(self.mean, data.X, functions, shared=self.likelihood.num_latents is None)
        check_data(data, as_tuple(self._Z)[0].raw, self.likelihood, self.num_outputs)
        uncertain = data.uncertain_inputs
        if uncertain is not None and self.likelihood.quadratic:
            check_uncertain(uncertain, as_tuple(self.kernel), self.mean, self.bound, data.num_inputs)
            if self._mixing is not None:
                raise ValueError("mixing needs inputs that are known: with input_variance leave one of them out")
        return data.rows()

    def value_on(self, rows: PlacedRows, key: jax.Array | None = None) -> tuple[Float[Array, ""], dict[str, Any]]:
        return _elbo(self, rows, jax.random.key(0) if key is None else key)

    @property
    def natural_rate(self) -> float:
        """The step size of natural gradients on all rows: one where a single step solves for q (maths 4.4)."""
        free = self.q_orthogonal is None and self._mixing is None
        full = all(q.root.ndim == 3 and not q._root.frozen for q in as_tuple(self.q))
        return 1.0 if self.likelihood.quadratic and free and full else 0.1

    def random_start(self, key: jax.Array, rows: PlacedRows) -> "SVGP":
        key_z, key_p = jax.random.split(key)
        model, real = parameters.perturbed(self, key_p), rows.real()
        for i, z in enumerate(as_tuple(self._Z)):
            if not z.frozen:
                wanted, own_key = len(z.raw), jax.random.fold_in(key_z, i)
                chosen = jax.random.choice(own_key, len(real), (wanted,), replace=len(real) < wanted)
                X = rows.sample(real[chosen]).X
                model = eqx.tree_at(lambda m, i=i: as_tuple(m._Z)[i].raw, model, X)
        return model

    def explain(self, rows: PlacedRows) -> str:
        return explain_rows(self, rows, *self.groups()[0], "Kuu", missing=True)

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

    def groups(self) -> list[tuple[Kernel, Float[Array, "m d"]]]:
        """The kernel and all inducing inputs of each group of latent functions."""
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
    for (kernel, Z), (q, second) in zip(model.groups(), segments, strict=True):
        factor = linalg.factorise(kernel(Z), model.jitter)
        parts = (q.whitened() if model.whiten else q.unwhitened(factor),)
        parts += () if second is None else (second.whitened(),)
        latents.append(Latents.trainable(kernel, Z, factor, parts))
        levels.append(factor.jitter)
    functions = Functions(tuple(latents), model.mixing, model.mean, model.likelihood, model.v)
    return functions, jnp.max(jnp.stack(levels))


@eqx.filter_jit
def _elbo(model: SVGP, rows: PlacedRows, key: jax.Array):
    functions, jitter = _functions(model)
    value, followed = uncollapsed.bound(functions, rows, model.bound, key)
    for name, p in parameters.named_parameters(model.likelihood).items():
        if p.raw.ndim == 0 and not p.frozen:
            followed[name.split(".")[-1]] = p.value
    if model._v is not None:
        followed["v"] = jnp.mean(model._v.value)
    return value, {**followed, "jitter": jitter}
