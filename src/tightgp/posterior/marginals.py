"""What a posterior's latents say of test inputs: marginals, joint covariances, draws (maths 8.1, 8.3, 7.5)."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp.bounds import psi
from tightgp.bounds.latents import Latents, mix
from tightgp.data.input_variance import InputVariance
from tightgp.likelihoods import Likelihood
from tightgp.means import Mean
from tightgp.numerics import linalg
from tightgp.numerics.chunks import map_rows


class PosteriorFunctions(NamedTuple):
    """The functions of a posterior: latents with q(w), how they mix, the mean, and v of the conditional (maths 8.3)."""

    latents: tuple[Latents, ...]
    mean: Mean
    mixing: Float[Array, "p l"] | None = None
    scale: Float[Array, " l"] | None = None

    def groups(self) -> Iterator[tuple[Latents, Any]]:
        """Each group of latents with its part of ``scale``."""
        start = 0
        for group in self.latents:
            end = start + group.num_functions
            yield group, 1.0 if self.scale is None else self.scale[start:end]
            start = end

    @property
    def num_inducing(self) -> int:
        """The largest number of inducing points of a group."""
        return max(len(group.Z) for group in self.latents)


@eqx.filter_jit
def apply(likelihood: Likelihood, what: str, *arrays):
    """Call a likelihood's method on some rows, in chunks where it makes many numbers for each row."""
    if likelihood.num_latents is None:
        return getattr(likelihood, what)(*arrays)
    width = likelihood.numbers_per_row
    return map_rows(lambda *part: getattr(likelihood, what)(*part), width, *arrays)


@eqx.filter_jit
def marginals(functions: PosteriorFunctions, X: Float[Array, "n d"]):
    """Means and variances (n, P) at ``X`` (maths 8.1)."""
    return map_rows(lambda x: _marginals(functions, x), functions.num_inducing, X)


@linalg.full_precision
def _marginals(functions: PosteriorFunctions, X):
    means, variances = [], []
    for group, scale in functions.groups():
        A = group.rows(X)
        means.append(group.mean(A))
        var = scale * left_variance(group, X, A)[:, None] + group.spread(A)
        variances.append(jnp.broadcast_to(var, means[-1].shape))
    return mixed_marginals(functions, means, variances, X)


def mixed_marginals(functions: PosteriorFunctions, means: list, variances: list, X):
    """Means and variances of the outputs, from those of each group of latents."""
    mean, var = mix(functions.mixing, jnp.concatenate(means, axis=1), jnp.concatenate(variances, axis=1))
    return functions.mean(X) + mean, var


def left_variance(group: Latents, X, A):
    """The prior's variance less what the whitened rows ``A`` explain."""
    return jnp.maximum(group.kernel.diagonal(X) - jnp.sum(A * A, axis=1), 0.0)


@eqx.filter_jit
@linalg.full_precision
def left_variances(functions: PosteriorFunctions, X):
    """What the inducing points leave of the prior's variance (n, G), a column for each group."""

    def of_groups(x):
        return jnp.stack([left_variance(group, x, group.rows(x)) for group in functions.latents], axis=1)

    return map_rows(of_groups, functions.num_inducing, X)


@eqx.filter_jit
def averages(functions: PosteriorFunctions, X, uncertain: InputVariance):
    """Means and variances at uncertain inputs (maths 7.5)."""
    groups = functions.latents
    width = max(psi.numbers_per_row(group.kernel, len(group.Z), X.shape[1], uncertain) for group in groups)

    def average(x, variance):
        return _averages(functions, x, InputVariance(variance, uncertain.columns))

    return map_rows(average, width, X, uncertain.variance)


@linalg.full_precision
def _averages(functions: PosteriorFunctions, X, uncertain: InputVariance):
    means, variances = [], []
    for group, scale in functions.groups():
        at = group.averaged(X, uncertain)
        means.append(at.mean)
        variances.append(jnp.broadcast_to(scale * at.left[:, None] + at.spread, at.mean.shape))
    return functions.mean(X) + jnp.concatenate(means, axis=1), jnp.concatenate(variances, axis=1)


class Joint(NamedTuple):
    """Means (n, l) and covariances (l, n, n), or (1, n, n) where all are the same, of a group of functions."""

    mean: Float[Array, "n l"]
    cov: Float[Array, "k n n"]


@eqx.filter_jit
@linalg.full_precision
def group_joints(functions: PosteriorFunctions, X) -> list[Joint]:
    """The joint distribution of each group of functions at ``X``."""
    return [_joint(group, scale, X) for group, scale in functions.groups()]


def _joint(group: Latents, scale, X) -> Joint:
    A = group.rows(X)
    left = group.kernel(X) - A @ A.T
    return Joint(group.mean(A), jnp.reshape(jnp.asarray(scale, X.dtype), (-1, 1, 1)) * left + group.joint_spread(A))


@eqx.filter_jit
@linalg.full_precision
def mixed_joint(functions: PosteriorFunctions, groups: list[Joint], X):
    """Means (n, P) and covariances (P, n, n), or (1, n, n) where all are the same, of the outputs."""
    mean, cov = jnp.concatenate([g.mean for g in groups], axis=1), jnp.concatenate([g.cov for g in groups])
    if functions.mixing is not None:
        cov = jnp.broadcast_to(cov, (mean.shape[1], *cov.shape[1:]))
        mean, cov = mean @ functions.mixing.T, jnp.einsum("pl,lij->pij", functions.mixing**2, cov)
    return functions.mean(X) + mean, cov


@eqx.filter_jit
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
