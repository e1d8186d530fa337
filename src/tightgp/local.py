"""Prediction from the inducing points *and* each test point's nearest training rows (maths 8.4).

Given u, a test value depends on the training targets too, on those near it most. The nearest K are conditioned on,
exactly; the rest of the data speaks through q(u).
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from tightgp import linalg
from tightgp.backend import of_backend
from tightgp.batching import by_parts, rounded_up
from tightgp.latents import Latents
from tightgp.neighbours import Neighbourhood

if TYPE_CHECKING:
    from tightgp.posterior import Posterior

#: Whitened training rows that are held at a time, in bytes.
_HELD_BYTES = {"cpu": 1 << 29, "gpu": 4 << 30}
#: Test points whose neighbours are looked for at a time, and how many neighbours these may have in all.
_SEARCHED, _FOUND = 8192, 1 << 22
#: Joint predictions condition all test points on all of their neighbours, with a factor of that size.
MOST_JOINT = 5000


class Nearby(NamedTuple):
    """Training rows as the conditional takes them.

    Whitened rows, inputs, one over the noise's standard deviation (zero where a target is missing; one column
    where it is the same for all functions), and targets less the mean function.
    """

    A: Float[Array, "*u m"]
    X: Float[Array, "*u d"]
    scale: Float[Array, "*u c"]
    y: Float[Array, "*u l"]


class _Group(NamedTuple):
    """Functions with one kernel, and the training data that are theirs, on the host."""

    latents: Latents
    X: np.ndarray
    scale: np.ndarray
    y: np.ndarray

    def nearby(self, rows: np.ndarray) -> Nearby:
        """These training rows, and copies of the last up to one of few numbers."""
        rows = np.concatenate([rows, np.repeat(rows[-1:], rounded_up(len(rows)) - len(rows))])
        X, scale, y = (jnp.asarray(a[rows]) for a in (self.X, self.scale, self.y))
        return Nearby(_whitened(self.latents, X), X, scale, y)


def marginals(post: "Posterior", X: Float[Array, "n d"], count: int) -> tuple[np.ndarray, np.ndarray]:
    """Means (n, P), without the mean function, and variances of the functions at ``X``, given ``count`` neighbours.

    Memory does not grow with the number of test points, beyond the answer.
    """
    columns = [_marginals(group, np.asarray(X), count) for group in _groups(post)]
    mean, var = (np.concatenate(parts, axis=1) for parts in zip(*columns, strict=True))
    return mean, var


def joint(post: "Posterior", X: Float[Array, "n d"], count: int) -> list[tuple[Array, Array]]:
    """Means (n, l) and joint covariances (l, n, n) of each group of functions, given all neighbours of all of ``X``."""
    out = []
    for group in _groups(post):
        near = np.unique(Neighbourhood.of(group.X, group.latents.kernel).nearest(np.asarray(X), count))
        if len(near) > MOST_JOINT:
            raise ValueError(
                f"the rows of X have {len(near)} different neighbours, all of which a joint prediction conditions on; "
                f"at most {MOST_JOINT} are feasible: ask about fewer rows or fewer neighbours at a time"
            )
        out.append(_joint(group.latents, group.nearby(near), jnp.asarray(len(near)), X))
    return out


def feasible(post: "Posterior", X: np.ndarray, count: int) -> int:
    """``count``, halved as often as it takes for a joint prediction at ``X`` to be feasible; it may come to zero."""
    for group in _groups(post):
        near = Neighbourhood.of(group.X, group.latents.kernel).nearest(X, count)
        while count and len(np.unique(near[:, :count])) > MOST_JOINT:
            count //= 2
    return count


def _groups(post: "Posterior") -> list[_Group]:
    assert post.training is not None
    rows: Any = jax.tree.map(np.asarray, post.training.rows)
    noise = np.atleast_1d(np.asarray(post.noise_variance)) + rows.known[:, None]
    here = ~np.isnan(rows.y)
    y = np.where(here, rows.y - _mean(post, rows.X), 0.0)
    groups, start = [], 0
    for latents in post.latents:
        mine = slice(start, start + latents.q[0].mean.shape[1])
        own = noise[:, mine] if noise.shape[1] > 1 else noise
        scale = (1 / np.sqrt(own + _rounding(latents, rows.X)[:, None])).astype(rows.X.dtype)
        scale = scale if np.all(here[:, mine]) else scale * here[:, mine]
        groups.append(_Group(latents, rows.X, scale, y[:, mine]))
        start = mine.stop
    return groups


def _rounding(latents: Latents, X: np.ndarray) -> np.ndarray:
    """The error of what the inducing points leave of the prior's variance, which noise must cover.

    Whitened rows are had through a factor that has its jitter to divide by. In float64 this is next to nothing; in
    float32 predictions from neighbours with less noise would be made of rounding.
    """
    error = 2 * np.finfo(X.dtype).eps / np.sqrt(linalg.default_jitter(X.dtype))
    return error * np.asarray(latents.kernel.diagonal(jnp.asarray(X)))


def _mean(post: "Posterior", X: np.ndarray) -> np.ndarray:
    return np.asarray(post.mean(jnp.asarray(X)))


def _marginals(group: _Group, X: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    tree = Neighbourhood.of(group.X, group.latents.kernel)
    count, rows = min(count, len(group.X)), len(group.X)
    held = max(of_backend(_HELD_BYTES) // (len(group.latents.Z) * X.dtype.itemsize), count)
    everything = group.nearby(np.arange(rows)) if rows <= min(held, len(X) * count) else None
    at_once = max(1, min(_SEARCHED, _FOUND // count, len(X) if everything is not None else held // count))
    answers = []
    for start in range(0, len(X), at_once):
        part = X[start : start + at_once]
        index, near = tree.nearest(part, count), everything
        if near is None:
            used, index = np.unique(index, return_inverse=True)
            near = group.nearby(used)
        answers.append(_given(group.latents, near, jnp.asarray(index.reshape(len(part), count)), jnp.asarray(part)))
    mean, var = (np.concatenate([np.asarray(a) for a in parts]) for parts in zip(*answers, strict=True))
    return mean, var


@eqx.filter_jit
@linalg.full_precision
def _whitened(group: Latents, X: Float[Array, "n d"]) -> Float[Array, "n m"]:
    return by_parts(group.rows, len(group.Z), X)


@eqx.filter_jit
def _given(group: Latents, near: Nearby, index: Int[Array, "n k"], X: Float[Array, "n d"]):
    count = index.shape[1]
    width = count * (len(group.Z) + 4 * count)
    return by_parts(lambda i, x: _conditioned(group, Nearby(*(a[i] for a in near)), x), width, index, X)


@linalg.full_precision
def _conditioned(group: Latents, near: Nearby, X: Float[Array, "n d"]):
    """Means and variances (n, l) at ``X``, each row given its own neighbours (n, k, ·)."""
    A, a = near.A, group.rows(X)
    D = jax.vmap(group.kernel)(near.X) - jnp.einsum("nkm,njm->nkj", A, A)
    cross = jax.vmap(lambda b, x: group.kernel(b, x[None])[:, 0])(near.X, X) - jnp.einsum("nkm,nm->nk", A, a)
    left = jnp.maximum(group.kernel.diagonal(X) - jnp.sum(a * a, axis=1), 0.0)

    def with_noise(s: Float[Array, "n k"]):
        W = linalg.inverse_roots_with_noise(s[:, :, None] * D * s[:, None, :])
        c = jnp.einsum("nij,nj->ni", W, s * cross)
        h = s * jnp.einsum("nji,nj->ni", W, c)
        rows = a - jnp.einsum("nk,nkm->nm", h, A)
        mean = group.mean(rows) + jnp.einsum("nk,nkl->nl", h, near.y)
        var = jnp.maximum(left - jnp.sum(c * c, axis=1), 0.0)[:, None] + group.spread(rows)
        return mean, jnp.broadcast_to(var, mean.shape)

    return _by_function(with_noise, near.scale)


@eqx.filter_jit
@linalg.full_precision
def _joint(group: Latents, near: Nearby, count: Int[Array, ""], X: Float[Array, "n d"]):
    """Means (n, l) and covariances (l, n, n) at ``X``, given the first ``count`` of the training rows."""
    A, a = near.A, group.rows(X)
    D = group.kernel(near.X) - A @ A.T
    cross = group.kernel(near.X, X) - A @ a.T
    left = group.kernel(X) - a @ a.T
    real = (jnp.arange(len(A)) < count)[:, None]

    def with_noise(s: Float[Array, " u"]):
        s = s[:, None]
        W = linalg.inverse_roots_with_noise((s * D * s.T)[None])[0]
        c = W @ (s * cross)
        h = s * (W.T @ c)
        rows = a - h.T @ A
        mean, spread = group.mean(rows) + h.T @ near.y, group.joint_spread(rows)
        return mean, jnp.broadcast_to(left - c.T @ c + spread, (mean.shape[1], *left.shape))

    mean, cov = _by_function(with_noise, near.scale * real, axis=0)
    return mean, cov


def _by_function(answer, scale: Float[Array, "*u c"], axis: int = 1):
    """``answer`` for the noise of all functions; or function by function, where each has a noise of its own."""
    if scale.shape[-1] == 1:
        return answer(scale[..., 0])
    answers = [answer(scale[..., j]) for j in range(scale.shape[-1])]
    mean = jnp.concatenate([m[:, j : j + 1] for j, (m, _) in enumerate(answers)], axis=1)
    parts = [v[:, j : j + 1] if axis else v[j : j + 1] for j, (_, v) in enumerate(answers)]
    return mean, jnp.concatenate(parts, axis=axis)
