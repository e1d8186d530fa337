"""What a posterior's latents say of test inputs: marginals, joint covariances, draws (maths 8.1–8.3)."""

from typing import TYPE_CHECKING

import equinox as eqx
import jax
import jax.numpy as jnp

from tightgp import linalg, psi
from tightgp.batching import by_parts
from tightgp.latents import Latents, mix
from tightgp.likelihoods import Likelihood
from tightgp.refinement import Refinement, correction
from tightgp.spread import Spread

if TYPE_CHECKING:
    from tightgp.posterior import Posterior


@eqx.filter_jit
def apply(likelihood: Likelihood, what: str, *arrays):
    """A likelihood's answer about some rows; by parts where expectations hold many numbers for each row."""
    if likelihood.num_latents is None:
        return getattr(likelihood, what)(*arrays)
    width = likelihood.numbers_per_row
    return by_parts(lambda *part: getattr(likelihood, what)(*part), width, *arrays)


@eqx.filter_jit
def marginals(post: "Posterior", refinement: Refinement | None, X):
    """Means and variances, so many rows at a time that their kernel matrices stay small."""
    width = max(len(group.Z) for group in post.latents)
    width = width if refinement is None else max(width, len(refinement.scale))
    return by_parts(lambda x: _marginal(post, refinement, x), width, X)


@eqx.filter_jit
def averages(post: "Posterior", X, spread: Spread):
    """Means and variances at uncertain inputs (maths 7.5)."""
    width = max(psi.numbers_per_row(group.kernel, len(group.Z), X.shape[1], spread) for group in post.latents)
    return by_parts(lambda x, s: _average(post, x, Spread(s, spread.columns)), width, X, spread.variance)


@linalg.full_precision
def _average(post: "Posterior", X, spread: Spread):
    means, variances = [], []
    for group, scale in _scaled(post):
        here = group.averaged(X, spread)
        means.append(here.mean)
        variances.append(jnp.broadcast_to(scale * here.left[:, None] + here.spread, here.mean.shape))
    return post.mean(X) + jnp.concatenate(means, axis=1), jnp.concatenate(variances, axis=1)


@linalg.full_precision
def _marginal(post: "Posterior", refinement, X):
    means, variances = [], []
    for group, scale in _scaled(post):
        A = group.rows(X)
        left = _left(group, X, A)
        var = scale * left[:, None] + group.spread(A)
        if refinement is not None:
            one, other = correction(refinement, group, X, A)
            var = jnp.maximum(var - jnp.sum(one * other, axis=1)[:, None], 0.0)
        means.append(group.mean(A))
        variances.append(jnp.broadcast_to(var, means[-1].shape))
    mean, var = mix(post.mixing, jnp.concatenate(means, axis=1), jnp.concatenate(variances, axis=1))
    return post.mean(X) + mean, var


def _left(group: Latents, X, A):
    """The prior's variance less what the whitened rows ``A`` explain."""
    return jnp.maximum(group.kernel.diagonal(X) - jnp.sum(A * A, axis=1), 0.0)


@eqx.filter_jit
@linalg.full_precision
def residuals(post: "Posterior", X, width: int):
    """What the inducing points leave of the prior's variance, a column for each group."""
    return by_parts(lambda x: jnp.stack([_left(g, x, g.rows(x)) for g in post.latents], axis=1), width, X)


def _scaled(post: "Posterior"):
    """Each group of latents with its part of ``scale``."""
    start = 0
    for group in post.latents:
        count = group.q[0].mean.shape[1]
        yield group, 1.0 if post.scale is None else post.scale[start : start + count]
        start += count


@linalg.full_precision
def _group_joint(group: Latents, scale, refinement, X):
    A = group.rows(X)
    left = group.kernel(X) - A @ A.T
    cov = jnp.reshape(jnp.asarray(scale, X.dtype), (-1, 1, 1)) * left + group.joint_spread(A)
    if refinement is not None:
        one, other = correction(refinement, group, X, A)
        cov = cov - one @ other.T
    return group.mean(A), cov


@eqx.filter_jit
@linalg.full_precision
def joint(post: "Posterior", refinement: Refinement | None, X):
    """Means (n, P) and covariances (P, n, n), or (1, n, n) where all are the same."""
    return mixed(post, [_group_joint(group, scale, refinement, X) for group, scale in _scaled(post)], X)


def mixed(post: "Posterior", parts, X):
    """The joint distribution of the outputs, from those of each group of functions."""
    mean, cov = jnp.concatenate([p[0] for p in parts], axis=1), jnp.concatenate([p[1] for p in parts])
    if post.mixing is not None:
        cov = jnp.broadcast_to(cov, (mean.shape[1], *cov.shape[1:]))
        mean, cov = mean @ post.mixing.T, jnp.einsum("pl,lij->pij", post.mixing**2, cov)
    return post.mean(X) + mean, cov


@eqx.filter_jit
@linalg.full_precision
def sample(post: "Posterior", parts, X, key, num_samples):
    """Joint draws of the functions (num_samples, n, P); ``parts`` are the groups' joint distributions, or None."""
    draws = []
    for number, (group, scale) in enumerate(_scaled(post)):
        mean, cov = _group_joint(group, scale, None, X) if parts is None else parts[number]
        # What is left of the prior's variance may be smaller than its rounding, so jitter is relative to the prior's.
        prior = jnp.mean(group.kernel.diagonal(X))
        L = jax.vmap(lambda c, prior=prior: linalg.factorise(c, jitter=0.0, scale=prior).lower)(cov)
        noise = jax.random.normal(jax.random.fold_in(key, number), (num_samples, *mean.shape), mean.dtype)
        L = jnp.broadcast_to(L, (mean.shape[1], *L.shape[1:]))
        draws.append(mean + jnp.einsum("lij,sjl->sil", L, noise))
    F = jnp.concatenate(draws, axis=2)
    return post.mean(X) + (F if post.mixing is None else F @ post.mixing.T)
