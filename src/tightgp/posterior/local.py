"""Prediction from the inducing points *and* each test point's nearest training rows (maths 8.4).

Given u, a test value depends on the training targets too, on those near it most. The nearest K are conditioned on,
exactly; the rest of the data speaks through q(u).
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tightgp.bounds.latents import Latents
from tightgp.data.neighbours import NeighbourSearch
from tightgp.kernels.stationary import squared_distance
from tightgp.means import Zero
from tightgp.numerics import linalg, stacks
from tightgp.numerics.chunks import map_rows, pad_rows, rounded_up
from tightgp.numerics.compiling import quickly_compiled
from tightgp.numerics.device import per_backend
from tightgp.posterior.marginals import Joint, PosteriorFunctions
from tightgp.posterior.training_rows import TrainingRows

#: Whitened training rows that are kept at a time, in bytes.
_KEPT_BYTES = {"cpu": 1 << 29, "gpu": 4 << 30}
#: Test points that are predicted at a time, and the most neighbours that these may have in all.
_PART, _FOUND = {"cpu": 1024, "gpu": 8192}, 1 << 22
#: Joint predictions condition all test points on all of their neighbours, with a factor of that size.
MAX_JOINT = 5000
#: Within JAX transformations, distances to all training rows are computed: at most to so many.
MAX_TRACED = 20_000


class Nearby(NamedTuple):
    """Training rows as the conditional takes them.

    Whitened rows, inputs, one over the noise's standard deviation (zero where a target is missing; one column where it
    is the same for all functions), and targets less the mean function.
    """

    A: Float[Array, "*u m"]
    X: Float[Array, "*u d"]
    scale: Float[Array, "*u c"]
    y: Float[Array, "*u l"]


class _Group:
    """Functions with one kernel, their training data on the host, and the search tree over it."""

    def __init__(self, latents: Latents, X: np.ndarray, scale: np.ndarray, y: np.ndarray, search: NeighbourSearch):
        self.latents, self.X, self.scale, self.y, self.search = latents, X, scale, y, search
        self._everything: Nearby | None = None

    def followed_by(self, new: "_Group") -> "_Group":
        """This group with the rows of ``new`` after its own, and the q(w) of ``new``; the search goes on."""
        scales = [self.scale, new.scale]
        if self.scale.shape[1] != new.scale.shape[1]:  # a missing target gave each function a scale of its own
            scales = [np.broadcast_to(one.scale, one.y.shape) for one in (self, new)]
        X, y = np.concatenate([self.X, new.X]), np.concatenate([self.y, new.y])
        return _Group(new.latents, X, np.concatenate(scales), y, self.search.with_rows(new.X))

    def nearby(self, which: np.ndarray, length: int) -> Nearby:
        """These training rows, padded to ``length`` rows."""
        which = pad_rows(which, length)
        X, scale, y = (jnp.asarray(a[which]) for a in (self.X, self.scale, self.y))
        return Nearby(_whitened(self.latents, X), X, scale, y)

    def everything(self, num_test: int, count: int) -> Nearby | None:
        """All training rows; None where they are too many, or more than the call would use.

        They are kept, but calls before this one have no part in the choice: it changes the last bits of answers.
        """
        rows = len(self.X)
        if rows > min(self.room(count), num_test * count):
            return None
        if self._everything is None:
            self._everything = self.nearby(np.arange(rows), rounded_up(rows))
        return self._everything

    def room(self, count: int) -> int:
        """How many whitened rows may be kept."""
        row_bytes = len(self.latents.Z) * self.X.dtype.itemsize
        return max(per_backend(_KEPT_BYTES) // row_bytes, count)


def marginals(functions: PosteriorFunctions, training: TrainingRows, noise, X: Float[Array, "n d"], count: int):
    """Means and variances (n, P) at ``X``, each row given its ``count`` nearest training rows.

    ``noise`` is the noise variance, one number or (P,). Memory does not grow with the number of test points, beyond the
    answer.
    """
    if isinstance(X, jax.core.Tracer):
        return _traced_marginals(functions, training, noise, X, count)
    groups = _groups(functions, training, noise)
    columns = [_group_marginals(group, np.asarray(X), [count])[0] for group in groups]
    mean, var = (np.concatenate(parts, axis=1) for parts in zip(*columns, strict=True))
    return jnp.asarray(prior_mean(functions, X) + mean), jnp.asarray(var)


def prior_mean(functions: PosteriorFunctions, X: Array) -> np.ndarray:
    """The mean function (n, P) at ``X``, or (n, 1) for all functions."""
    return np.zeros((len(X), 1), X.dtype) if isinstance(functions.mean, Zero) else np.asarray(functions.mean(X))


@linalg.full_precision
def _traced_marginals(functions: PosteriorFunctions, training: TrainingRows, noise, X, count: int):
    """The same within a JAX transformation, where neighbours are found by their distances to all rows."""
    rows = training.rows.num_rows
    if rows > MAX_TRACED:
        raise ValueError(
            f"within JAX transformations and exported programs neighbours are searched among all {rows} training rows; "
            f"at most {MAX_TRACED} are feasible: pass neighbours=0"
        )
    with jax.ensure_compile_time_eval():
        groups = _groups(functions, training, noise)
        nearby = [group.nearby(np.arange(rows), rounded_up(rows)) for group in groups]
    columns = []
    for group, near in zip(groups, nearby, strict=True):
        distance = squared_distance(X / group.search.metric, jnp.asarray(group.search.X, X.dtype))
        index = jax.lax.top_k(-jax.lax.stop_gradient(distance), min(count, rows))[1]
        answer = _given(group.latents, near, index, X, jnp.asarray([min(count, rows)]))
        columns.append(tuple(a[..., 0] for a in answer))
    mean, var = (jnp.concatenate(parts, axis=1) for parts in zip(*columns, strict=True))
    return functions.mean(X) + mean, var


def left_out(functions: PosteriorFunctions, training: TrainingRows, noise, rows: np.ndarray, counts: list[int]):
    """Means and variances (n, P) at training rows by number, given as many nearest other rows as ``counts`` say."""
    groups = _groups(functions, training, noise)
    prior = prior_mean(functions, jnp.asarray(groups[0].X[rows]))
    columns = [_group_marginals(group, group.X[rows], counts, rows) for group in groups]
    answers = []
    for of_groups in zip(*columns, strict=True):
        mean, var = (np.concatenate(parts, axis=1) for parts in zip(*of_groups, strict=True))
        answers.append((jnp.asarray(prior + mean), jnp.asarray(var)))
    return answers


def search(functions: PosteriorFunctions, training: TrainingRows, noise) -> NeighbourSearch:
    """The search among the training rows, in units of the first group's lengthscales; it is kept."""
    return _groups(functions, training, noise)[0].search


