"""A posterior that knows new rows too, without training (maths 16.4).

q(w) is a product of its prior and of what each row said, so new rows multiply what they say.
"""

from dataclasses import replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tightgp.bounds import collapsed
from tightgp.bounds.latents import Latents, Whitened
from tightgp.bounds.structures import DIAGONAL, Blocks, Rowwise, ScaledRows
from tightgp.data.neighbours import NeighbourSearch
from tightgp.data.rows import Rows
from tightgp.likelihoods import Gaussian, Likelihood
from tightgp.numerics import linalg
from tightgp.numerics.chunks import pad_rows, rounded_up
from tightgp.posterior import extending, local
from tightgp.posterior.marginals import PosteriorFunctions, group_joints, mixed_joint
from tightgp.posterior.training_rows import TrainingRows


def is_exact(latents: Latents) -> bool:
    """Whether there is no uncertainty but that of the rows themselves: the posterior of an exact GP."""
    return latents.q[0].root is None


def check(
    functions: PosteriorFunctions,
    likelihood: Likelihood,
    training: TrainingRows | None,
    neighbours: int,
    is_bound: bool,
    window: int | None,
) -> Float[Array, "*p"]:
    """Refuse posteriors that cannot take new rows in closed form; the noise variance of those that can."""
    if type(likelihood) is not Gaussian:
        raise ValueError(f"condition needs Gaussian noise, not {type(likelihood).__name__}; train again with all rows")
    if functions.mixing is not None:
        raise ValueError("condition needs outputs with functions of their own, not a mixing; train again with all rows")
    for group in functions.latents:
        root = group.q[0].root
        if len(group.q) > 1 or (root is not None and root.ndim == 2):
            raise ValueError(
                "condition needs a q(u) with a full covariance over one set of inducing inputs; orthogonal ones and "
                "covariance='diagonal' have no update in closed form"
            )
    noise = likelihood.variance
    exact = is_exact(functions.latents[0])
    if exact and noise.ndim:
        raise ValueError("condition of an exact posterior needs one noise variance for all outputs")
    if training is None and not exact:
        if not is_bound:
            raise ValueError(
                "condition needs the training rows of a model under Power EP or Vecchia, and this posterior keeps "
                "none: make it by posterior(data), without without_rows()"
            )
        if window is not None:
            raise ValueError(
                "window needs the training rows, and this posterior keeps none: make it by posterior(data)"
            )
        if neighbours:
            raise ValueError(
                "condition needs the training rows of a model with neighbours, and this posterior keeps none: make it "
                "by posterior(data), without without_rows()"
            )
    if training is not None and training.rows.input_variance is not None:
        raise ValueError("condition needs inputs that are known, and the training rows have an input_variance")
    if window is not None and training is not None and np.any(np.isnan(training.rows.y)):
        raise ValueError(
            "window needs training rows without missing targets; leave window out, or make the posterior of the last "
            "rows by posterior(data)"
        )
    return noise


def check_noise(noise, known) -> None:
    """Refuse new rows without noise; ``known`` is the known part of their noise variance, or None."""
    if np.min(noise) + (0.0 if known is None else np.min(known)) <= 0:
        raise ValueError(
            "noise_variance of new rows must be above zero, because the model has no noise variance of its own; pass "
            "noise_variance, as in training"
        )


def condition(
    functions: PosteriorFunctions, training: TrainingRows | None, noise, new: Rows, window: int | None
) -> tuple[tuple[Latents, ...], TrainingRows | None]:
    """Latents that know the ``new`` rows, and the training rows with them; or the last ``window`` of these."""
    if is_exact(functions.latents[0]):
        parts = _parts(functions, noise, new)
        return tuple(extending.last(extending.with_rows(*part), window) for part in parts), training
    if training is not None:
        training = training.with_metric(group.kernel for group in functions.latents)
    if training is not None and window is not None and training.rows.num_rows + new.num_rows > window:
        new = _joined(training.rows, new).map(lambda a: a[-window:])
        functions = functions._replace(latents=tuple(_forgetful(group) for group in functions.latents))
        none = new.map(lambda a: a[:0])
        residual = None if training.residual is None else jnp.zeros_like(training.residual)
        training = replace(training, rows=none, order=None, residual=residual)
    structure = _structure(training)
    if isinstance(structure, Blocks):
        assert training is not None
        latents: tuple[Latents, ...] = (_with_blocks(functions, training, structure, noise, new),)
    else:
        latents = tuple(_with_rows(*part, structure) for part in _parts(functions, noise, new))
    if training is None:
        return latents, None
    after = _followed(functions, training, noise, new)
    added = replace(training, rows=new, order=None)
    local.follow(functions, training, functions._replace(latents=latents), after, noise, added)
    return latents, after


def _structure(training: TrainingRows | None) -> Rowwise | Blocks:
    """What makes new rows what q(u) sees of them: nothing, but under Power EP and Vecchia."""
    if training is None or training.process is None or training.structure.is_bound:
        return DIAGONAL
    assert isinstance(training.structure, Rowwise | Blocks)
    return training.structure


