"""Functions drawn from a posterior, which can be evaluated anywhere afterwards (maths 16.5).

Matheron's rule: a function of the prior, corrected so that it agrees with a draw of the inducing variables. Each
function has random features of its own, so the covariance of many is exactly the posterior's.
"""

import operator
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp.bounds.latents import Latents
from tightgp.kernels.features import features, frequencies
from tightgp.likelihoods import Likelihood
from tightgp.numerics import linalg, stacks
from tightgp.numerics.threads import with_one_blas_thread
from tightgp.posterior import arguments, local
from tightgp.posterior.local import Nearby
from tightgp.posterior.marginals import PosteriorFunctions
from tightgp.posterior.training_rows import TrainingRows


class GroupPaths(NamedTuple):
    """S draws of the l functions of one group.

    ``weights`` are those of the prior's features, ``values`` those of the whitened rows, and ``corrections`` those of
    the kernel with the training rows ``X``, where there are any.
    """

    drawn: Any
    weights: Float[Array, "s k l"]
    values: Float[Array, "s m l"]
    X: Float[Array, "u d"] | None = None
    corrections: Float[Array, "s u l"] | None = None


class Paths(eqx.Module):
    """Functions drawn from a posterior by `Posterior.sample_paths`: call them at any inputs, differentiate them.

    ``paths(X)`` is (S, n), or (S, n, P). With ``X`` (S, n, D) each function is evaluated at inputs of its own.
    """

    functions: PosteriorFunctions
    groups: tuple[GroupPaths, ...]
    vector: bool = eqx.field(static=True)

    @with_one_blas_thread
    def __call__(self, X):
        checked = arguments.check_inputs(
            jnp.reshape(jnp.asarray(X), (-1, jnp.shape(X)[-1])), self.functions.latents[0].Z
        )
        X = checked.reshape(jnp.shape(X))
        if X.ndim not in (2, 3) or (X.ndim == 3 and len(X) != len(self)):
            raise ValueError(f"X must have shape (n, D), or ({len(self)}, n, D) for inputs of each path; got {X.shape}")
        return arguments.without_columns(_evaluate(self, X), self.vector)

    def __len__(self) -> int:
        return len(self.groups[0].values)

    def __getitem__(self, which: Any) -> "Paths":
        """Some of the paths: a number or a slice."""
        if not isinstance(which, slice):
            number, count = operator.index(which), len(self)
            if not -count <= number < count:
                raise IndexError(f"there are {count} paths, and none with the number {number}")
            which = slice(number % count, number % count + 1)
        own = []
        for group in self.groups:
            drawn = jax.tree.map(lambda a: a[which], group.drawn)
            corrections = None if group.corrections is None else group.corrections[which]
            own.append(GroupPaths(drawn, group.weights[which], group.values[which], group.X, corrections))
        return Paths(self.functions, tuple(own), self.vector)


@eqx.filter_jit
@linalg.full_precision
def _evaluate(paths: Paths, X: Float[Array, "..."]) -> Float[Array, "s n p"]:
    functions = paths.functions

    def at(own: tuple[GroupPaths, ...], x, rows):
        parts = []
        for group, path, A in zip(functions.latents, own, rows, strict=True):
            f = features(group.kernel, path.drawn, x) @ path.weights + A @ path.values
            if path.X is not None:
                f = f + group.kernel(x, path.X) @ path.corrections
            parts.append(f)
        F = jnp.concatenate(parts, axis=1)
        return functions.mean(x) + (F if functions.mixing is None else F @ functions.mixing.T)

    def whitened(x):
        return [group.rows(x) for group in functions.latents]

    shared = [path.X for path in paths.groups]
    each = [path._replace(X=None) for path in paths.groups]

    def one(given):
        own, x = given
        rows = whitened(x) if X.ndim == 3 else common
        return at(tuple(path._replace(X=x) for path, x in zip(own, shared, strict=True)), x if X.ndim == 3 else X, rows)

    common = whitened(X) if X.ndim == 2 else None
    return jax.lax.map(one, (each, X if X.ndim == 3 else jnp.zeros(len(paths))))


