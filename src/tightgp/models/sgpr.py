"""Sparse GP regression with the collapsed bounds."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp import (
    checks,
    collapsed,
    conditionals,
    diagnosis,
    distributed,
    layout,
    linalg,
    means,
    parameters,
    partition,
    statistics,
)
from tightgp.conditionals import Conditional
from tightgp.data import Dataset
from tightgp.evidence import EvidenceBracket
from tightgp.kernels import Kernel
from tightgp.latents import Latents
from tightgp.layout import Layout
from tightgp.likelihoods import Gaussian
from tightgp.models.base import (
    Partitioned,
    check_chunk,
    check_finite,
    check_mean,
    check_parts,
    check_uncertain,
    jitter_level,
    noise_parameter,
    to_rows,
)
from tightgp.parameters import Parameter, reader
from tightgp.posterior import Posterior
from tightgp.refinement import Training
from tightgp.statistics import Process, Rows

#: Rows that are looked at to say why an objective is not finite.
_EXPLAINED = 1_000_000
PRECISIONS = ("full", "mixed")


class SGPR(Partitioned):
    """Sparse GP regression: Gaussian noise, inducing inputs ``Z``, q(u) optimised in closed form (maths §2).

    ``bound`` is "diagonal" (the default, Titsias 2025), "standard", "spherical", "block", or an object such
    as ``Block(64)`` or ``PowerEP(0.5)``. The dtype of ``Z`` decides the precision of everything; with
    ``precision="mixed"`` the objective's kernel values between rows and inducing points, and products with them, are
    float32, and sums over rows and all M×M factors keep the dtype of ``Z``.

    >>> model = SGPR(SquaredExponential(), Z, noise_variance=0.1)
    >>> model.elbo(Dataset(X, y))
    """

    kernel: Kernel
    mean: means.Mean
    _Z: Parameter
    _noise_variance: Parameter | None
    bound: Conditional = eqx.field(static=True)
    jitter: float = eqx.field(static=True)
    precision: str = eqx.field(static=True, default="full")

    Z = reader("_Z", "Inducing inputs (M, D).")

    def __init__(
        self,
        kernel: Kernel,
        Z,
        noise_variance=0.1,
        bound: str | Conditional = "diagonal",
        mean: means.Mean | None = None,
        jitter: float | None = None,
        precision: str = "full",
    ):
        mean = means.Zero() if mean is None else mean
        check_parts(kernel, mean)
        Z = parameters.real(Z, name="Z")
        checks.matrix("Z", Z.value)
        dtype = Z.raw.dtype
        self._Z = Z
        self.kernel = parameters.cast(kernel, dtype)
        self.mean = parameters.cast(mean, dtype)
        self._noise_variance = parameters.cast(noise_parameter(noise_variance), dtype)
        self.bound = conditionals.named(bound)
        self.jitter = jitter_level(jitter, dtype)
        checks.choice("precision", precision, PRECISIONS)
        self.precision = precision
        jax.eval_shape(self.kernel, self.Z)  # a kernel that does not fit Z's columns says so here

    @property
    def noise_variance(self) -> Float[Array, ""]:
        """Noise variance σ²; zero where all noise is known from the data."""
        return jnp.zeros((), self.Z.dtype) if self._noise_variance is None else self._noise_variance.value

    def elbo(self, data: Dataset, chunk: int | None = None) -> Float[Array, ""]:
        """The bound on the log evidence, in total nats (maths 2.1; 2.2 for Power EP, which is no bound).

        ``chunk`` rows stream through at a time; None chooses by memory. The value does not depend on it.
        """
        check_chunk(chunk)
        model, laid = self.prepare(data)
        return check_finite(distributed.together(_elbo, model, laid, chunk)[0], model, laid)

    def upper_bound(self, data: Dataset) -> Float[Array, ""]:
        """An upper bound on the log evidence (maths 9.1), at the cost of one more data pass."""
        if isinstance(data, Dataset) and data.spread is not None:
            raise ValueError("there is no upper bound on the log evidence where inputs are uncertain (input_variance)")
        model, laid = self._changed(conditionals.STANDARD, self.precision).prepare(data)
        return check_finite(distributed.together(_upper_bound, model, laid), model, laid)

    def evidence_bracket(self, data: Dataset) -> EvidenceBracket:
        """Lower and upper bound on the log evidence: is M large enough? (maths §9)

        Under Power EP the lower bound is the diagonal one. Both are in full precision.
        """
        upper = float(self.upper_bound(data))
        model = self._changed(self.bound if self.bound.is_bound else conditionals.DIAGONAL, "full")
        return EvidenceBracket(float(model.elbo(data)), upper, distributed.total_count(data.num_data))

    def posterior(self, data: Dataset) -> Posterior:
        """The posterior at the optimal q(u) (maths 8.1), its factors computed once."""
        model, rows, order = self._arrange(data)
        laid = layout.lay(rows, order, model.bound.size)
        latents, excess = distributed.together(_posterior, model, laid)
        check_finite(jnp.sum(latents.q[0].mean), model, laid)
        kept = layout.in_order(rows, order)
        posterior = Posterior(
            latents=(latents,),
            mean=self.mean,
            likelihood=Gaussian(self._noise_variance),
            mixing=None,
            scale=None,
            training=Training(model._process(), kept, order, excess, statistics.fitted(model.bound, data.num_data)),
            vector=data.vector,
        )
        return posterior.without_rows() if distributed.several() else posterior

    def prepare(self, data: Dataset) -> tuple["SGPR", Layout]:
        model, rows, order = self._arrange(data)
        return model, layout.lay(rows, order, model.bound.size)

    def _arrange(self, data: Dataset) -> tuple["SGPR", Rows, np.ndarray | None]:
        rows = distributed.agreed(lambda: self.rows_of(data))
        m, count = self.Z.shape[0], distributed.total_count(data.num_data)
        if m > count:
            raise ValueError(f"Z has {m} rows but X only {count}; use at most {count} inducing points, or ExactGP")
        bound, order = partition.arrange(self.bound, (self.kernel,), data.X)
        return self if bound is self.bound else self._changed(bound, self.precision), rows, order

    def rows_of(self, data: Dataset) -> Rows:
        """Checked rows, still where they are."""
        rows = to_rows(data, self._noise_variance, self.Z.dtype)
        if data.num_inputs != self.Z.shape[1]:
            raise ValueError(
                f"X has {data.num_inputs} column(s) but Z has {self.Z.shape[1]}; both must be the model's inputs"
            )
        check_mean(self.mean, rows.X, data.num_outputs)
        if rows.spread is not None:
            if distributed.several() or self.precision != "full":
                raise ValueError("input_variance needs one process and precision='full'")
            check_uncertain(rows.spread, (self.kernel,), self.mean, self.bound, data.num_inputs)
        return rows

    def _changed(self, bound: Conditional, precision: str) -> "SGPR":
        return SGPR(self.kernel, self._Z, self._noise_variance, bound, self.mean, self.jitter, precision)

    @property
    def _short(self) -> str | None:
        """The dtype of the N×M values where it is not that of all else."""
        return "float32" if self.precision == "mixed" else None

    def bound_on(self, rows: Rows | Layout) -> tuple[Float[Array, ""], dict[str, Any]]:
        """The bound on rows as they are, and named scalars worth following. Pure."""
        return _elbo(self, rows, None)

    def objective(self, rows: Rows | Layout) -> tuple[Float[Array, ""], dict[str, Any]]:
        value, diagnostics = self.bound_on(rows)
        return value + parameters.log_prior(self), diagnostics

    def random_start(self, key, rows: Rows | Layout) -> "SGPR":
        key_z, key_rest = jax.random.split(key)
        model = parameters.perturbed(self, key_rest)
        if self._Z.frozen:
            return model
        laid = layout.laid(rows)
        real = laid.real()
        chosen = np.asarray(jax.random.choice(key_z, len(real), (self.Z.shape[0],), replace=False))
        return eqx.tree_at(lambda m: m._Z.raw, model, laid.sample(real[chosen]).X)

    def explain(self, rows: Rows | Layout) -> str:
        laid = layout.laid(rows)
        return diagnosis.explain(self, laid.sample(laid.real()[:_EXPLAINED]), self.kernel, self.Z, "Kuu")

    def _title(self) -> str:
        name = f"bound {self.bound.name}" if self.bound.is_bound else f"{self.bound.name} (no bound)"
        return f"SGPR, {name}, M = {self.Z.shape[0]}, {self.Z.dtype}"

    def _process(self) -> Process:
        return Process(self.kernel, self.mean, self.noise_variance, self.Z)


@eqx.filter_jit
def _elbo(model: SGPR, rows: Rows | Layout, chunk):
    stats, factor = statistics.collect(model._process(), rows, model.bound, model.jitter, chunk, model._short)
    value = collapsed.lower_bound(stats, model.bound)
    followed = {"noise_variance": model.noise_variance, "jitter": factor.jitter, "clamped": stats.clamped}
    return value, followed


@eqx.filter_jit
def _upper_bound(model: SGPR, rows: Layout):
    stats, _ = statistics.collect(model._process(), rows, model.bound, model.jitter)
    return collapsed.upper_bound(stats)


@eqx.filter_jit
@linalg.full_precision
def _posterior(model: SGPR, rows: Layout):
    stats, factor = statistics.collect(model._process(), rows, model.bound, model.jitter)
    q = collapsed.optimal_q(stats)
    return Latents(model.kernel, model.Z, factor.matrix, factor.inverse, (q,)), stats.excess
