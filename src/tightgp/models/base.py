"""What a model owes to `fit`, and what all models share."""

import abc
from dataclasses import fields
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp import checks, parameters
from tightgp.bounds import psi
from tightgp.bounds.latents import Latents
from tightgp.bounds.structures import Structure
from tightgp.data import Dataset
from tightgp.data.input_variance import InputVariance
from tightgp.data.partition import SINGLE, Partition, metric_of
from tightgp.data.placement import OnDevice, PlacedRows, place
from tightgp.data.rows import Rows
from tightgp.kernels import Kernel
from tightgp.likelihoods import Gaussian
from tightgp.means import Constant, Mean, Zero
from tightgp.models import diagnosis
from tightgp.numerics import linalg
from tightgp.parameters import FLOOR, Parameter
from tightgp.posterior import Posterior


class Described(eqx.Module):
    """A module that is shown as a table of its parameters."""

    def __repr__(self) -> str:
        if not all(eqx.is_array(p.raw) for p in parameters.named_parameters(self).values()):
            return eqx.tree_pformat(self)  # a part of a module, as tree transformations make them
        return parameters.table(self, self._title())

    def _title(self) -> str:
        return type(self).__name__


class Model(Described):
    """A model: `prepare` once, then `objective` many times."""

    #: Whether several processes can train it together.
    multiprocess: ClassVar[bool] = False

    @abc.abstractmethod
    def prepare(self, data: Dataset) -> tuple["Model", PlacedRows]:
        """The model with everything decided that depends on the data, and the rows where they are computed with."""

    @abc.abstractmethod
    def value_on(self, rows: PlacedRows, key: jax.Array | None = None) -> tuple[Float[Array, ""], dict[str, Any]]:
        """The bound (or evidence) on placed rows, in total nats, and named scalars worth following. Pure.

        ``key`` is for values made of draws; without it the draws are always the same.
        """

    def ungrouped(self) -> "Model":
        """This model without a partition of earlier data, so that `prepare` makes one by the lengthscales it has."""
        return self

    def objective(self, rows: PlacedRows, key: jax.Array | None = None) -> tuple[Float[Array, ""], dict[str, Any]]:
        """What training maximises: `value_on`, and the log prior densities of parameters that have one. Pure."""
        value, followed = self.value_on(rows, key)
        return value + parameters.log_prior(self), followed

    @abc.abstractmethod
    def random_start(self, key: jax.Array, rows: PlacedRows) -> "Model":
        """Another start for training, drawn by ``key``."""

    @abc.abstractmethod
    def explain(self, rows: PlacedRows) -> str:
        """Why the objective is not finite here."""


class BatchModel(Model):
    """A model with an explicit q, which `fit` can also train on minibatches."""

    @abc.abstractmethod
    def check_rows(self, data: Dataset) -> Rows:
        """Refuse data that this model cannot be trained on; its rows, still where they are."""

    @abc.abstractmethod
    def for_targets(self, vector: bool) -> "BatchModel":
        """This model for targets (N,) or (N, 1): its predictions will have the same shape."""

    @abc.abstractmethod
    def posterior(self, *args: Any, **options: Any) -> Any:
        """The posterior of the functions, for predictions."""

    @property
    @abc.abstractmethod
    def natural_rate(self) -> float:
        """The step size of natural gradients on all rows (maths 4.4)."""

    def prepare(self, data: Dataset) -> tuple["BatchModel", PlacedRows]:
        rows = self.check_rows(data)
        return self.for_targets(data.vector), place(rows)

    def grouped_by(self, X: Any) -> "BatchModel":
        """This model with its partition of ``X`` fixed, where it has one."""
        return self

    @property
    def batch_partition(self) -> Partition:
        """Which rows of a minibatch share a block."""
        return SINGLE

    @eqx.filter_jit
    def score(self, rows: OnDevice) -> Float[Array, ""]:
        """Mean log density of the observed targets of held-out ``rows``."""
        held_out = rows.rows
        densities = self.posterior().row_log_densities(held_out, jax.random.key(0))
        here = ~jnp.isnan(held_out.y) & (held_out.weight > 0)[:, None]
        return jnp.sum(jnp.where(here, densities, 0.0)) / jnp.sum(here)


class Grouped(Model):
    """A model whose bound may group rows into blocks.

    ``metric`` (d,) are the scales by which neighbours are told apart; None takes the kernel's lengthscales, and
    `prepare` fixes them.
    """

    bound: eqx.AbstractVar[Structure]
    metric: eqx.AbstractVar[Float[Array, " d"] | None]

    @property
    def groups_neighbours(self) -> bool:
        """Whether lengthscales decide which rows share a block."""
        return self.bound.partition.needs_metric

    def with_metric(self, X: Any, kernels: tuple[Kernel, ...]):
        """This model with the metric of its partition of ``X`` fixed."""
        if not self.groups_neighbours or self.metric is not None:
            return self
        lengthscales: list[Any] = [kernel.length_scales(X.shape[1]) for kernel in kernels]
        if any(isinstance(one, jax.core.Tracer) for one in (X, *lengthscales)):
            raise ValueError(
                "a partition into neighbours needs known inputs and lengthscales; inside a JAX trace use "
                "`model, rows = model.prepare(data)` before it and `model.objective(rows)` in it"
            )
        return with_fields(self, metric=jnp.asarray(metric_of(X, lengthscales)))

    def ungrouped(self) -> Any:
        return with_fields(self, metric=None)

    def regrouped(self, data: Dataset) -> tuple["Grouped", PlacedRows] | None:
        """This prepared model and its rows, grouped by the lengthscales it has now; None where groups do not change."""

        def grouping(model) -> Any:
            partition = model.bound.partition
            if partition.neighbours:  # what blocks are given changes before the blocks do
                return model.metric
            return data.placed(partition, model.metric)[1]

        before = grouping(self)
        model, rows = self.ungrouped().prepare(data)
        return None if np.array_equal(before, grouping(model)) else (model, rows)


