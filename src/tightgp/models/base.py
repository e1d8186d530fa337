"""What a model owes to `fit`, and what all models share."""

import abc
from dataclasses import fields, replace
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp import checks, diagnosis, linalg, parameters, partition, psi
from tightgp.conditionals import Conditional
from tightgp.data import Batch, Dataset
from tightgp.kernels import Kernel
from tightgp.means import Constant, Mean, Zero
from tightgp.parameters import FLOOR, Parameter
from tightgp.spread import Spread
from tightgp.statistics import Rows


class Model(eqx.Module):
    """A model: `prepare` once, then `objective` many times."""

    @abc.abstractmethod
    def prepare(self, data: Dataset) -> tuple["Model", Any]:
        """The model with all that depends on the data decided, and the rows as its objective takes them."""

    @abc.abstractmethod
    def objective(self, rows: Any) -> tuple[Float[Array, ""], dict[str, Any]]:
        """What training maximises, in total nats, and named scalars worth following. Pure."""

    @abc.abstractmethod
    def random_start(self, key, rows: Any) -> "Model":
        """Another start for training, drawn by ``key``."""

    @abc.abstractmethod
    def explain(self, rows: Any) -> str:
        """Why the objective is not finite here."""

    def __repr__(self) -> str:
        if not all(eqx.is_array(p.raw) for p in parameters.named_parameters(self).values()):
            return eqx.tree_pformat(self)  # a part of a model, as tree transformations make them
        return parameters.table(self, self._title())

    def _title(self) -> str:
        return type(self).__name__


@runtime_checkable
class Minibatched(Protocol):
    """What a model owes to `fit` beyond `Model`, to be trained on minibatches."""

    natural_rate: float

    def as_batch(self, data: Dataset) -> Batch:
        """Checked rows, still where they are."""

    def arrange(self, X) -> tuple["Minibatched", np.ndarray | None, int]:
        """The model with its partition of ``X`` fixed, an order of the rows, and how many in a row stay together."""

    def for_targets(self, vector: bool) -> "Minibatched":
        """The model for targets (N,), or (N, P)."""

    def score(self, rows: Batch) -> Float[Array, ""]:
        """How well held-out rows are predicted: the larger the better. Pure."""


class Partitioned(Model):
    """A model whose bound may group neighbouring rows: what it owes to `fit` beyond `Model`, to be grouped anew."""

    bound: eqx.AbstractVar[Conditional]

    @property
    def partitioned(self) -> bool:
        """Whether lengthscales decide which rows share a block."""
        return self.bound.size > 1 and self.bound.partition == "locality"

    def refreshed(self, data: Dataset) -> tuple["Partitioned", Any] | None:
        """This prepared model and its rows, grouped by the lengthscales it has now; None where groups do not change."""
        model, rows = with_fields(self, bound=replace(self.bound, metric=None)).prepare(data)
        bounds = (self.bound, model.bound)
        orders: list[Any] = [partition.order(data.X, bound, np.asarray(bound.metric)) for bound in bounds]
        return None if np.array_equal(*orders) else (model, rows)


def with_fields(model, **changed):
    """``model`` with some fields changed, as its constructor, which reads other arguments, could not."""
    new = object.__new__(type(model))
    for one in fields(model):
        object.__setattr__(new, one.name, changed.get(one.name, getattr(model, one.name)))
    return new


def noise_parameter(noise_variance) -> Parameter | None:
    """The model's own noise variance; None where all noise is known from the data."""
    if noise_variance is None:
        return None
    return parameters.positive(noise_variance, name="noise_variance", floor=FLOOR, squared=True, scalar=True)


def to_rows(data: Dataset, noise: Parameter | None, dtype) -> Rows:
    """A data set as the arrays that objectives take, still where they are."""
    if not isinstance(data, Dataset):
        raise ValueError(f"data must be a tightgp.Dataset(X, y), got {type(data).__name__}")
    if data.missing:
        raise ValueError("missing outputs (missing=True in Dataset) need tightgp.SVGP; remove these rows, or use it")
    if noise is None:
        check_noise_is_known(data)
    if data.X.dtype != dtype:
        raise ValueError(f"X has dtype {data.X.dtype} but the model has {jnp.dtype(dtype)}; use one of them for both")
    known = data.noise_variance
    known = np.broadcast_to(np.zeros((), dtype), data.num_data) if known is None else known
    return Rows(data.X, data.targets, known, data.spread)


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
    if given == functions or (given == 1 and shared):
        return
    raise ValueError(
        f"mean gives {given} outputs for {functions} function(s); give one for each"
        + (", or one for all" if shared else ", such as means.Constant([0.0, 1.0])")
    )


def check_uncertain(spread: Spread, kernels: tuple[Kernel, ...], mean: Mean, structure: Conditional, d: int) -> None:
    """Refuse what has no averages over uncertain inputs (maths 7.4)."""
    for kernel in kernels:
        psi.check(kernel, d, len(spread.columns))
    if not isinstance(mean, Zero | Constant):
        raise ValueError(f"mean must be Zero or Constant where inputs are uncertain, not {type(mean).__name__}")
    if structure.size > 1 or not structure.is_bound:
        raise ValueError(
            f"bound={structure.name!r} needs inputs that are known; with input_variance use 'diagonal', 'spherical' or "
            "'standard'"
        )


def check_finite(value, model: Model, rows):
    """``value``, or an error that says why it is not finite. Inside a trace there is nothing to check yet."""
    if not isinstance(value, jax.core.Tracer) and not bool(jnp.isfinite(value)):
        raise diagnosis.NumericalError(model.explain(rows))
    return value


@eqx.filter_jit
def mean_log_density(model, batch: Batch) -> Float[Array, ""]:
    """How well the posterior of a model with an explicit q(u) predicts the targets that a batch has."""
    densities = model.posterior().log_density_of(batch)
    here = ~jnp.isnan(batch.y) & (batch.weight > 0)[:, None]
    return jnp.sum(jnp.where(here, densities, 0.0)) / jnp.sum(here)


def check_parts(kernel, mean) -> None:
    """Refuse what is no kernel or no mean function."""
    checks.instance("kernel", kernel, Kernel, "tightgp.kernels")
    checks.instance("mean", mean, Mean, "tightgp.means")


def check_chunk(chunk) -> None:
    """``chunk`` is None or a number of rows."""
    if chunk is not None:
        checks.count("chunk", chunk)
