"""Sparse GP regression with the collapsed bounds."""

import math
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp import checks, distributed, means, parameters
from tightgp.bounds import adapted, certificate, collapsed, statistics, structures
from tightgp.bounds.evidence import EvidenceBracket
from tightgp.bounds.latents import Latents
from tightgp.bounds.statistics import Process
from tightgp.bounds.structures import Structure
from tightgp.data import Dataset
from tightgp.data.partition import metric_of
from tightgp.data.placement import PlacedRows
from tightgp.kernels import Kernel
from tightgp.likelihoods import Gaussian
from tightgp.models.base import (
    Grouped,
    check_finite,
    check_gaussian_data,
    check_mean,
    check_parts,
    check_uncertain,
    explain_rows,
    jitter_level,
    noise_parameter,
    with_fields,
)
from tightgp.numerics import linalg
from tightgp.numerics.compiling import quickly_compiled
from tightgp.numerics.linalg import Whitener
from tightgp.numerics.threads import with_one_blas_thread
from tightgp.parameters import Parameter, reader
from tightgp.posterior import Posterior
from tightgp.posterior.training_rows import TrainingRows

PRECISIONS = ("full", "mixed")
#: How many nearest training rows predictions use where training used neighbours, unless told otherwise.
NEIGHBOURS = 64


