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
from tightgp.data.partition import SINGLE, Partition
from tightgp.data.placement import PlacedRows
from tightgp.data.rows import Rows
from tightgp.kernels import Kernel
from tightgp.likelihoods.base import Likelihood
from tightgp.models import base, construction
from tightgp.models.construction import as_tuple
from tightgp.models.variational import COVARIANCES, KnownValues, VariationalGaussian
from tightgp.numerics import linalg
from tightgp.parameters import Parameter, reader
from tightgp.posterior import Posterior
from tightgp.posterior.training_rows import TrainingRows


class SVGP(base.Grouped, base.BatchModel):
    """A sparse GP with any likelihood, inducing inputs ``Z`` and a trained Gaussian q(u) (maths §4–6).

    Args:
        kernel: one kernel for all latent functions, or a list with one for each.
        likelihood: one of ``tightgp.likelihoods``.
        Z: inducing inputs (M, D) for all latent functions, or a list with an array for each. Their dtype decides the
            precision of everything.
        bound: "diagonal" (the default for Gaussian noise), "standard", "block" (a minibatch is one block),
            ``Block(64)`` (blocks of neighbours, which a minibatch does not divide), ``Neighbours(32)`` (a minibatch has
            rows for the likelihood, and blocks with their neighbours for the penalty, each drawn at random), or
            "spherical" (one trained v for each latent function, the default for every other likelihood).
        mean: one of ``tightgp.means``; None is zero.
        num_latents: number of latent functions, one for each column of y. None takes what the likelihood needs, or the
            length of a list of kernels or inducing inputs, or 1.
        mixing: (P, L), where a linear model of coregionalisation ``f = mixing · g`` starts: P outputs from L
            independent latent functions g. Missing outputs are NaN in ``Dataset(..., missing=True)``.
        whiten: whether q is over ``L⁻¹u`` (the default) or over u.
        covariance: the covariance of q: "full", "diagonal", or "fixed" (it stays the prior's).
        orthogonal: more inducing inputs (Q, D). The part of their function values that is independent of u has its own
            Gaussian (SOLVE-GP, maths §6).
        orthogonal_covariance: the covariance of that Gaussian: "full", "diagonal" or "fixed" (ODVGP).
        jitter: relative jitter of ``Kuu`` to begin with; None is the dtype's default.

    >>> model = tgp.SVGP(tgp.kernels.Matern32(), tgp.likelihoods.Poisson(), X[:10])
    >>> result = tgp.fit(model, tgp.Dataset(X, np.round(np.exp(y))), "adam", batch_size=20, epochs=2, progress=False)
    >>> result.model.v.shape
    (1,)
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

    Z = reader("_Z", "Inducing inputs (M, D), or a tuple of them.")
    orthogonal = reader("_orthogonal", "Orthogonal inducing inputs (Q, D), or None.")
    mixing = reader("_mixing", "Matrix (P, L) of the linear model of coregionalisation, or None.")

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
        kernel = tuple(kernel) if isinstance(kernel, list) else kernel
        mean = means.Zero() if mean is None else mean
        for one in as_tuple(kernel):
            base.check_parts(one, mean)
        checks.instance("likelihood", likelihood, Likelihood, "tightgp.likelihoods")
        checks.choice("covariance", covariance, COVARIANCES)
        checks.choice("orthogonal_covariance", orthogonal_covariance, COVARIANCES)
        checks.choice("whiten", whiten, (True, False))
        self.bound, self.metric = construction.choose_bound(bound, likelihood), None
        self._Z = construction.inducing_inputs("Z", Z)
        dtype = self._dtype
        mixing = None if mixing is None else parameters.real(mixing, name="mixing")
        count = construction.count_latents(kernel, self._Z, likelihood, num_latents, mixing)
        self.kernel, self.mean, self.likelihood, self._mixing = parameters.cast(
            (kernel, mean, likelihood, mixing), dtype
        )
        self._v = construction.trained_scales(self.bound, count, dtype)
        self._orthogonal = None
        if orthogonal is not None:
            if not whiten:
                raise ValueError("whiten must be True where orthogonal inducing inputs are given: their q is whitened")
            extra = construction.inducing_inputs("orthogonal", orthogonal)
            if isinstance(extra, tuple):
                raise ValueError("orthogonal must be one set of inducing inputs (Q, D), shared by all latents")
            checks.matrix("orthogonal", extra.value, as_tuple(self.Z)[0].shape[1])
            checks.same_dtype("orthogonal", extra.value, "Z", as_tuple(self.Z)[0])
            self._orthogonal = extra
        self.whiten, self.vector = bool(whiten), True
        self.jitter = base.jitter_level(jitter, dtype)
        groups, num_extra = self.groups(), self._num_orthogonal
        size = count // len(groups)  # functions in each group: all in one, or one in each
        q = []
        for one, inputs in groups:
            jax.eval_shape(one, inputs)  # a kernel that does not fit Z's columns says so here
            lower = None if self.whiten else linalg.factorise(one(inputs), self.jitter).lower
            q.append(VariationalGaussian.prior(lower, len(inputs) - num_extra, size, covariance, dtype))
        self.q = tuple(q) if len(q) > 1 else q[0]
        self.q_orthogonal = None
        if num_extra:
            q = [VariationalGaussian.prior(None, num_extra, size, orthogonal_covariance, dtype) for _ in groups]
            self.q_orthogonal = tuple(q) if len(q) > 1 else q[0]

    @property
    def v(self) -> Float[Array, " l"] | None:
        """The scale of each latent function's conditional covariance: trained under "spherical", one under
        "standard", None if each row or block has its own."""
        if self._v is not None:
            return self._v.value
        return jnp.ones(self.num_latents, self._dtype) if self.bound.uniform else None

    @property
    def num_latents(self) -> int:
        """Number of latent functions L."""
        return sum(q.mean.shape[1] for q in as_tuple(self.q))

    @property
    def num_outputs(self) -> int:
        """Number of columns that y must have."""
        return self._num_functions if self.likelihood.num_latents is None else 1

    @property
    def _num_functions(self) -> int:
        """Number of functions that the likelihood is given."""
        return self.num_latents if self._mixing is None else self._mixing.raw.shape[0]

    def elbo(self, data: Dataset, num_data: int | None = None, key: jax.Array | None = None) -> Float[Array, ""]:
        """The bound on the log evidence, in total nats (maths 4.1, 5.1).

        Args:
            data: all rows, or a minibatch if ``num_data`` is given. The value is then an unbiased estimate of the same
                total; blocks are made of the minibatch's own rows.
            num_data: number of rows of the whole data set.
            key: random key for likelihoods whose expectations are draws; None always takes the same draws.
        """
        if num_data is not None:
            checks.count("num_data", num_data)
        model, rows = self.prepare(data)
        value, followed = model.value_on(rows, key)
        return base.check_finite(base.as_estimate(value, followed["divergence"], data.num_data, num_data), model, rows)

    def posterior(self, data: Dataset | None = None, *, scaled: bool = False) -> Posterior:
        """The posterior that q(u) implies; its factors are computed once.

        Args:
            data: the training rows, for predictions from neighbours (maths 8.4; Gaussian noise).
            scaled: whether to multiply the conditional's variance by the trained v at new inputs too (maths 8.3).
        """
        functions, _ = _functions(self)
        construction.check_factors(functions.latents, "Kuu could not be factorised; elbo(data) says more about why")
        metric = self.metric if self.bound.partition.neighbours else None
        if scaled and self.v is None:
            raise ValueError(f"scaled=True needs one v for each latent function; the {self.bound.name} bound has none")
        return Posterior(
            latents=functions.latents,
            mean=self.mean,
            likelihood=self.likelihood,
            mixing=self.mixing,
            scale=self.v if scaled else None,
            training=None if data is None else TrainingRows(self.check_rows(data), self.bound, metric=metric),
            vector=self.vector and self.num_outputs == 1,
        )

    def at_values(self) -> "SVGP":
        """This model with whitened inducing variables, which start at q's mean, in the place of q (maths 16.2)."""
        groups = [[KnownValues.of(one.mean) for one in group.q] for group in _functions(self)[0].latents]
        first, *second = (parts if len(parts) > 1 else parts[0] for parts in zip(*groups, strict=True))
        return base.with_fields(self, q=first, q_orthogonal=second[0] if second else None)

    def prepare(self, data: Dataset) -> tuple["SVGP", PlacedRows]:
        self.check_rows(data)
        model = self.grouped_by(data.X)
        return model.for_targets(data.vector), data.placed(model.bound.partition, model.metric)[0]

    def grouped_by(self, X) -> "SVGP":
        """This model with its partition of ``X`` fixed."""
        return self.with_metric(X, as_tuple(self.kernel))

    @property
    def batch_partition(self) -> Partition:
        """Which rows of a minibatch share a block; single rows where a minibatch is one block."""
        return SINGLE if self.bound.partition.size == construction.WHOLE_BATCH else self.bound.partition

    def for_targets(self, vector: bool) -> "SVGP":
        """This model for targets (N,) or (N, 1): its predictions will have the same shape."""
        return self if vector == self.vector else base.with_fields(self, vector=vector)

    def check_rows(self, data: Dataset) -> Rows:
        """Refuse data that this model cannot be trained on; its rows, still where they are."""
        self.check_targets(data, as_tuple(self.Z)[0])
        uncertain = data.uncertain_inputs
        if uncertain is not None and self.likelihood.quadratic:
            base.check_uncertain(uncertain, as_tuple(self.kernel), self.mean, self.bound, data.num_inputs)
            if self._mixing is not None:
                raise ValueError("mixing needs inputs that are known: with input_variance leave one of them out")
        return data.rows()

    def check_targets(self, data: Dataset, Z: Float[Array, "m d"]) -> None:
        """Refuse data that do not fit this model's outputs, or the inducing inputs ``Z`` of the data's own inputs."""
        construction.check_data(data, Z, self.likelihood, self.num_outputs)
        each_alike = self.likelihood.num_latents is None
        base.check_mean(self.mean, as_tuple(self.Z)[0], self._num_functions, shared=each_alike)

    def value_on(self, rows: PlacedRows, key: jax.Array | None = None) -> tuple[Float[Array, ""], dict[str, Any]]:
        return _elbo(self, rows, jax.random.key(0) if key is None else key)

    @property
    def natural_rate(self) -> float:
        """The step size of natural gradients on all rows: 1 where a single step solves for q (maths 4.4)."""
        free = self.q_orthogonal is None and self._mixing is None
        full = all(q.root.ndim == 3 and not q._root.frozen for q in as_tuple(self.q))
        return 1.0 if self.likelihood.quadratic and free and full else 0.1

    def random_start(self, key: jax.Array, rows: PlacedRows) -> "SVGP":
        key_z, key_p = jax.random.split(key)
        model, real = parameters.perturbed(self, key_p), rows.real()
        for i, z in enumerate(as_tuple(self._Z)):
            if not z.frozen:
                chosen = construction.draw_rows(jax.random.fold_in(key_z, i), len(real), len(z.raw))
                X = rows.sample(real[chosen]).X
                model = eqx.tree_at(lambda m, i=i: as_tuple(m._Z)[i].raw, model, X)
        return model

    def explain(self, rows: PlacedRows) -> str:
        return base.explain_rows(self, rows, *self.groups()[0], "Kuu", missing=True)

    def _title(self) -> str:
        sizes = " + ".join(str(len(z)) for z in as_tuple(self.Z))
        more = f" + {self._num_orthogonal} orthogonal" if self._num_orthogonal else ""
        name = type(self.likelihood).__name__
        return f"SVGP, {name}, bound {self.bound.name}, M = {sizes}{more}, {self._dtype}"

    @property
    def _dtype(self):
        return as_tuple(self.Z)[0].dtype

    @property
    def _num_orthogonal(self) -> int:
        return 0 if self._orthogonal is None else len(self._orthogonal.raw)

    def groups(self) -> list[tuple[Kernel, Float[Array, "m d"]]]:
        """The kernel and all inducing inputs of each group of latent functions."""
        count = max(len(as_tuple(self.kernel)), len(as_tuple(self.Z)))
        sets = as_tuple(self.Z, count)
        if self.orthogonal is not None:
            sets = tuple(jnp.concatenate([Z, self.orthogonal]) for Z in sets)
        return list(zip(as_tuple(self.kernel, count), sets, strict=True))


@eqx.filter_jit
@linalg.full_precision
def _functions(model: SVGP) -> tuple[Functions, Float[Array, ""]]:
    """The model as the bound takes it, and the largest jitter of its factors."""
    q = as_tuple(model.q)
    q_orthogonal = as_tuple(model.q_orthogonal, len(q))
    latents, jitters = [], []
    for (kernel, Z), first, second in zip(model.groups(), q, q_orthogonal, strict=True):
        factor = linalg.factorise(kernel(Z), model.jitter)
        segments = [first.whitened() if model.whiten else first.unwhitened(factor)]
        if second is not None:
            segments.append(second.whitened())
        latents.append(Latents.trainable(kernel, Z, factor, tuple(segments)))
        jitters.append(factor.jitter)
    functions = Functions(tuple(latents), model.mixing, model.mean, model.likelihood, model.v)
    return functions, jnp.max(jnp.stack(jitters))


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
