"""What is maximised to choose the next point: log expected improvement, and paths of the posterior (maths 16.6)."""

import math
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import minimize
from scipy.stats import qmc

from tightgp.posterior import Posterior
from tightgp.posterior.paths import Paths

#: Candidates that are compared, and how many of the best are improved by their gradients.
_CANDIDATES, _STARTS = 512, 4
#: Share of the candidates that are drawn around the best point so far, and how far from it.
_LOCAL, _LOCAL_SD = 4, 0.05


def log_h(z: Float[Array, "..."]) -> Float[Array, "..."]:
    """``log(φ(z) + zΦ(z))``, stable for all z (Ament et al. 2023)."""
    log_phi = -0.5 * z * z - 0.5 * math.log(2 * math.pi)
    # Below the start of the tail the series' error, 105/z⁶, is less than that of the differences, eps z⁴/2.
    start = -((210 / float(jnp.finfo(log_phi.dtype).eps)) ** 0.1)
    near = jnp.maximum(z, -1.0)
    plain = jnp.log(jnp.exp(-0.5 * near * near) / math.sqrt(2 * math.pi) + near * jax.scipy.stats.norm.cdf(near))
    far = jnp.clip(z, start, -1.0)
    ratio = jax.scipy.special.log_ndtr(far) + jnp.log(-far) + 0.5 * far * far + 0.5 * math.log(2 * math.pi)
    tail = log_phi + jnp.log(-jnp.expm1(ratio))
    square = 1 / jnp.square(jnp.minimum(z, -1.0))
    series = log_phi + jnp.log(square) + jnp.log1p(square * (15 * square - 3))
    return jnp.where(z > -1.0, plain, jnp.where(z > start, tail, series))


def log_expected_improvement(mean, var, best) -> Float[Array, "..."]:
    """``log E[max(best − f, 0)]`` for ``f ~ N(mean, var)`` (14.6): what is gained below ``best``.

    >>> from tightgp.optimise.acquisition import log_expected_improvement
    >>> float(log_expected_improvement(0.0, 1.0, 0.0)).__round__(4)  # log(1/√(2π))
    -0.9189
    """
    sd = jnp.sqrt(jnp.maximum(var, jnp.finfo(jnp.result_type(var, float)).tiny))
    return log_h((best - mean) / sd) + jnp.log(sd)


@eqx.filter_jit
def improvement(given: tuple[Posterior, Array], U: Float[Array, "n d"]) -> Float[Array, " n"]:
    """Log expected improvement at points of the unit cube, of a posterior and the best value so far."""
    post, best = given
    mean, var = post.predict_f(U)
    return log_expected_improvement(mean, var, best)


@eqx.filter_jit
def descent(path: Paths, U: Float[Array, "n d"]) -> Float[Array, " n"]:
    """Minus the values of one path."""
    return -path(U)[0]


def maximise(value: Any, given: Any, d: int, best: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Points (k, d) of the unit cube where ``value(given, U)`` is large, best first, and their values.

    Quasi-random candidates, and some around the ``best`` point so far; the best of them are improved by L-BFGS-B.
    """
    rng = np.random.default_rng(seed)
    U = qmc.Sobol(d, rng=rng).random(_CANDIDATES)
    close = _CANDIDATES // _LOCAL
    U[:close] = (best + _LOCAL_SD * rng.normal(size=(close, d))).clip(0.0, 1.0)
    values = np.asarray(value(given, jnp.asarray(U)))
    order = np.argsort(-values)
    starts = U[order[:_STARTS]]

    def objective(flat: np.ndarray) -> tuple[float, np.ndarray]:
        total, slope = _slope(value, given, jnp.asarray(flat.reshape(starts.shape)))
        return -float(total), -np.asarray(slope).ravel()

    found = minimize(objective, starts.ravel(), jac=True, method="L-BFGS-B", bounds=[(0.0, 1.0)] * starts.size)
    improved = np.concatenate([found.x.reshape(starts.shape), U[order]])
    values = np.concatenate([np.asarray(value(given, jnp.asarray(improved[: len(starts)]))), values[order]])
    order = np.argsort(-values, kind="stable")
    return improved[order], values[order]


@eqx.filter_jit
def _slope(value, given, U):
    return eqx.filter_value_and_grad(lambda U: jnp.sum(value(given, U)))(U)