def draw(
    functions: PosteriorFunctions,
    likelihood: Likelihood,
    training: TrainingRows | None,
    key,
    num_samples: int,
    num_features: int,
    near: Float[Array, "n d"] | None,
    neighbours: int,
) -> tuple[GroupPaths, ...]:
    """The draws of each group; with ``neighbours``, given those of all rows of ``near``."""
    groups = tuple(
        _draw(
            group,
            jnp.broadcast_to(scale, (group.num_functions,)),
            jax.random.fold_in(key, i),
            num_samples,
            num_features,
        )
        for i, (group, scale) in enumerate(functions.groups())
    )
    if near is None or not neighbours or training is None:
        return groups
    found = local.union(functions, training, likelihood.variance, near, neighbours)
    return tuple(
        _corrected(group, path, rows, count, jax.random.fold_in(jax.random.fold_in(key, i), 1))
        for i, (group, path, (rows, count)) in enumerate(zip(functions.latents, groups, found, strict=True))
    )


@eqx.filter_jit
@linalg.full_precision
def _draw(group: Latents, scale: Float[Array, " l"], key, num_samples: int, num_features: int) -> GroupPaths:
    """Paths given draws of q(w); ``scale`` is v of each function (maths 8.3)."""
    W, dtype = group.whitener.inverse, group.Z.dtype
    absent = jnp.diagonal(W) == 0  # room for rows that an exact posterior has not been given yet
    L = linalg.inverse_lower(W + jnp.diag(absent.astype(dtype)))
    # The factor is that of the kernel matrix and what was added to its diagonal: noise or jitter.
    added = jnp.sqrt(jnp.maximum(jnp.sum(L * L, axis=1) - group.kernel.diagonal(group.Z), 0.0))
    roots = jnp.sqrt(scale)

    def one(key):
        keys = jax.random.split(key, 3 + len(group.q))
        drawn = frequencies(group.kernel, keys[0], num_features, group.Z.shape[1])
        prior = features(group.kernel, drawn, group.Z)
        weights = roots * jax.random.normal(keys[1], (prior.shape[1], group.num_functions), dtype)
        noise = roots * jax.random.normal(keys[2], (len(W), group.num_functions), dtype)
        values = _draw_values(group, keys[3:]) - W @ (prior @ weights + added[:, None] * noise)
        return GroupPaths(drawn, weights, values)

    return jax.lax.map(one, jax.random.split(key, num_samples))


def _draw_values(group: Latents, keys) -> Float[Array, "m l"]:
    """A draw of w from q(w)."""
    parts = []
    for q, key in zip(group.q, keys, strict=True):
        w = q.mean
        if q.root is not None:
            noise = jax.random.normal(key, w.shape, w.dtype)
            spread = q.root.T * noise if q.root.ndim == 2 else jnp.einsum("lij,jl->il", _each(q.root, w), noise)
            w = w + spread
        parts.append(w)
    return jnp.concatenate(parts)


def _each(root: Float[Array, "k m m"], w: Float[Array, "m l"]) -> Float[Array, "l m m"]:
    return jnp.broadcast_to(root, (w.shape[1], *root.shape[1:]))


@eqx.filter_jit
@linalg.full_precision
def _corrected(group: Latents, path: GroupPaths, near: Nearby, count, key) -> GroupPaths:
    """Paths that also agree with the targets of the first ``count`` of some training rows (maths 16.5)."""
    real = (jnp.arange(len(near.A)) < count)[:, None]
    s = jnp.broadcast_to(near.scale * real, near.y.shape)  # one over the noise's standard deviation
    D = group.kernel(near.X) - near.A @ near.A.T
    roots = jax.vmap(lambda s: stacks.noisy_roots((s[:, None] * D * s)[None], True)[0], in_axes=1)(s)

    def one(given):
        drawn, weights, values, key = given
        f = features(group.kernel, drawn, near.X) @ weights + near.A @ values
        noise = jax.random.normal(key, f.shape, f.dtype)
        left = s * (near.y - f) - jnp.where(s > 0, noise, 0.0)
        u = s * jnp.einsum("lji,ljk,kl->il", roots, roots, left)
        return values - near.A.T @ u, u

    keys = jax.random.split(key, len(path.values))
    values, corrections = jax.lax.map(one, (path.drawn, path.weights, path.values, keys))
    return GroupPaths(path.drawn, path.weights, values, near.X, corrections)
