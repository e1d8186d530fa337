"""What every posterior can do: predict, score, sample. Factors are computed once, when it is made."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from tightgp import checks, linalg, local
from tightgp.batching import by_parts
from tightgp.data import Batch
from tightgp.diagnosis import NumericalError
from tightgp.latents import Latents, mix
from tightgp.likelihoods import Gaussian, Likelihood
from tightgp.means import Mean
from tightgp.refinement import Refinement, Training, correction, refine

#: Joint covariances and samples need a matrix of test points by test points.
_MAX_JOINT = 20_000


class Posterior(eqx.Module):
    """``q(f*) = N(m(x*) + a*ᵀm, v d* + a*ᵀSa*)`` of each latent function (maths 8.1), and what is made of it.

    ``latents`` hold q(w) = N(m, S); ``mixing`` makes P functions of L latent ones; ``scale`` is v (8.3), or None
    for one. The exact posterior is the case of inducing inputs at the data, with the factor of ``Kff + σ²I``
    and no S.
    """

    latents: tuple[Latents, ...]
    mean: Mean
    likelihood: Likelihood
    mixing: Float[Array, "p l"] | None
    scale: Float[Array, " l"] | None
    training: Training | None
    vector: bool = eqx.field(static=True)

    def predict_f(self, X, *, full_cov: bool = False, exact_conditional: bool = False, neighbours: int | None = None):
        """Mean and variance of the function at ``X`` (n, D).

        Both are (n,) where there is one function and the targets were (N,), else (n, P). ``full_cov=True`` gives
        the joint covariance, (n, n) or (P, n, n). ``exact_conditional=True`` uses the trained V in q(f|u) also
        for the test points (maths 8.2): the same mean, a variance that is never larger, O(N³).

        ``neighbours=K`` conditions each test point also on its K nearest training rows (maths 8.4): nearer to the
        exact GP, at K³ + K²M a point and the search in a tree (slow in more than some twenty inputs), for Gaussian
        noise. A joint covariance is given all neighbours of all of ``X``.
        """
        X = self._inputs(X)
        if full_cov:
            self._limit("full_cov", X)
            mean, cov = self._jointly(X, exact_conditional, neighbours)
            cov = jnp.broadcast_to(cov, (mean.shape[1], *cov.shape[1:]))
            return (mean[:, 0], cov[0]) if self.vector and mean.shape[1] == 1 else (mean, cov)
        mean, var = self._singly(X, exact_conditional, neighbours)
        return self._shaped(mean), self._shaped(var)

    def predict_y(
        self,
        X,
        *,
        full_cov: bool = False,
        exact_conditional: bool = False,
        neighbours: int | None = None,
        noise_variance=None,
    ):
        """Mean and variance of a new target at ``X``; for several classes, probabilities (n, C) and theirs.

        ``noise_variance`` (n,) adds each test row's own known noise; ``full_cov`` goes with Gaussian noise.
        """
        X = self._inputs(X)
        likelihood = self._seen(noise_variance, X)
        if full_cov:
            if not isinstance(likelihood, Gaussian):
                raise ValueError(f"full_cov=True of predict_y needs Gaussian noise, not {type(likelihood).__name__}")
            mean, cov = self.predict_f(X, full_cov=True, exact_conditional=exact_conditional, neighbours=neighbours)
            noise = jnp.broadcast_to(likelihood.variance, (len(X), 1 if mean.ndim == 1 else mean.shape[1]))
            return mean, cov + (jnp.diag(noise[:, 0]) if mean.ndim == 1 else jax.vmap(jnp.diag)(noise.T))
        mean, var = _apply(likelihood, "predict", *self._singly(X, exact_conditional, neighbours))
        return self._shaped(mean), self._shaped(var)

    def log_density(
        self,
        X,
        y,
        *,
        exact_conditional: bool = False,
        neighbours: int | None = None,
        noise_variance=None,
        missing: bool = False,
    ):
        """Log density of each target under the predictive distribution, in the shape of ``y``.

        With ``missing=True`` the NaN of ``y`` are outputs that were not seen; their densities are NaN.
        """
        X = self._inputs(X)
        y = self._targets(y, X, missing)
        mean, var = self._singly(X, exact_conditional, neighbours)
        seen, gone = self._seen(noise_variance, X), jnp.isnan(y)
        densities = _apply(seen, "predictive_log_density", mean, var, jnp.where(gone, seen.filler, y))
        return self._shaped(jnp.where(gone, jnp.nan, densities))

    def sample_f(self, key, X, num_samples: int = 1, *, neighbours: int | None = None):
        """Joint draws of the function at ``X``: (num_samples, n) or (num_samples, n, P)."""
        checks.count("num_samples", num_samples)
        X = self._inputs(X)
        self._limit("sample_f", X)
        parts = None if neighbours is None else local.joint(self, self._known(X), self._local(neighbours))
        draws = _sample(self.without_rows(), parts, X, key, num_samples)
        if not isinstance(draws, jax.core.Tracer) and not bool(jnp.all(jnp.isfinite(draws))):
            raise NumericalError("the joint covariance at X could not be factorised; use float64 or fewer rows")
        return self._shaped(draws)

    def sample_y(self, key, X, num_samples: int = 1, noise_variance=None, *, neighbours: int | None = None):
        """Draws of new targets at ``X``, given joint draws of the function: (num_samples, n) or (..., n, P)."""
        function_key, target_key = jax.random.split(key)
        F = self.sample_f(function_key, X, num_samples, neighbours=neighbours)
        likelihood = self._seen(noise_variance, self._inputs(X))
        return self._shaped(likelihood.sample(target_key, F if F.ndim == 3 else F[..., None]))

    @property
    def noise_variance(self) -> Float[Array, "*p"]:
        """Noise variance σ²."""
        if not hasattr(self.likelihood, "noise_variance"):
            raise ValueError(f"{type(self.likelihood).__name__} has no noise variance")
        return self.likelihood.noise_variance

    @property
    def scales(self) -> Float[Array, " n"]:
        """The optimal v_i of each training row (the diagonal of V): near 1 where the inducing points suffice."""
        t = self._trained()
        V = t.optimal_V(self.latents[0])
        v = jnp.diagonal(V, axis1=1, axis2=2).reshape(-1)[: len(t.rows.X)]
        return v if t.order is None else jnp.zeros_like(v).at[t.order].set(v)

    def residual_variance(self, X) -> Float[Array, "..."]:
        """What the inducing points leave of the prior's variance at ``X``: d (n,), or (n, G) for G kernels or sets.

        Near zero where more of them would not help; of the size of the kernel's variance where there are none near.
        """
        X = self._inputs(X)
        width = max(len(group.Z) for group in self.latents)
        left = _residuals(self, X, width)
        return left[:, 0] if left.shape[1] == 1 else left

    def log_density_of(self, batch: Batch) -> Float[Array, "n p"]:
        """Log densities of a batch's targets; what stands where one is missing means nothing."""
        likelihood = self.likelihood if batch.known is None else self.likelihood.with_known(batch.known)
        mean, var = _marginals(self, None, batch.X)
        y = jnp.where(jnp.isnan(batch.y), likelihood.filler, batch.y)
        return likelihood.predictive_log_density(mean, var, y, batch.key)

    def without_rows(self) -> "Posterior":
        """This posterior without the training rows, smaller and fit to be given away; it cannot predict locally."""
        return eqx.tree_at(lambda post: post.training, self, None, is_leaf=lambda x: x is None)

    def _trained(self) -> Training:
        if self.training is None or self.training.process is None:
            raise ValueError(
                "this posterior keeps no training rows, so no v_i and no conditional to refine: it is exact, made "
                "from an explicit q(u), or without_rows()"
            )
        return self.training

    def _local(self, neighbours: int) -> int:
        """The number of neighbours, where prediction from them is possible."""
        checks.count("neighbours", neighbours)
        if type(self.likelihood) is not Gaussian:
            raise ValueError(f"neighbours needs Gaussian noise, not {type(self.likelihood).__name__}; leave it out")
        if self.mixing is not None:
            raise ValueError("neighbours needs outputs with functions of their own, not a mixing; leave it out")
        if self.scale is not None:
            raise ValueError("neighbours uses the prior's conditional: make the posterior with scaled=False")
        if self.training is None:
            raise ValueError(
                "neighbours needs training rows, and this posterior keeps none: make it by posterior(data), without "
                "without_rows(); an exact posterior has no use for them"
            )
        return neighbours

    def _singly(self, X, exact_conditional: bool, neighbours: int | None):
        """Means and variances of the functions at each row."""
        if neighbours is None:
            refinement = refine(self._trained(), self.latents[0]) if exact_conditional else None
            return _marginals(self.without_rows(), refinement, X)
        self._not_both(exact_conditional)
        mean, var = local.marginals(self, self._known(X), self._local(neighbours))
        return self.mean(X) + mean, jnp.asarray(var)

    def _jointly(self, X, exact_conditional: bool, neighbours: int | None):
        """Means and joint covariances of the functions."""
        if neighbours is None:
            refinement = refine(self._trained(), self.latents[0]) if exact_conditional else None
            return _joint(self.without_rows(), refinement, X)
        self._not_both(exact_conditional)
        return _mixed(self, local.joint(self, self._known(X), self._local(neighbours)), X)

    def _not_both(self, exact_conditional: bool) -> None:
        if exact_conditional:
            raise ValueError("neighbours and exact_conditional are two ways to predict; choose one")

    def _known(self, X):
        if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves((X, self))):
            raise ValueError("neighbours are looked for among known inputs: call this outside of JAX transformations")
        return X

    def _inputs(self, X):
        Z = self.latents[0].Z
        X = checks.matrix("X", X, Z.shape[1], Z.dtype)
        checks.same_dtype("X", X, "the model", Z)
        return jnp.asarray(X)

    def _targets(self, y, X, missing):
        y = checks.floats("y", y, X.dtype)
        (checks.not_infinite if missing else checks.finite)("y", y)
        wanted = (len(X),) if self.vector else (len(X), self._num_outputs())
        if y.shape != wanted:
            raise ValueError(f"y must have shape {wanted}, like the predictions at X; got {y.shape}")
        y = y[:, None] if y.ndim == 1 else y
        if not isinstance(y, jax.core.Tracer):
            self.likelihood.check_targets(y)
        return jnp.asarray(y)

    def _num_outputs(self) -> int:
        if self.likelihood.num_latents is not None:
            return 1
        return sum(g.q[0].mean.shape[1] for g in self.latents) if self.mixing is None else len(self.mixing)

    def _limit(self, what, X):
        if X.shape[0] > _MAX_JOINT:
            raise ValueError(f"{what} makes an n×n matrix; X has {X.shape[0]} rows, use at most {_MAX_JOINT}")

    def _seen(self, extra, X) -> Likelihood:
        """The likelihood of test rows with ``extra`` known noise."""
        if extra is None:
            return self.likelihood
        extra = checks.not_negative("noise_variance", extra, X.dtype)
        if extra.shape not in ((), (len(X),)):
            raise ValueError(f"noise_variance must be one number or have shape ({len(X)},), got {extra.shape}")
        return self.likelihood.with_known(jnp.broadcast_to(jnp.asarray(extra, X.dtype), (len(X),)))

    def _shaped(self, values):
        return values[..., 0] if self.vector and values.shape[-1] == 1 else values


