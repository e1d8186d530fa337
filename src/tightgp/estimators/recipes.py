"""The ways to train: an exact GP or the collapsed bound by L-BFGS, and an explicit q(u) by natural gradients."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tightgp import distributed
from tightgp.bounds.evidence import EvidenceBracket
from tightgp.bounds.structures import DIAGONAL, Rowwise, Structure
from tightgp.data.dataset import Dataset
from tightgp.estimators.plan import Plan
from tightgp.estimators.settings import Settings
from tightgp.estimators.start import CLEAR, noise_alone
from tightgp.kernels import Kernel
from tightgp.likelihoods import Likelihood
from tightgp.means import Mean
from tightgp.models import SGPR, SVGP
from tightgp.models.construction import choose_bound
from tightgp.parameters import Parameter, assign, freeze, log_prior, named_parameters
from tightgp.posterior.posterior import Posterior
from tightgp.training import FitResult, fit

#: Tolerances of L-BFGS and of natural gradients: the relative gain of a step under which they have converged.
TOLERANCE, NATURAL_TOLERANCE = 1e-6, 1e-5
#: L-BFGS has come to rest where five steps together gain less than so many nats a row.
REST = 1e-3
#: Minibatches have converged if their last tenth gained less than this, in nats a row.
_LAST_GAIN = 1e-3


@dataclass(frozen=True)
class Collapsed:
    """Gaussian noise and the collapsed bound: every evaluation uses all rows.

    ``others`` are further starts. With ``fixed``, inducing inputs stay where they are under what is no bound: there, so
    many numbers as they are of many features would fit the noise.
    """

    kernel: Kernel
    bound: str | Structure
    plan: Plan
    noise: float | Parameter = 0.1
    keep_rows: bool = False
    precision: str = "full"
    others: tuple[tuple[Kernel, float], ...] = ()
    fixed: bool = False

    def start(self, Z: np.ndarray) -> SGPR:
        """A model to train, with these inducing inputs."""
        model = SGPR(self.kernel, Z, self.noise, self.bound, precision=self.precision)
        return freeze(model, "Z") if self.fixed and not model.bound.is_bound else model

    def extended(self, model: SGPR, Z: np.ndarray) -> SGPR:
        """A trained model with more inducing inputs, to be trained further."""
        noise = named_parameters(model)["noise_variance"]
        return replace(self, kernel=model.kernel, noise=noise).start(_with_points(model.Z, Z))

    def train(self, model: SGPR, data: Dataset, settings: Settings) -> FitResult:
        """Train by L-BFGS, until it gains less than a user could notice."""
        options = settings.fit_options(len(model.Z)) | {"min_gain": REST * data.num_data}
        result = fit(model, data, "lbfgs", steps=self.plan.amount, tolerance=TOLERANCE, **options)
        if (
            not self.others
            or result.reason.by_user
            or result.objective >= noise_alone(data.targets, data.noise_factor) + CLEAR
        ):
            return result
        # The start was good for some rows and bad for all: what it had before may be better.
        starts = [replace(self, kernel=kernel, noise=noise).start(model.Z) for kernel, noise in self.others]
        options |= {"checkpoint": None, "resume": False}
        again = fit(
            starts[0], data, "lbfgs", steps=self.plan.amount, tolerance=TOLERANCE, restarts=starts[1:], **options
        )
        best = again if again.objective > result.objective else result
        return replace(best, reason=again.reason, message=again.message)

    def evidence(self, result: FitResult, data: Dataset) -> tuple[float, EvidenceBracket | None]:
        """The objective on all rows, in total nats, and the evidence bracket; none where it is no bound.

        What neighbours tell makes up for few inducing points, so that the bracket would say little, in as much time as
        ten steps of training.
        """
        model = result.model
        if not model.bound.is_bound:
            return _without_prior(result), None
        if model.precision != "full":
            bracket = model.evidence_bracket(data)
            return bracket.lower, bracket
        bound = _without_prior(result)
        return bound, EvidenceBracket(bound, float(model.upper_bound(data)), distributed.total_count(data.num_data))

    def posterior(self, model: SGPR, data: Dataset) -> tuple[Posterior, np.ndarray | None]:
        """The posterior, with training rows if they are kept, and v of each row."""
        posterior = model.posterior(data)
        scales = row_scales(posterior, model.bound, data)
        return posterior if self.keep_rows else posterior.without_rows(), scales


@dataclass(frozen=True)
class Variational:
    """An explicit q(u) for any likelihood, trained by natural gradients and Adam on all rows or minibatches."""

    kernel: Kernel
    likelihood: Likelihood
    bound: str | Structure | None
    plan: Plan
    mean: Mean
    num_outputs: int = 1
    keep_rows: bool = False

    def __post_init__(self):
        choose_bound(self.bound, self.likelihood)

    def start(self, Z: np.ndarray) -> SVGP:
        """A model to train, with these inducing inputs."""
        num_latents = self.num_outputs if self.likelihood.num_latents is None else None
        return SVGP(self.kernel, self.likelihood, Z, self.bound, mean=self.mean, num_latents=num_latents)

    def extended(self, model: Any, Z: np.ndarray) -> SVGP:
        """A trained model with more inducing inputs, to be trained further. Its q(f) stays the same."""
        # Given the old points, whitened variables of the new ones are N(0, vI) under q.
        recipe = replace(self, kernel=model.kernel, likelihood=model.likelihood, mean=model.mean)
        new: Any = recipe.start(_with_points(model.Z, Z))
        m = len(model.q.mean)
        prior = new.q.root if model.v is None else new.q.root * jnp.sqrt(model.v)[:, None, None]
        values = {"q.mean": new.q.mean.at[:m].set(model.q.mean), "q.root": prior.at[:, :m, :m].set(model.q.root)}
        new = assign(new, values)
        return new if model._v is None else eqx.tree_at(lambda s: s._v, new, model._v)

    def train(self, model: SVGP, data: Dataset, settings: Settings) -> FitResult:
        """Train by natural gradients and Adam."""
        options = settings.fit_options(len(model.Z))
        return fit_natural(model, data, self.plan, settings.batch_size, settings.learning_rate, **options)

    def evidence(self, result: FitResult, data: Dataset) -> tuple[float, EvidenceBracket | None]:
        """The bound on all rows, in total nats; there is no bracket."""
        rows = data.num_data
        return final_bound(result, self.plan, rows, lambda part: result.model.elbo(data.take(part), rows)), None

    def posterior(self, model: SVGP, data: Dataset) -> tuple[Posterior, np.ndarray | None]:
        """The posterior, with training rows if they are kept, and v of each latent function, or else of each row."""
        posterior = model.posterior(data if self.keep_rows else None)
        scales = row_scales(posterior, model.bound, data) if model.v is None else np.asarray(model.v)
        return posterior, scales


Recipe = Collapsed | Variational


@dataclass(frozen=True)
class Decay:
    """A learning rate that is constant for the first half of ``steps``, then falls along a cosine to a hundredth.

    Equal rates are equal objects, so that `fit` compiles one program for them.
    """

    rate: float
    steps: int

    def __call__(self, step):
        """The rate at ``step``."""
        late = jnp.clip(2 * step / self.steps - 1, 0.0, 1.0)
        return self.rate * (0.505 + 0.495 * jnp.cos(jnp.pi * late))


def fit_natural(model, data: Dataset, plan: Plan, batch_size: int, rate: float, **options) -> FitResult:
    """Train by natural gradients for q(u) and Adam for the rest, on all rows or minibatches."""
    amount: dict[str, Any] = {"steps": plan.amount}
    if plan.method == "minibatch":
        amount = {"epochs": plan.amount, "batch_size": batch_size}
    decay = Decay(rate, plan.steps)
    return fit(model, data, "natural", learning_rate=decay, tolerance=NATURAL_TOLERANCE, **amount, **options)


def final_bound(
    result: FitResult, plan: Plan, num_data: int, bound_of: Callable[[slice], Any], at_a_time: int = 8192
) -> float:
    """The trained model's bound on all rows, in total nats, without the parameters' priors.

    ``bound_of(rows)`` is an unbiased estimate of the bound from some rows. After minibatches, whose objectives are
    estimates too, the bound is the mean of such estimates over all rows, computed from ``at_a_time`` rows each.
    """
    if plan.method != "minibatch":
        return _without_prior(result)
    total = 0.0
    for start in range(0, num_data, at_a_time):
        stop = min(start + at_a_time, num_data)
        total += float(bound_of(slice(start, stop))) * (stop - start) / num_data
    return total


def _without_prior(result: FitResult) -> float:
    return result.objective - float(log_prior(result.model))


def has_converged(result: FitResult, plan: Plan, num_data: int) -> bool:
    """Whether training converged: with minibatches, whether their last tenth gained little."""
    objective = result.trace["objective"]
    if plan.method != "minibatch" or len(objective) < plan.amount:
        return result.converged
    last = objective[-max(len(objective) // 10, 2) :]
    return len(last) > 1 and bool(abs(last[-1] - last[0]) < _LAST_GAIN * num_data)


def row_scales(posterior: Posterior, bound: Structure, data: Dataset) -> np.ndarray | None:
    """v of each row of all processes (maths 1.4); None if ``bound`` has none.

    Rows that share a block get the v that each would have by itself, because in a block of neighbours v is near one
    however much variance the inducing points leave.
    """
    if not bound.is_bound:
        return None
    left = np.asarray(posterior.residual_variance(data.X)) / data.rows().noise(np.asarray(posterior.noise_variance))
    left = jnp.asarray(distributed.gather(left))
    by_row = bound if isinstance(bound, Rowwise) else DIAGONAL
    return np.asarray(by_row.scales(left, jnp.mean(left)))


def _with_points(old, new: np.ndarray):
    return jnp.concatenate([old, jnp.asarray(new, old.dtype)])