def with_fields(model, /, **changed):
    """``model`` with some fields changed, bypassing its constructor."""
    new = object.__new__(type(model))
    for one in fields(model):
        object.__setattr__(new, one.name, changed.get(one.name, getattr(model, one.name)))
    return new


def noise_parameter(noise_variance) -> Parameter | None:
    """The model's own noise variance; None where all noise is known from the data."""
    if noise_variance is None:
        return None
    return parameters.positive(noise_variance, name="noise_variance", floor=FLOOR, squared=True, scalar=True)


def check_gaussian_data(data: Dataset, noise: Parameter | None, dtype=None) -> None:
    """Refuse data that a model with Gaussian noise and a closed form cannot use."""
    if not isinstance(data, Dataset):
        raise ValueError(f"data must be a tightgp.Dataset(X, y), got {type(data).__name__}")
    if data.missing:
        raise ValueError("missing outputs (missing=True in Dataset) need tightgp.SVGP; remove these rows, or use it")
    if noise is None:
        check_noise_is_known(data)
    if dtype is not None and data.X.dtype != dtype:
        raise ValueError(f"X has dtype {data.X.dtype} but the model has {jnp.dtype(dtype)}; use one of them for both")


def check_noise_is_known(data: Dataset) -> None:
    """Where a model has no noise of its own, each row must say how much it has."""
    if data.noise_variance is None:
        raise ValueError(
            "noise_variance is None in the model, so the data must say it: Dataset(X, y, noise_variance=...)"
        )
    if not isinstance(data.noise_variance, jax.core.Tracer) and np.any(data.noise_variance == 0):
        raise ValueError("noise_variance is None in the model, so every row's known noise must be above zero")


def jitter_level(jitter: float | None, dtype) -> float:
    """The relative jitter to begin with; None takes the dtype's default."""
    jitter = linalg.default_jitter(dtype) if jitter is None else checks.number("jitter", jitter)
    return float(checks.not_negative("jitter", jitter))


def check_mean(mean, X, functions: int, shared: bool = True) -> None:
    """Refuse a mean that has neither one column for each function nor, where they can share, one for all."""
    if isinstance(mean, Zero):
        return
    given = jax.eval_shape(mean, X[:1]).shape[1]
    if given != functions and not (given == 1 and shared):
        other = "or one for all" if shared else "such as means.Constant([0.0, 1.0])"
        raise ValueError(f"mean gives {given} outputs for {functions} function(s); give one for each, {other}")


def check_uncertain(
    uncertain: InputVariance, kernels: tuple[Kernel, ...], mean: Mean, structure: Structure, d: int
) -> None:
    """Refuse what has no averages over uncertain inputs (maths 7.4)."""
    for kernel in kernels:
        psi.check(kernel, d, len(uncertain.columns))
    if not isinstance(mean, Zero | Constant):
        raise ValueError(f"mean must be Zero or Constant where inputs are uncertain, not {type(mean).__name__}")
    if not structure.partition.trivial or not structure.is_bound:
        raise ValueError(
            f"bound={structure.name!r} needs inputs that are known; with input_variance use 'diagonal', 'spherical' or "
            "'standard'"
        )


def check_finite(value, model: Model, rows: PlacedRows):
    """``value``, or an error that says why it is not finite. Inside a trace nothing is known yet."""
    if not isinstance(value, jax.core.Tracer) and not np.all(np.isfinite(np.asarray(value))):
        raise linalg.NumericalError(model.explain(rows))
    return value


def as_estimate(bound, divergence, rows: int, num_data: int | None):
    """The bound of a minibatch of ``rows`` as an unbiased estimate of that of ``num_data`` rows."""
    return bound if num_data is None else (num_data / rows) * (bound + divergence) - divergence


def gaussian_posterior(latents: Latents, mean: Mean, noise: Parameter | None, vector: bool, scale=None) -> Posterior:
    """The posterior of functions with Gaussian noise, without training rows; ``scale`` is v (maths 8.3)."""
    return Posterior((latents,), mean, Gaussian(noise), mixing=None, scale=scale, training=None, vector=vector)


def check_parts(kernel, mean) -> None:
    """Refuse what is not a kernel or not a mean function."""
    checks.instance("kernel", kernel, Kernel, "tightgp.kernels")
    checks.instance("mean", mean, Mean, "tightgp.means")


def explain_rows(model: Model, rows: PlacedRows, kernel: Kernel, Z, what: str, missing: bool = False) -> str:
    """Why the objective of ``model`` is not finite, by a look at up to a million of its rows."""
    return diagnosis.explain(model, rows.sample(rows.real()[:1_000_000]), kernel, Z, what, missing)