class Part(NamedTuple):
    """New rows as a group of functions takes them, padded: inputs, targets less the mean, noise variance (infinite in
    padding; one column where it is the same for all functions)."""

    latents: Latents
    X: Float[Array, "n d"]
    y: Float[Array, "n l"]
    noise: Float[Array, "n c"]


def _parts(functions: PosteriorFunctions, noise, new: Rows) -> list[Part]:
    count, length = new.num_rows, rounded_up(new.num_rows)
    X, y = (jnp.asarray(pad_rows(a, length)) for a in (new.X, new.y))
    total = np.stack([new.noise(float(own)) for own in np.atleast_1d(np.asarray(noise))], axis=1)
    total = np.concatenate([total, np.full((length - count, total.shape[1]), np.inf)]).astype(X.dtype)
    y, parts, start = y - functions.mean(X), [], 0
    for group in functions.latents:
        own = slice(start, start + group.num_functions)
        parts.append(Part(group, X, y[:, own], jnp.asarray(total[:, own] if total.shape[1] > 1 else total)))
        start = own.stop
    return parts


def _joined(rows: Rows, new: Rows) -> Rows:
    """Rows on the host, one after the other."""
    rows = rows.map(np.asarray)._replace(index=None, conditioners=None)
    both = [rows, new]
    for name, none in (("noise_variance", np.zeros_like), ("noise_factor", np.ones_like)):
        absent = [getattr(one, name) is None for one in both]
        if any(absent) and not all(absent):
            both = [
                one._replace(**{name: none(one.weight)}) if lacks else one
                for one, lacks in zip(both, absent, strict=True)
            ]
    return jax.tree.map(lambda a, b: np.concatenate([a, b]), *both)


def _followed(functions: PosteriorFunctions, training: TrainingRows, noise, new: Rows) -> TrainingRows:
    """The training rows and then the new ones; blocks of new rows follow those of the others."""
    order, residual, before = training.order, training.residual, training.rows.num_rows
    if training.process is not None:
        added = _block_order(functions, training, new)
        if order is not None or added is not None:
            first = np.arange(before) if order is None else order
            order = np.concatenate([first, before + (np.arange(new.num_rows) if added is None else added)])
        if residual is not None:
            (part,) = _parts(functions, noise, new)
            residual = residual + _residual(*part)
    return replace(training, rows=_joined(training.rows, new), order=order, residual=residual)


def _block_order(functions: PosteriorFunctions, training: TrainingRows, new: Rows) -> np.ndarray | None:
    """The order of new rows in which their blocks are consecutive."""
    return training.structure.partition.order(new.X, training.search_metric(functions.latents[0].kernel))


def _forgetful(latents: Latents) -> Latents:
    """The prior in the place of q(w)."""
    (q,) = latents.q
    assert q.root is not None
    eye = jnp.broadcast_to(jnp.eye(len(q.mean), dtype=q.mean.dtype), q.root.shape)
    return latents._replace(q=(Whitened(jnp.zeros_like(q.mean), eye),))


@eqx.filter_jit
@linalg.full_precision
def _residual(latents: Latents, X, y, noise) -> Float[Array, ""]:
    """The sum of r over new rows."""
    A, scale = latents.rows(X), jax.lax.rsqrt(noise[:, 0])
    return DIAGONAL(latents.kernel, ScaledRows(A * scale[:, None], X, y, scale)).residual


@eqx.filter_jit
@linalg.full_precision
def _with_rows(latents: Latents, X, y, noise, structure: Rowwise) -> Latents:
    """Latents whose q(w) knows these rows, each by itself."""
    A, (q,), seen_by = latents.rows(X), latents.q, []
    assert q.root is not None
    for j in range(noise.shape[1]):
        own = slice(None) if noise.shape[1] == 1 else slice(j, j + 1)
        scale = jax.lax.rsqrt(noise[:, j])
        seen = structure(latents.kernel, ScaledRows(A * scale[:, None], X, y[:, own] * scale[:, None], scale))
        root = q.root[own] if len(q.root) > 1 else q.root
        seen_by.append(absorbed(Whitened(q.mean[:, own], root), seen.A, seen.y))
    mean = jnp.concatenate([one.mean for one in seen_by], axis=1)
    return latents._replace(q=(Whitened(mean, jnp.concatenate([one.root for one in seen_by])),))


def absorbed(q: Whitened, A: Float[Array, "n m"], y: Float[Array, "n l"]) -> Whitened:
    """q(w) times ``Π N(y_i | a_iᵀw, 1)``, normalised (maths 16.4): rows and targets are in units of the noise."""
    assert q.root is not None

    def updated(root):
        T = linalg.times_lower(A, root)
        return linalg.times_lower(root, collapsed.inverse_root(T.T @ T))

    root = jax.vmap(updated)(q.root) if len(q.root) > 1 else updated(q.root[0])[None]
    b = A.T @ (y - A @ q.mean)
    if len(root) == 1:
        return Whitened(q.mean + root[0] @ (root[0].T @ b), root)
    return Whitened(q.mean + jnp.einsum("lij,lkj,kl->il", root, root, b), root)


