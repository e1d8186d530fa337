"""The two ways to a trained model: the collapsed bound by L-BFGS, and an explicit q(u) by natural gradients."""

import abc
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from tightgp import distributed
from tightgp.bounds.evidence import EvidenceBracket
from tightgp.bounds.structures import Structure
from tightgp.data.dataset import Dataset
from tightgp.estimators.plan import Plan
from tightgp.estimators.settings import Settings
from tightgp.kernels import Kernel
from tightgp.likelihoods import Likelihood
from tightgp.means import Mean
from tightgp.models import SGPR, SVGP
from tightgp.models.construction import choose_bound
from tightgp.parameters import log_prior, named_parameters
from tightgp.posterior.posterior import Posterior
from tightgp.training import FitResult, fit

#: Noise variance at the start of a user's own kernel, in units of the targets' variance.
NOISE = 0.1
#: L-BFGS stops where a step's relative gain falls under this; natural gradients have come to rest under the second.
TOLERANCE, REST = 1e-6, 1e-5
#: Minibatches have come to rest where their last tenth gained less than this, in nats a row.
_LAST_GAIN = 1e-3
#: Rows of which a bound is summed up at a time.
_PART = 8192


class Recipe(abc.ABC):
    """How models are begun, enlarged, trained and looked at."""

    plan: Plan

    @abc.abstractmethod
    def start(self, Z: np.ndarray) -> Any:
        """A model to train, with these inducing inputs."""

    @abc.abstractmethod
    def extended(self, model, Z: np.ndarray) -> Any:
        """A trained model with further inducing inputs, to be trained on."""

    @abc.abstractmethod
    def train(self, model, data: Dataset, settings: Settings) -> FitResult:
        """Train it."""

    @abc.abstractmethod
    def evidence(self, result: FitResult, data: Dataset) -> tuple[float, EvidenceBracket | None]:
        """What the trained model's bound is on all rows, in total nats, and the bracket where there is one."""

    def steps(self, result: FitResult) -> int:
        """How many steps were taken."""
        return len(result.trace["objective"])

    def settled(self, result: FitResult, data: Dataset) -> bool:
        """Whether training came to rest."""
        return bool(result.converged)

    @abc.abstractmethod
    def posterior(self, model, data: Dataset) -> tuple[Posterior, np.ndarray | None]:
        """The posterior, with training rows where they are kept, and the scales v: of each row, or latent function."""


@dataclass(frozen=True)
class Collapsed(Recipe):
    """Gaussian noise and the collapsed bound: every evaluation sees all rows."""

    kernel: Kernel
    bound: str | Structure
    plan: Plan
    noise: float = NOISE
    keep: bool = False
    precision: str = "full"

    def start(self, Z):
        return SGPR(self.kernel, Z, self.noise, self.bound, precision=self.precision)

    def extended(self, model, Z):
        noise = named_parameters(model)["noise_variance"]
        Z = jnp.concatenate([model.Z, jnp.asarray(Z, model.Z.dtype)])
        return SGPR(model.kernel, Z, noise, self.bound, precision=self.precision)

    def train(self, model, data, settings):
        alone = not distributed.is_multiprocess()
        rounds = 2 if alone and self.plan.amount > 1 and _learns_neighbours(model, data) else 1
        return fit(
            model,
            data,
            "lbfgs",
            steps=self.plan.amount // rounds,
            refresh=rounds - 1,
            tolerance=TOLERANCE,
            seed=settings.seed,
            progress=settings.verbose > 0,
            **settings.file(len(model.Z)),
        )

    def steps(self, result):
        return max(1, result.steps)  # the trace begins before the first one, in each round

    def evidence(self, result, data):
        model = result.model
        if not model.bound.is_bound or model.precision != "full":
            bracket = model.evidence_bracket(data)
            return bracket.lower, bracket
        bound = _without_prior(result)
        return bound, EvidenceBracket(bound, float(model.upper_bound(data)), distributed.total_count(data.num_data))

    def posterior(self, model, data):
        posterior = model.posterior(data)
        if distributed.is_multiprocess():
            return posterior, _scales_together(posterior, model.bound, data)
        scales = None
        if model.bound.partition.size > 1 and model.bound.is_bound:
            scales = _single_scales(posterior, data)  # in a block of neighbours v is near one however large d is
        elif model.bound.is_bound:
            scales = np.asarray(posterior.scales)
        return posterior if self.keep else posterior.without_rows(), scales


def _single_scales(posterior: Posterior, data: Dataset) -> np.ndarray:
    """v of each row by itself, ``1/(1 + d/σ²)``."""
    return 1 / (1 + _left(posterior, data))