@eqx.filter_jit
def _apply(likelihood: Likelihood, what: str, *arrays):
    """A likelihood's answer about some rows; by parts where expectations hold many numbers for each row."""
    if likelihood.num_latents is None:
        return getattr(likelihood, what)(*arrays)
    width = likelihood.numbers_per_row
    return by_parts(lambda *part: getattr(likelihood, what)(*part), width, *arrays)


@eqx.filter_jit
def _marginals(post: Posterior, refinement: Refinement | None, X):
    """Means and variances, so many rows at a time that their kernel matrices stay small."""
    width = max(len(group.Z) for group in post.latents)
    width = width if refinement is None else max(width, len(refinement.scale))
    return by_parts(lambda x: _marginal(post, refinement, x), width, X)


@linalg.full_precision
def _marginal(post: Posterior, refinement, X):
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
def _residuals(post: Posterior, X, width: int):
    return by_parts(lambda x: jnp.stack([_left(g, x, g.rows(x)) for g in post.latents], axis=1), width, X)


def _scaled(post: Posterior):
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
def _joint(post: Posterior, refinement: Refinement | None, X):
    """Means (n, P) and covariances (P, n, n), or (1, n, n) where all are the same."""
    return _mixed(post, [_group_joint(group, scale, refinement, X) for group, scale in _scaled(post)], X)


def _mixed(post: Posterior, parts, X):
    """The joint distribution of the outputs, from those of each group of functions."""
    mean, cov = jnp.concatenate([p[0] for p in parts], axis=1), jnp.concatenate([p[1] for p in parts])
    if post.mixing is not None:
        cov = jnp.broadcast_to(cov, (mean.shape[1], *cov.shape[1:]))
        mean, cov = mean @ post.mixing.T, jnp.einsum("pl,lij->pij", post.mixing**2, cov)
    return post.mean(X) + mean, cov


@eqx.filter_jit
@linalg.full_precision
def _sample(post: Posterior, parts, X, key, num_samples):
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