def follow(
    old: PosteriorFunctions,
    before: TrainingRows,
    functions: PosteriorFunctions,
    after: TrainingRows,
    noise,
    new: TrainingRows,
) -> None:
    """Prepare ``after``, the rows ``before`` and then ``new`` ones, for ``functions``, if ``before`` is for ``old``."""
    kept = _kept_groups(old, before, noise)
    if kept is not None:
        groups = [group.followed_by(one) for group, one in zip(kept, _made_groups(functions, new, noise), strict=True)]
        after.prepared["neighbours"] = (functions.latents, functions.mean, np.asarray(noise).tolist()), groups


def joints(functions: PosteriorFunctions, training: TrainingRows, noise, X, count: int) -> list[Joint]:
    """The joint distribution of each group of functions, given all neighbours of all of ``X``."""
    if isinstance(X, jax.core.Tracer):
        raise ValueError(
            "joint predictions from neighbours are made outside of JAX transformations; or pass neighbours=0"
        )
    found = union(functions, training, noise, X, count)
    return [_joint(group, *near, X) for group, near in zip(functions.latents, found, strict=True)]


def union(functions: PosteriorFunctions, training: TrainingRows, noise, X, count: int) -> list[tuple[Nearby, Array]]:
    """All neighbours of all of ``X``, padded, for each group of functions, and how many there are."""
    found = []
    for group in _groups(functions, training, noise):
        near = np.unique(group.search.nearest(np.asarray(X), count))
        if len(near) > MAX_JOINT:
            raise ValueError(
                f"the rows of X have {len(near)} different neighbours, all of which a joint prediction conditions on; "
                f"at most {MAX_JOINT} are feasible: ask about fewer rows or fewer neighbours at a time"
            )
        found.append((group.nearby(near, rounded_up(len(near))), jnp.asarray(len(near))))
    return found


