"""What every posterior can do: predict, score, sample. Factors are computed once, when it is made."""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from tightgp import checks, linalg, statistics
from tightgp.conditionals import Conditional
from tightgp.diagnosis import NumericalError
from tightgp.kernels import Kernel
from tightgp.means import Mean
from tightgp.statistics import Process, Rows

#: Rows of test inputs are taken this many bytes of kernel matrix at a time.
_BATCH_BYTES = 64 << 20
#: The consistent predictive needs an N×N eigendecomposition.
_MAX_EXACT_CONDITIONAL = 5000
#: Joint covariances and samples need a matrix of test points by test points.
_MAX_JOINT = 20_000


class Training(eqx.Module):
    """What the training data left behind, for answers that go back to its rows."""

    process: Process
    rows: Rows
    order: np.ndarray | None
    excess: Float[Array, ""]
    structure: Conditional = eqx.field(static=True)


class _Refinement(NamedTuple):
    """What the consistent predictive needs of the training rows (maths 8.2), in units of the noise."""

    scale: Float[Array, " n"]
    A: Float[Array, "n m"]
    inverse_root: Float[Array, "n n"]
    V: Float[Array, "b s s"]


class Posterior(eqx.Module):
    """``q(f*) = N(m(x*) + K*z weights, K** − K*z WᵀW Kz* + K*z RᵀR Kz*)`` (maths 8.1).

    With ``W = L⁻¹`` and ``RᵀR = L⁻ᵀ S L⁻¹`` this is a sparse posterior whose whitened q(w) has covariance
    ``S``; with the factor of ``Kff + σ²I`` and no ``R`` it is the exact one.
    """

    kernel: Kernel
    mean: Mean
    Z: Float[Array, "m d"]
    noise_variance: Float[Array, ""]
    weights: Float[Array, "m p"]
    W: Float[Array, "m m"]
    R: Float[Array, "m m"] | None
    training: Training | None
    vector: bool = eqx.field(static=True)

    def predict_f(self, X, *, full_cov: bool = False, exact_conditional: bool = False):
        """Mean and variance of the function at ``X`` (n, D).

        Both are (n,) where the targets were (N,), else (n, P). ``full_cov=True`` gives the joint covariance,
        (n, n) or (P, n, n). ``exact_conditional=True`` uses the trained V in q(f|u) also for the test points
        (maths 8.2): the same mean, a variance that is never larger, O(N³).
        """
        X = self._inputs(X)
        refinement = self._refinement() if exact_conditional else None
        if full_cov:
            self._limit("full_cov", X)
            mean, spread = _joint(self, refinement, X)
        else:
            mean, spread = _marginals(self, refinement, X)
        return self._shaped(mean, spread, full_cov)

    def predict_y(self, X, *, full_cov: bool = False, exact_conditional: bool = False, noise_variance=None):
        """Mean and variance of a new target at ``X``: the function's plus the noise.

        ``noise_variance`` (n,) adds each test row's own known noise.
        """
        mean, spread = self.predict_f(X, full_cov=full_cov, exact_conditional=exact_conditional)
        noise = jnp.broadcast_to(self._noise(noise_variance, mean.shape[0]), mean.shape[:1])
        if full_cov:
            return mean, spread + jnp.diag(noise)
        return mean, spread + (noise if self.vector else noise[:, None])

    def log_density(self, X, y, *, exact_conditional: bool = False, noise_variance=None):
        """Log density of each target: (n,), or (n, P) for several outputs."""
        mean, var = self.predict_y(X, exact_conditional=exact_conditional, noise_variance=noise_variance)
        y = checks.floats("y", y, mean.dtype)
        if y.shape != mean.shape:
            raise ValueError(f"y must have shape {mean.shape}, like the predictions at X; got {y.shape}")
        checks.finite("y", y)
        return -0.5 * (jnp.log(2 * jnp.pi * var) + (y - mean) ** 2 / var)

    def sample_f(self, key, X, num_samples: int = 1):
        """Joint draws of the function at ``X``: (num_samples, n) or (num_samples, n, P)."""
        checks.count("num_samples", num_samples)
        X = self._inputs(X)
        self._limit("sample_f", X)
        draws = _sample(self, X, key, num_samples)
        if not isinstance(draws, jax.core.Tracer) and not bool(jnp.all(jnp.isfinite(draws))):
            raise NumericalError("the joint covariance at X could not be factorised; use float64 or fewer rows")
        return draws[..., 0] if self.vector else draws

    @property
    def scales(self) -> Float[Array, " n"]:
        """The optimal v_i of each training row (the diagonal of V): near 1 where the inducing points suffice."""
        V = self._trained_V()
        v = jnp.diagonal(V, axis1=1, axis2=2).reshape(-1)[: len(self._trained().rows.X)]
        order = self._trained().order
        return v if order is None else jnp.zeros_like(v).at[order].set(v)

    def _trained(self) -> Training:
        if self.training is None:
            raise ValueError("this posterior has no q(f|u): it is exact, so no v_i and no conditional to refine")
        return self.training

    def _trained_V(self):
        t = self._trained()
        return statistics.optimal_V(t.process, t.rows, self.W, t.structure, t.excess)

    def _refinement(self):
        t = self._trained()
        n = t.rows.X.shape[0]
        if n > _MAX_EXACT_CONDITIONAL:
            raise ValueError(
                f"exact_conditional needs an N×N eigendecomposition and is for at most {_MAX_EXACT_CONDITIONAL} "
                f"training rows; there are {n}"
            )
        return _refine(self, self._trained_V())

    def _inputs(self, X):
        X = checks.matrix("X", X, self.Z.shape[1], self.Z.dtype)
        checks.same_dtype("X", X, "the model", self.Z)
        return jnp.asarray(X)

    def _limit(self, what, X):
        if X.shape[0] > _MAX_JOINT:
            raise ValueError(f"{what} makes an n×n matrix; X has {X.shape[0]} rows, use at most {_MAX_JOINT}")

    def _noise(self, extra, n):
        if extra is None:
            return self.noise_variance
        extra = checks.not_negative("noise_variance", extra, self.noise_variance.dtype)
        if extra.shape not in ((), (n,)):
            raise ValueError(f"noise_variance must be one number or have shape ({n},), got {extra.shape}")
        return self.noise_variance + jnp.asarray(extra, self.noise_variance.dtype)

    def _shaped(self, mean, spread, full_cov):
        if self.vector:
            return mean[:, 0], spread
        outputs = mean.shape[1]
        if full_cov:
            return mean, jnp.broadcast_to(spread, (outputs, *spread.shape))
        return mean, jnp.broadcast_to(spread[:, None], mean.shape)


