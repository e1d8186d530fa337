"""What a posterior's latents say of test inputs: marginals, joint covariances, draws (maths 8.1, 8.3, 7.5)."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp.bounds import psi
from tightgp.bounds.latents import Latents, mix
from tightgp.data.input_variance import InputVariance
from tightgp.likelihoods import Likelihood
from tightgp.means import Mean
from tightgp.numerics import linalg
from tightgp.numerics.chunks import map_rows
from tightgp.numerics.compiling import quickly_compiled


class PosteriorFunctions(NamedTuple):
    """The functions of a posterior: latents with q(w), how they mix, the mean, and v of the conditional (maths 8.3)."""

    latents: tuple[Latents, ...]
    mean: Mean
    mixing: Float[Array, "p l"] | None = None
    scale: Float[Array, " l"] | None = None

    def groups(self) -> list[tuple[Latents, Any]]:
        """Each group of latents with its part of ``scale``."""
        if self.scale is None:
            return [(group, 1.0) for group in self.latents]
        ends = np.cumsum([group.num_functions for group in self.latents])
        return list(zip(self.latents, jnp.split(self.scale, ends[:-1]), strict=True))

    @property
    def num_inducing(self) -> int:
        """The largest number of inducing points of a group."""
        return max(len(group.Z) for group in self.latents)


@quickly_compiled
def apply(likelihood: Likelihood, what: str, *arrays):
    """Call a likelihood's method on some rows, in chunks where it makes many numbers for each row."""
    method = getattr(likelihood, what)
    return method(*arrays) if likelihood.num_latents is None else map_rows(method, likelihood.numbers_per_row, *arrays)


@quickly_compiled
@linalg.full_precision
def marginals(functions: PosteriorFunctions, X: Float[Array, "n d"]):
    """Means and variances (n, P) at ``X`` (maths 8.1)."""

    def at(x):
        means, variances = [], []
        for group, scale in functions.groups():
            A = group.rows(x)
            means.append(group.mean(A))
            variances.append(scale * left_variance(group, x, A)[:, None] + group.spread(A))
        return mixed_marginals(functions, means, variances, x)

    return map_rows(at, functions.num_inducing, X)


def mixed_marginals(functions: PosteriorFunctions, means: list, variances: list, X):
    """Means and variances of the outputs from those of each group; functions of a group may share one variance."""
    variances = [jnp.broadcast_to(var, mean.shape) for mean, var in zip(means, variances, strict=True)]
    mean, var = mix(functions.mixing, jnp.concatenate(means, axis=1), jnp.concatenate(variances, axis=1))
    return functions.mean(X) + mean, var


def left_variance(group: Latents, X, A):
    """The prior's variance less what the whitened rows ``A`` explain."""
    return jnp.maximum(group.kernel.diagonal(X) - jnp.sum(A * A, axis=1), 0.0)


@quickly_compiled
@linalg.full_precision
def left_variances(functions: PosteriorFunctions, X):
    """What the inducing points leave of the prior's variance (n, G), a column for each group."""

    def at(x):
        return jnp.stack([left_variance(group, x, group.rows(x)) for group in functions.latents], axis=1)

    return map_rows(at, functions.num_inducing, X)


@eqx.filter_jit
@linalg.full_precision
def averages(functions: PosteriorFunctions, X, uncertain: InputVariance):
    """Means and variances at uncertain inputs (maths 7.5)."""

    def at(x, variance):
        inputs = InputVariance(variance, uncertain.columns)
        groups = [(group.averaged(x, inputs), scale) for group, scale in functions.groups()]
        variances = [scale * group.left[:, None] + group.spread for group, scale in groups]
        return mixed_marginals(functions, [group.mean for group, _ in groups], variances, x)

    width = max(psi.numbers_per_row(group.kernel, len(group.Z), X.shape[1], uncertain) for group in functions.latents)
    return map_rows(at, width, X, uncertain.variance)


class Joint(NamedTuple):
    """Means (n, l) and covariances (l, n, n), or (1, n, n) where all are the same, of a group of functions."""

    mean: Float[Array, "n l"]
    cov: Float[Array, "k n n"]


@quickly_compiled
@linalg.full_precision
def group_joints(functions: PosteriorFunctions, X) -> list[Joint]:
    """The joint distribution of each group of functions at ``X``."""
    return [_joint(group, scale, X) for group, scale in functions.groups()]


def _joint(group: Latents, scale, X) -> Joint:
    A = group.rows(X)
    left = group.kernel(X) - A @ A.T
    return Joint(group.mean(A), jnp.reshape(jnp.asarray(scale, X.dtype), (-1, 1, 1)) * left + group.joint_spread(A))


@quickly_compiled
@linalg.full_precision
def mixed_joint(functions: PosteriorFunctions, groups: list[Joint], X):
    """Means (n, P) and covariances (P, n, n), or (1, n, n) where all are the same, of the outputs."""
    mean, cov = jnp.concatenate([g.mean for g in groups], axis=1), jnp.concatenate([g.cov for g in groups])
    if functions.mixing is not None:
        cov = jnp.broadcast_to(cov, (mean.shape[1], *cov.shape[1:]))
        mean, cov = mean @ functions.mixing.T, jnp.einsum("pl,lij->pij", functions.mixing**2, cov)
    return functions.mean(X) + mean, cov


@quickly_compiled
@linalg.full_precision
def draws(functions: PosteriorFunctions, groups: list[Joint], X, key, num_samples: int):
    """Joint draws of the functions (num_samples, n, P)."""
    parts = []
    for number, (group, joint) in enumerate(zip(functions.latents, groups, strict=True)):
        # What is left of the prior's variance may be smaller than its rounding, so jitter is relative to the prior's.
        prior = jnp.mean(group.kernel.diagonal(X))
        L = jax.vmap(lambda c, prior=prior: linalg.factorise(c, jitter=0.0, scale=prior).lower)(joint.cov)
        noise = jax.random.normal(jax.random.fold_in(key, number), (num_samples, *joint.mean.shape), joint.mean.dtype)
        L = jnp.broadcast_to(L, (joint.mean.shape[1], *L.shape[1:]))
        parts.append(joint.mean + jnp.einsum("lij,sjl->sil", L, noise))
    F = jnp.concatenate(parts, axis=2)
    return functions.mean(X) + (F if functions.mixing is None else F @ functions.mixing.T)