def feasible(functions: PosteriorFunctions, training: TrainingRows, noise, X: np.ndarray, count: int) -> int:
    """``count``, halved until a joint prediction at ``X`` is feasible; it may come to zero."""
    for group in _groups(functions, training, noise):
        near = group.search.nearest(X, count)
        while count and len(np.unique(near[:, :count])) > MAX_JOINT:
            count //= 2
    return count


def _groups(functions: PosteriorFunctions, training: TrainingRows, noise) -> list[_Group]:
    """The groups of functions with their training data, prepared at the first prediction."""
    groups = _kept_groups(functions, training, noise)
    if groups is None:
        groups = _made_groups(functions, training, noise)
        training.prepared["neighbours"] = (functions.latents, functions.mean, np.asarray(noise).tolist()), groups
    return groups


def _kept_groups(functions: PosteriorFunctions, training: TrainingRows, noise) -> list[_Group] | None:
    """The groups that were prepared; None where there are none, or they were made of something else."""
    if "neighbours" not in training.prepared:
        return None
    (latents, mean, known), groups = training.prepared["neighbours"]
    same = latents is functions.latents and mean is functions.mean and known == np.asarray(noise).tolist()
    return groups if same else None


def _made_groups(functions: PosteriorFunctions, training: TrainingRows, noise) -> list[_Group]:
    rows: Any = training.rows.map(np.asarray)
    noise = np.atleast_1d(np.asarray(noise))
    noise = np.stack([rows.noise(np.asarray(one)) for one in noise], axis=1)
    observed = ~np.isnan(rows.y)
    y = np.where(observed, rows.y - prior_mean(functions, jnp.asarray(rows.X)), 0.0)
    groups, start = [], 0
    for latents in functions.latents:
        own = slice(start, start + latents.num_functions)
        variance = noise[:, own] if noise.shape[1] > 1 else noise
        scale = (1 / np.sqrt(variance + _rounding(latents, rows.X)[:, None])).astype(rows.X.dtype)
        scale = scale if np.all(observed[:, own]) else scale * observed[:, own]
        groups.append(_Group(latents, rows.X, scale, y[:, own], training.search(latents.kernel)))
        start = own.stop
    return groups


def _rounding(latents: Latents, X: np.ndarray) -> np.ndarray:
    """The error of what the inducing points leave of the prior's variance, which noise must cover.

    Whitened rows are divided by a factor that contains its jitter. In float64 the error is next to nothing; in float32
    predictions from neighbours with less noise would be made of rounding.
    """
    error = 2 * np.finfo(X.dtype).eps / np.sqrt(linalg.default_jitter(X.dtype))
    return error * np.asarray(latents.kernel.diagonal(jnp.asarray(X)))