def _left(posterior: Posterior, data: Dataset) -> np.ndarray:
    """What the inducing points leave of each row's prior variance, in units of the noise."""
    return np.asarray(posterior.residual_variance(data.X)) / np.asarray(posterior.noise_variance)


def _scales_together(posterior: Posterior, bound: Structure, data: Dataset) -> np.ndarray | None:
    """v of each row of all processes by itself, from what each knows of its own."""
    if not bound.is_bound:
        return None
    left = distributed.gather(_left(posterior, data))
    if bound.partition.size > 1:
        return 1 / (1 + left)
    return np.asarray(bound.optimal_V(jnp.asarray(left), jnp.mean(left)))[:, 0, 0]


def _learns_neighbours(model: SGPR, data: Dataset) -> bool:
    """Whether half-way more is known of who is whose neighbour than at the start: of the ratios of lengthscales."""
    lengthscales = [p for name, p in named_parameters(model.kernel).items() if "lengthscale" in name]
    several = any(p.raw.size > 1 and not p.frozen for p in lengthscales)
    return model.groups_neighbours and several and data.num_data > model.bound.partition.size


def _without_prior(result: FitResult) -> float:
    """The bound that training reached on all rows: its objective holds the parameters' priors too."""
    return result.objective - float(log_prior(result.model))


@dataclass(frozen=True)
class Decay:
    """A learning rate that stays for the first half of ``steps`` and then falls along a cosine to a hundredth.

    Two of the same numbers are equal: `fit` compiles a program for each that differs.
    """

    rate: float
    steps: int

    def __call__(self, step):
        """The rate at ``step``."""
        late = jnp.clip(2 * step / self.steps - 1, 0.0, 1.0)
        return self.rate * (0.505 + 0.495 * jnp.cos(jnp.pi * late))


@dataclass(frozen=True)
class Variational(Recipe):
    """An explicit q(u) for any likelihood: natural gradients for it, Adam for the rest; on all rows or batches."""

    kernel: Kernel
    likelihood: Likelihood
    bound: str | Structure | None
    plan: Plan
    mean: Mean
    num_outputs: int = 1
    keep: bool = False

    def __post_init__(self):
        choose_bound(self.bound, self.likelihood)

    def start(self, Z):
        return self._model(self.kernel, self.likelihood, self.mean, Z)

    def extended(self, model, Z):
        # Given the points before, whitened variables of further ones are N(0, vI) under q: so q(f) stays what it was.
        Z = jnp.concatenate([model.Z, jnp.asarray(Z, model.Z.dtype)])
        new: Any = self._model(model.kernel, model.likelihood, model.mean, Z)
        m = len(model.q.mean)
        fresh = new.q.root if model.v is None else new.q.root * jnp.sqrt(model.v)[:, None, None]
        mean, root = new.q.mean.at[:m].set(model.q.mean), fresh.at[:, :m, :m].set(model.q.root)
        new = eqx.tree_at(lambda s: (s.q._mean.raw, s.q._root.raw), new, (mean, root))
        return new if model._v is None else eqx.tree_at(lambda s: s._v, new, model._v)

    def train(self, model, data, settings):
        amount: dict[str, Any] = {"steps": self.plan.amount}
        if self.plan.method == "minibatch":
            amount = {"epochs": self.plan.amount, "batch_size": settings.batch_size}
        return fit(
            model,
            data,
            "natural",
            learning_rate=Decay(settings.learning_rate, self.plan.steps),
            tolerance=REST,
            seed=settings.seed,
            progress=settings.verbose > 0,
            **amount,
            **settings.file(len(model.Z)),
        )

    def evidence(self, result, data):
        if self.plan.method == "full":
            return _without_prior(result), None
        total = 0.0
        for start in range(0, data.num_data, _PART):
            part = data.take(slice(start, start + _PART))
            # Each part's bound stands for all rows, so that their mean over rows is the bound on all of them.
            total += float(result.model.elbo(part, num_data=data.num_data)) * part.num_data / data.num_data
        return total, None

    def settled(self, result, data):
        objective = result.trace["objective"]
        if self.plan.method == "full" or len(objective) < self.plan.amount:
            return bool(result.converged)
        last = objective[-max(len(objective) // 10, 2) :]
        return len(last) > 1 and bool(abs(last[-1] - last[0]) < _LAST_GAIN * data.num_data)

    def posterior(self, model, data):
        posterior = model.posterior(data if self.keep else None)
        if model.v is not None:
            return posterior, np.asarray(model.v)
        return posterior, _single_scales(posterior, data)

    def _model(self, kernel, likelihood, mean, Z) -> SVGP:
        own = likelihood.num_latents is not None
        return SVGP(kernel, likelihood, Z, self.bound, mean=mean, num_latents=None if own else self.num_outputs)
