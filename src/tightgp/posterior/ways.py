"""The four ways to predict a posterior's functions, and which of them a caller asked for."""

from typing import NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp import checks
from tightgp.bounds import psi
from tightgp.data.input_variance import InputVariance, checked_variance
from tightgp.likelihoods import Gaussian, Likelihood
from tightgp.means import Constant, Zero
from tightgp.posterior import consistent, local, marginals
from tightgp.posterior.consistent import Refinement
from tightgp.posterior.marginals import Joint, PosteriorFunctions
from tightgp.posterior.training_rows import TrainingRows


class Way(Protocol):
    """A way to predict the functions."""

    def marginals(self, X: Float[Array, "n d"]) -> tuple[Float[Array, "n p"], Float[Array, "n p"]]:
        """Means and variances at each row."""

    def joints(self, X: Float[Array, "n d"]) -> list[Joint]:
        """The joint distribution of each group of functions."""


class Plain(NamedTuple):
    """From the inducing points alone (maths 8.1)."""

    functions: PosteriorFunctions

    def marginals(self, X):
        return marginals.marginals(self.functions, X)

    def joints(self, X):
        return marginals.group_joints(self.functions, X)


class Consistent(NamedTuple):
    """With the trained V in q(f|u) also for test points (maths 8.2)."""

    functions: PosteriorFunctions
    refinement: Refinement

    def marginals(self, X):
        return consistent.marginals(self.functions, self.refinement, X)

    def joints(self, X):
        return consistent.joints(self.functions, self.refinement, X)


class Local(NamedTuple):
    """Given also each test point's nearest training rows (maths 8.4)."""

    functions: PosteriorFunctions
    training: TrainingRows
    noise: Float[Array, "*p"]
    neighbours: int

    def marginals(self, X):
        return local.marginals(self.functions, self.training, self.noise, X, self.neighbours)

    def joints(self, X):
        return local.joints(self.functions, self.training, self.noise, X, self.neighbours)


class Averaged(NamedTuple):
    """Averaged over uncertain inputs (maths 7.5)."""

    functions: PosteriorFunctions
    uncertain: InputVariance

    def marginals(self, X):
        return marginals.averages(self.functions, X, self.uncertain)

    def joints(self, X):
        raise ValueError("input_variance goes with single test points: leave out full_cov=True")


def choose(
    functions: PosteriorFunctions,
    likelihood: Likelihood,
    training: TrainingRows | None,
    X: Float[Array, "n d"],
    exact_conditional: bool = False,
    neighbours: int | None = None,
    input_variance=None,
) -> Way:
    """The way that the arguments of a prediction ask for."""
    if input_variance is not None:
        variance = checked_variance(input_variance, X)
        if exact_conditional or neighbours is not None:
            raise ValueError("input_variance needs the plain prediction: leave out exact_conditional and neighbours")
        uncertain = InputVariance.of(jnp.broadcast_to(variance, X.shape))
        if uncertain is None:
            return Plain(functions)
        check_averages(functions, len(uncertain.columns))
        return Averaged(functions, uncertain)
    if neighbours is not None and checks.seed("neighbours", neighbours):
        if exact_conditional:
            raise ValueError("neighbours and exact_conditional are two ways to predict; choose one")
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((functions, likelihood))):
            raise ValueError(
                "neighbours are searched among known rows: make the posterior outside of JAX transformations, "
                "which X alone may go through; or pass neighbours=0"
            )
        rows = with_neighbours(functions, likelihood, training)
        with jax.ensure_compile_time_eval():
            noise = likelihood.variance
        return Local(functions, rows, noise, neighbours)
    if exact_conditional:
        return Consistent(functions, consistent.refine(trained(training), functions.latents[0]))
    return Plain(functions)


def check_averages(functions: PosteriorFunctions, columns: int) -> None:
    """Refuse functions that have no averages over so many uncertain columns."""
    if functions.mixing is not None or not isinstance(functions.mean, Zero | Constant):
        raise ValueError("input_variance needs a mean that is Zero or Constant, and no mixing")
    for group in functions.latents:
        psi.check(group.kernel, group.Z.shape[1], columns)


def trained(training: TrainingRows | None) -> TrainingRows:
    """The training rows of a posterior at the optimal q(u)."""
    if training is None or training.process is None:
        raise ValueError(
            "this posterior keeps no training rows, so no v_i and no conditional to refine: it is exact, made "
            "from an explicit q(u), or without_rows()"
        )
    return training


def with_neighbours(
    functions: PosteriorFunctions, likelihood: Likelihood, training: TrainingRows | None
) -> TrainingRows:
    """The training rows, where predictions can use neighbours."""
    if type(likelihood) is not Gaussian:
        raise ValueError(f"neighbours needs Gaussian noise, not {type(likelihood).__name__}; leave it out")
    if functions.mixing is not None:
        raise ValueError("neighbours needs outputs with functions of their own, not a mixing; leave it out")
    if functions.scale is not None:
        raise ValueError("neighbours uses the prior's conditional: make the posterior with scaled=False")
    if training is None:
        raise ValueError(
            "neighbours needs training rows, and this posterior keeps none: make it by posterior(data), without "
            "without_rows(); an exact posterior has no use for them"
        )
    if training.rows.input_variance is not None:
        raise ValueError("neighbours needs training inputs that are known, and these have an input_variance")
    return training