def _group_marginals(
    group: _Group, X: np.ndarray, counts: list[int], rows: np.ndarray | None = None
) -> list[tuple[np.ndarray, np.ndarray]]:
    """Means and variances at ``X``, for each of several numbers of neighbours.

    Where X are training ``rows``, they are left out of their own neighbours. One factor serves all numbers: that of
    the first neighbours is a corner of it.
    """
    count = min(max(counts), len(group.X))
    everything = group.everything(len(X), count)
    step = len(X) if everything is not None else group.room(count) // count
    step = max(1, min(per_backend(_PART), _FOUND // count, step))
    answers = []
    for start in range(0, len(X), step):
        # The last part is as long as the others, because JAX compiles a program for each number of rows.
        length = min(step, len(X))
        part = pad_rows(X[start : start + step], length)
        near = everything
        if rows is None:
            index = group.search.nearest(part, count)
        else:
            index = _others(group.search.nearest(part, count + 1), pad_rows(rows[start : start + step], length))
        if near is None:
            used, index = np.unique(index, return_inverse=True)
            near = group.nearby(used, rounded_up(length * count))
        given = group.latents, near, jnp.asarray(index.reshape(len(part), count)), jnp.asarray(part)
        answers.append(tuple(map(np.asarray, _given(*given, jnp.asarray(counts)))))
    mean, var = (np.concatenate(parts)[: len(X)] for parts in zip(*answers, strict=True))
    return [(mean[..., i], var[..., i]) for i in range(len(counts))]


def _others(near: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Neighbours (n, k) out of (n, k + 1), nearest first, without the rows themselves."""
    order = np.argsort(near == rows[:, None], axis=1, kind="stable")
    return np.take_along_axis(near, order, axis=1)[:, :-1]


@quickly_compiled
@linalg.full_precision
def _whitened(latents: Latents, X: Float[Array, "n d"]) -> Float[Array, "n m"]:
    return map_rows(latents.rows, len(latents.Z), X)


@quickly_compiled
def _given(latents: Latents, near: Nearby, index: Int[Array, "n k"], X: Float[Array, "n d"], counts: Int[Array, " c"]):
    """Means and variances (n, l, c) at ``X``, each row given the first rows in ``index``, as many as ``counts`` say."""
    width = index.shape[1] * (len(latents.Z) + 4 * index.shape[1])

    def given(i, x):
        return _conditioned(latents, Nearby(*(a[i] for a in near)), x, counts)

    return map_rows(given, width, index, X)


@linalg.full_precision
def _conditioned(latents: Latents, near: Nearby, X: Float[Array, "n d"], counts: Int[Array, " c"]):
    """Means and variances (n, l, c) at ``X``, each row given the first of its own neighbours (n, k, ·)."""
    A, a = near.A, latents.rows(X)
    D = jax.vmap(latents.kernel)(near.X) - jnp.einsum("nkm,njm->nkj", A, A)
    cross = jax.vmap(lambda b, x: latents.kernel(b, x[None])[:, 0])(near.X, X) - jnp.einsum("nkm,nm->nk", A, a)
    left = jnp.maximum(latents.kernel.diagonal(X) - jnp.sum(a * a, axis=1), 0.0)

    def with_noise(s: Float[Array, "n k"]):
        W = stacks.noisy_roots(s[:, :, None] * D * s[:, None, :], True)
        every = jnp.einsum("nij,nj->ni", W, s * cross)
        means, variances = [], []
        for count in counts:
            c = jnp.where(jnp.arange(len(every[0])) < count, every, 0.0)
            h = s * jnp.einsum("nji,nj->ni", W, c)
            rows = a - jnp.einsum("nk,nkm->nm", h, A)
            means.append(latents.mean(rows) + jnp.einsum("nk,nkl->nl", h, near.y))
            variances.append(jnp.maximum(left - jnp.sum(c * c, axis=1), 0.0)[:, None] + latents.spread(rows))
        mean = jnp.stack(means, axis=-1)
        return mean, jnp.broadcast_to(jnp.stack(variances, axis=-1), mean.shape)

    return _by_function(with_noise, near.scale)


@quickly_compiled
@linalg.full_precision
def _joint(latents: Latents, near: Nearby, count: Int[Array, ""], X: Float[Array, "n d"]) -> Joint:
    """Means (n, l) and covariances (l, n, n) at ``X``, given the first ``count`` of the training rows."""
    A, a = near.A, latents.rows(X)
    D = latents.kernel(near.X) - A @ A.T
    cross = latents.kernel(near.X, X) - A @ a.T
    left = latents.kernel(X) - a @ a.T
    real = (jnp.arange(len(A)) < count)[:, None]

    def with_noise(s: Float[Array, " u"]):
        s = s[:, None]
        W = stacks.noisy_roots((s * D * s.T)[None], True)[0]
        c = W @ (s * cross)
        h = s * (W.T @ c)
        rows = a - h.T @ A
        mean, spread = latents.mean(rows) + h.T @ near.y, latents.joint_spread(rows)
        return mean, jnp.broadcast_to(left - c.T @ c + spread, (mean.shape[1], *left.shape))

    return Joint(*_by_function(with_noise, near.scale * real, axis=0))


def _by_function(answer, scale: Float[Array, "*u c"], axis: int = 1):
    """``answer`` for the noise of all functions; or function by function, where each has a noise of its own."""
    if scale.shape[-1] == 1:
        return answer(scale[..., 0])
    answers = [answer(scale[..., j]) for j in range(scale.shape[-1])]
    mean = jnp.concatenate([m[:, j : j + 1] for j, (m, _) in enumerate(answers)], axis=1)
    parts = [v[:, j : j + 1] if axis else v[j : j + 1] for j, (_, v) in enumerate(answers)]
    return mean, jnp.concatenate(parts, axis=axis)