@linalg.full_precision
def _project(post: Posterior, X):
    K = post.kernel(X, post.Z)
    mean = post.mean(X) + K @ post.weights
    return mean, linalg.times_lower_t(K, post.W), None if post.R is None else K @ post.R.T


@eqx.filter_jit
def _marginals(post: Posterior, refinement: _Refinement | None, X):
    """Means and variances, so many rows at a time that their kernel matrices stay small."""
    width = post.Z.shape[0] if refinement is None else len(refinement.scale)
    n, batch = X.shape[0], max(1, _BATCH_BYTES // (width * post.Z.dtype.itemsize))
    batches = math.ceil(n / batch)
    size = math.ceil(n / batches)
    padded = jnp.concatenate([X, jnp.broadcast_to(X[-1:], (batches * size - n, X.shape[1]))])
    out = jax.lax.map(lambda x: _marginal(post, refinement, x), padded.reshape(batches, size, -1))
    return jax.tree.map(lambda a: a.reshape(-1, *a.shape[2:])[:n], out)


@linalg.full_precision
def _marginal(post: Posterior, refinement, X):
    mean, removed, added = _project(post, X)
    var = jnp.maximum(post.kernel.diagonal(X) - jnp.sum(removed * removed, axis=1), 0.0)
    if added is not None:
        var = var + jnp.sum(added * added, axis=1)
    if refinement is not None:
        left, right = _correction(post, refinement, X, removed)
        var = jnp.maximum(var - jnp.sum(left * right, axis=1), 0.0)
    return mean, var


@eqx.filter_jit
@linalg.full_precision
def _joint(post: Posterior, refinement: _Refinement | None, X):
    mean, removed, added = _project(post, X)
    cov = post.kernel(X) - removed @ removed.T
    cov = cov if added is None else cov + added @ added.T
    if refinement is not None:
        left, right = _correction(post, refinement, X, removed)
        cov = cov - left @ right.T
    return mean, cov


@eqx.filter_jit
@linalg.full_precision
def _sample(post: Posterior, X, key, num_samples):
    mean, cov = _joint(post, None, X)
    # What is left of the prior's variance may be smaller than its rounding, so jitter is relative to the prior's.
    L = linalg.factorise(cov, jitter=0.0, scale=jnp.mean(post.kernel.diagonal(X))).lower
    return mean + L @ jax.random.normal(key, (num_samples, *mean.shape), mean.dtype)


@eqx.filter_jit
@linalg.full_precision
def _refine(post: Posterior, V) -> _Refinement:
    t = post._trained()
    scale = jax.lax.rsqrt(t.process.noise + t.rows.known)
    A = linalg.times_lower_t(post.kernel(t.rows.X, post.Z), post.W) * scale[:, None]
    R = post.kernel(t.rows.X) * (scale[:, None] * scale) - A @ A.T
    return _Refinement(scale, A, linalg.inverse_symmetric_root(0.5 * (R + R.T)), V)


def _correction(post: Posterior, refinement: _Refinement, X, removed):
    """Two factors of ``D*f D^{−½}(I − V)D^{−½} Df*`` (maths 8.2); ``removed`` holds the whitened rows of X."""
    scale, A, inverse_root, V = refinement
    cross = post.kernel(X, post._trained().rows.X) * scale - removed @ A.T
    left = cross @ inverse_root
    n, size = len(scale), V.shape[1]
    padded = jnp.pad(left, ((0, 0), (0, V.shape[0] * size - n))).reshape(len(X), -1, size)
    right = padded - jnp.einsum("nbi,bij->nbj", padded, V)
    return left, right.reshape(len(X), -1)[:, :n]