class SGPR(Grouped):
    """Sparse GP regression: Gaussian noise, inducing inputs ``Z``, q(u) optimised in closed form (maths §2).

    Args:
        kernel: one of ``tightgp.kernels``.
        Z: inducing inputs (M, D), where training starts. Their dtype decides the precision of everything.
        noise_variance: σ², where training starts; None where the data know all of their noise.
        bound: "diagonal" (Titsias 2025), "standard", "spherical", "block", "neighbours", "certified", "vecchia" (no
            bound), or an object such as ``Block(64)``, ``Vecchia(32)`` or ``PowerEP(0.5)``.
        mean: one of ``tightgp.means``; None is zero.
        jitter: relative jitter of ``Kuu`` to begin with; None is the dtype's default.
        precision: "mixed" computes the objective's kernel values between rows and inducing points, and products with
            them, in float32; sums over rows and all M×M factors keep the dtype of ``Z``. Not with neighbours.

    >>> model = tgp.SGPR(tgp.kernels.SquaredExponential(), X[:20], noise_variance=0.1)
    >>> bool(model.elbo(tgp.Dataset(X, y)) < model.upper_bound(tgp.Dataset(X, y)))
    True
    """

    multiprocess: ClassVar[bool] = True

    kernel: Kernel
    mean: means.Mean
    _Z: Parameter
    _noise_variance: Parameter | None
    metric: Float[Array, " d"] | None
    bound: Structure = eqx.field(static=True)
    jitter: float = eqx.field(static=True)
    precision: str = eqx.field(static=True, default="full")

    Z = reader("_Z", "Inducing inputs (M, D).")

    def __init__(
        self,
        kernel: Kernel,
        Z,
        noise_variance=0.1,
        bound: str | Structure = "diagonal",
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
        self.bound, self.metric = adapted.Certified() if bound == "certified" else structures.named(bound), None
        self.jitter = jitter_level(jitter, dtype)
        checks.choice("precision", precision, PRECISIONS)
        if precision == "mixed" and self.bound.partition.neighbours:
            raise ValueError(
                f"precision='mixed' does not go with bound={self.bound.name!r}, whose conditionals need every digit "
                "where the noise is small; use precision='full', or a bound such as 'block'"
            )
        self.precision = precision
        jax.eval_shape(self.kernel, self.Z)  # a kernel that does not fit Z's columns says so here

    @property
    def noise_variance(self) -> Float[Array, ""]:
        """Noise variance σ²; zero where all noise is known from the data."""
        return jnp.zeros((), self.Z.dtype) if self._noise_variance is None else self._noise_variance.value

    @with_one_blas_thread
    def elbo(self, data: Dataset, chunk: int | None = None) -> Float[Array, ""]:
        """The bound on the log evidence, in total nats (maths 2.1; 2.2 for Power EP, which is no bound).

        ``chunk`` rows are in memory at a time; None chooses. The value does not depend on it.
        """
        if chunk is not None:
            checks.count("chunk", chunk)
        model, rows = self.prepare(data)
        return check_finite(distributed.run_together(_elbo, model, rows, chunk)[0], model, rows)

    @with_one_blas_thread
    def upper_bound(self, data: Dataset) -> Float[Array, ""]:
        """An upper bound on the log evidence (maths 9.1), at the cost of one more pass over the data."""
        if isinstance(data, Dataset) and data.uncertain_inputs is not None:
            raise ValueError("there is no upper bound on the log evidence where inputs are uncertain (input_variance)")
        _, rows = self.prepare(data)  # grouped as this model groups them, so that the rows are placed only once
        model = with_fields(self, bound=structures.STANDARD)
        return check_finite(distributed.run_together(_upper_bound, model, rows), model, rows)

    def evidence_bracket(
        self, data: Dataset, effort: float | None = None, seconds: float | None = None
    ) -> EvidenceBracket:
        """Lower and upper bound on the log evidence of the exact GP with these parameters (maths §9, §12).

        By default it takes one more pass over the data: is M large enough? Under Vecchia and Power EP, which are no
        bounds, the lower bound is then the one with the same blocks and neighbours. Both are in full precision.

        With ``effort`` or ``seconds`` the bracket is tightened until it is as narrow as ``effort`` says, or until time
        is up, by products with the N×N kernel matrix, which is never kept: each takes O(N²) time, and memory is O(N)
        times a few hundred. What is wanted is a width or a time, so these are the arguments; how many steps and
        neighbours that takes is decided on the way, and ``bracket.certificate`` says it. The lower end holds always;
        the upper end with a probability of at least 1 − 10⁻⁶ over the draw of random probes.

        Args:
            data: the training data.
            effort: the width at which to stop, in nats a row.
            seconds: no work is begun that is not likely to end by then. Where that is the very first, the bracket of
                one pass is returned, without a certificate.

        >>> model = tgp.SGPR(tgp.kernels.SquaredExponential(), X[:10], noise_variance=0.1, bound=tgp.Vecchia(8))
        >>> print(model.evidence_bracket(tgp.Dataset(X, y), effort=0.01).sentence)
        The lower bound is within ... nats a row of the log evidence of the exact GP with these parameters.
        """
        model = with_fields(self, precision="full")
        if not self.bound.is_bound:
            model = with_fields(model, bound=self.bound.as_bound)
        if effort is not None or seconds is not None:
            self._check_effort(data, effort, seconds)
        lower, upper = float(model.elbo(data)), float(model.upper_bound(data))
        cheap = EvidenceBracket(lower, upper, distributed.total_count(data.num_data))
        if effort is None and seconds is None:
            return cheap
        metric = metric_of(data.X, [self.kernel.length_scales(data.num_inputs)])
        limits = (0.0 if effort is None else effort, math.inf if seconds is None else seconds)
        return certificate.certify(self._process(), data.rows(), metric, self.jitter, cheap, *limits)

    def _check_effort(self, data: Dataset, effort: float | None, seconds: float | None) -> None:
        """Refuse what has no certificate."""
        for name, value in (("effort", effort), ("seconds", seconds)):
            if value is not None:
                checks.positive(name, value)
        if distributed.is_multiprocess():
            raise ValueError("effort and seconds need one process; leave them out, or use one process with all rows")
        self.check_data(data)
        if data.uncertain_inputs is not None:
            raise ValueError("effort and seconds need inputs that are known, not input_variance; leave them out")
        if self.Z.dtype != jnp.float64:
            raise ValueError(f"effort and seconds need 64-bit floats, not {self.Z.dtype}; pass Z and data as float64")

    @with_one_blas_thread
    def posterior(self, data: Dataset) -> Posterior:
        """The posterior at the optimal q(u) (maths 8.1), its factors computed once.

        Under a bound with neighbours its predictions use nearest training rows too (maths 8.4), 64 unless told
        otherwise: what the inducing points alone predict is not what was trained.
        """
        model, rows = self.prepare(data)
        latents, residual = distributed.run_together(_posterior, model, rows)
        check_finite(latents.q[0].mean, model, rows)
        structure = model.bound.collected.for_rows(data.num_data)
        order = data.placed(model.bound.partition, model.metric)[1]
        metric = model.metric if structure.partition.neighbours else None
        training = TrainingRows(data.rows(), structure, model._process(), order, residual, metric)
        return Posterior(
            latents=(latents,),
            mean=self.mean,
            likelihood=Gaussian(self._noise_variance),
            mixing=None,
            scale=None,
            training=None if distributed.is_multiprocess() else training,
            vector=data.vector,
            neighbours=NEIGHBOURS if structure.partition.neighbours else 0,
            is_bound=structure.is_bound,
        )

    def prepare(self, data: Dataset) -> tuple["SGPR", PlacedRows]:
        distributed.all_succeed(lambda: self.check_data(data))
        m, count = self.Z.shape[0], distributed.total_count(data.num_data)
        if m > count:
            raise ValueError(f"Z has {m} rows but X only {count}; use at most {count} inducing points, or ExactGP")
        model = self.with_metric(data.X, (self.kernel,))
        return model, data.placed(model.bound.partition, model.metric)[0]

    def check_data(self, data: Dataset) -> None:
        """Refuse data that this model cannot be trained on."""
        check_gaussian_data(data, self._noise_variance, self.Z.dtype)
        if data.num_inputs != self.Z.shape[1]:
            raise ValueError(
                f"X has {data.num_inputs} column(s) but Z has {self.Z.shape[1]}; both must be the model's inputs"
            )
        check_mean(self.mean, data.X, data.num_outputs)
        if data.uncertain_inputs is not None:
            if distributed.is_multiprocess() or self.precision != "full":
                raise ValueError("input_variance needs one process and precision='full'")
            check_uncertain(data.uncertain_inputs, (self.kernel,), self.mean, self.bound, data.num_inputs)

    def value_on(self, rows: PlacedRows, key: jax.Array | None = None) -> tuple[Float[Array, ""], dict[str, Any]]:
        return _elbo(self, rows, None)

    def random_start(self, key: jax.Array, rows: PlacedRows) -> "SGPR":
        key_z, key_rest = jax.random.split(key)
        model = parameters.perturbed(self, key_rest)
        if self._Z.frozen:
            return model
        real = rows.real()
        chosen = np.asarray(jax.random.choice(key_z, len(real), (self.Z.shape[0],), replace=False))
        return eqx.tree_at(lambda m: m._Z.raw, model, rows.sample(real[chosen]).X)

    def explain(self, rows: PlacedRows) -> str:
        return explain_rows(self, rows, self.kernel, self.Z, "Kuu")

    def _title(self) -> str:
        name = f"bound {self.bound.name}" if self.bound.is_bound else f"{self.bound.name} (no bound)"
        return f"SGPR, {name}, M = {self.Z.shape[0]}, {self.Z.dtype}"

    def _process(self) -> Process:
        return Process(self.kernel, self.mean, self.noise_variance, self.Z)


@eqx.filter_jit
def _elbo(model: SGPR, rows: PlacedRows, chunk: int | None):
    if isinstance(model.bound, adapted.Adapted):
        value, factor, clamped, steps = adapted.lower_bound(model._process(), rows, model.bound, model.jitter)
        followed = {"jitter": factor.jitter, "clamped": clamped, "solver_steps": steps}
        return value, {"noise_variance": model.noise_variance, **followed}
    dtype = "float32" if model.precision == "mixed" else None
    sums, factor = statistics.collect(model._process(), rows, model.bound, model.jitter, chunk, dtype)
    value = collapsed.lower_bound(sums, model.bound)
    return value, {"noise_variance": model.noise_variance, "jitter": factor.jitter, "clamped": sums.clamped}


@quickly_compiled
def _upper_bound(model: SGPR, rows: PlacedRows):
    sums, _ = statistics.collect(model._process(), rows, model.bound, model.jitter)
    return collapsed.upper_bound(sums)


@quickly_compiled
@linalg.full_precision
def _posterior(model: SGPR, rows: PlacedRows):
    sums, factor = statistics.collect(model._process(), rows, model.bound.collected, model.jitter)
    latents = Latents(model.kernel, model.Z, Whitener(factor.inverse), (collapsed.optimal_q(sums),))
    return latents, sums.residual