def _with_blocks(functions: PosteriorFunctions, training: TrainingRows, structure: Blocks, noise, new: Rows) -> Latents:
    """Latents whose q(w) knows new rows in blocks, each given its nearest rows before it."""
    (group,), before, size = functions.latents, training.rows.num_rows, structure.size
    order = _block_order(functions, training, new)
    new = new if order is None else new.map(lambda a: a[order])
    blocks = -(-new.num_rows // size)
    given = np.zeros((blocks, 0), int)
    if structure.neighbours:
        if before:
            search = local.search(functions, training, noise).with_rows(new.X)
        else:
            search = NeighbourSearch.of(new.X, training.search_metric(group.kernel))
        given = search.given_to_last(new.num_rows, structure.partition)
    used = np.unique(given[(given >= 0) & (given < before)])
    rows = _joined(training.rows.map(lambda a: np.asarray(a)[used]), new)
    own = before + np.arange(blocks * size).reshape(blocks, size)
    index = np.concatenate([given, np.where(own < before + new.num_rows, own, -1)], axis=1)
    index = np.where(index < before, np.where(index < 0, -1, np.searchsorted(used, index)), index - before + len(used))
    padding = 2 ** max(0, blocks - 1).bit_length() - blocks
    index = np.pad(index, ((0, padding), (0, 0)), constant_values=-1)
    if index.shape[1] < structure.neighbours + size:  # there were fewer rows than that before
        index = np.pad(index, ((0, 0), (structure.neighbours + size - index.shape[1], 0)), constant_values=-1)
    (part,) = _parts(functions, noise, rows)
    return _with_groups(*part, structure, jnp.asarray(index))


@eqx.filter_jit
@linalg.full_precision
def _with_groups(latents: Latents, X, y, noise, structure: Blocks, index: Int[Array, "b t"]) -> Latents:
    """Latents whose q(w) knows the last rows of each group, given the rows before them in it; -1 is no row."""
    scale = jax.lax.rsqrt(noise[:, 0])
    rows = ScaledRows(latents.rows(X) * scale[:, None], X, y * scale[:, None], scale)
    here = index >= 0
    A, inputs, targets, scales = (a[jnp.maximum(index, 0)] for a in (rows.A, X, rows.y, scale))
    A, targets = (jnp.where(here[..., None], a, 0.0) for a in (A, targets))
    seen = structure.seen(latents.kernel, ScaledRows(A, inputs, targets, jnp.where(here, scales, 0.0)))
    return latents._replace(q=(absorbed(latents.q[0], seen.A, seen.y),))


@linalg.full_precision
def joint_given(
    functions: PosteriorFunctions,
    noise,
    X_new: Float[Array, "k d"],
    y_new: Float[Array, "k p"],
    X: Float[Array, "n d"],
) -> tuple[Float[Array, "p n"], Float[Array, "p n n"]]:
    """Means and joint covariances at ``X``, given new rows too. Pure: for batches and derivatives.

    An exact posterior is conditioned jointly, a sparse one by its q(w).
    """
    count, outputs = len(X_new), y_new.shape[1]
    if not count or not is_exact(functions.latents[0]):
        if count:
            known = jnp.broadcast_to(jnp.atleast_1d(noise)[None, :], (count, jnp.size(noise)))
            y, latents, start = y_new - functions.mean(X_new), [], 0
            for group in functions.latents:
                own = slice(start, start + group.num_functions)
                part = known[:, own] if known.shape[1] > 1 else known
                latents.append(_with_rows(group, X_new, y[:, own], part, DIAGONAL))
                start = own.stop
            functions = functions._replace(latents=tuple(latents))
        mean, cov = mixed_joint(functions, group_joints(functions, X), X)
        return mean.T, jnp.broadcast_to(cov, (outputs, *cov.shape[1:]))
    both = jnp.concatenate([X_new, X])
    mean, cov = mixed_joint(functions, group_joints(functions, both), both)
    prior = jnp.mean(functions.latents[0].kernel.diagonal(both))

    def given(cov):
        W = linalg.factorise(cov[:count, :count] + noise * jnp.eye(count, dtype=cov.dtype), 0.0, prior).inverse
        c = W @ cov[:count, count:]
        return c, W

    c, W = jax.vmap(given)(cov)
    left = jnp.einsum("pij,jp->pi", jnp.broadcast_to(W, (outputs, *W.shape[1:])), y_new - mean[:count])
    updated = mean[count:].T + jnp.einsum("pin,pi->pn", jnp.broadcast_to(c, (outputs, *c.shape[1:])), left)
    cov = cov[:, count:, count:] - jnp.einsum("pin,pim->pnm", c, c)
    return updated, jnp.broadcast_to(cov, (outputs, *cov.shape[1:]))
